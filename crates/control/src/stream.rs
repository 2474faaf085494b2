//! Render stream v1: complete frames from the owner of the lease. A pure state machine over frames and time.

use serde_json::{Value, json};

use crate::uptime::UptimeMs;

/// LEDs of a version 1 frame.
pub(crate) const LEDS: usize = 320;
/// Bytes of the header.
pub(crate) const HEADER: usize = 16;
/// Bytes of pixels.
pub const PAYLOAD: usize = LEDS * 3;
/// Bytes of a frame.
pub const FRAME: usize = HEADER + PAYLOAD;
/// Frames buffered: the newest one, and the one being rendered.
pub(crate) const MAILBOX_DEPTH: u32 = 2;

const MAGIC: &[u8] = b"K1F1";

/// Parameters of a stream, clamped to their bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamParams {
    /// Target frame rate of the client.
    pub fps: u32,
    /// Time without a frame after which the internal renderer takes over.
    pub stale_ms: u32,
}

impl StreamParams {
    /// Clamps the requested parameters.
    pub(crate) fn clamp(fps: Option<i64>, stale_ms: Option<i64>) -> Self {
        Self {
            fps: fps.unwrap_or(120).clamp(1, 240) as u32,
            stale_ms: stale_ms.unwrap_or(750).clamp(250, 5_000) as u32,
        }
    }
}

/// An active stream.
#[derive(Clone, PartialEq, Eq, Debug)]
struct StreamSession {
    id: String,
    owner: u32,
    params: StreamParams,
    /// The start of the stream or the last valid frame.
    last_valid: UptimeMs,
}

/// StreamCounters since the start of the last stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StreamCounters {
    /// Valid frames.
    pub rx: u32,
    /// Rendered frames.
    pub rendered: u32,
    /// Valid frames replaced by newer ones before they were rendered.
    pub dropped: u32,
    /// Frames that are malformed, outside of a stream, or not newer than the last one.
    pub invalid: u32,
    /// Frames of a client that may not send.
    pub blocked: u32,
    /// Streams ended by the stale timeout.
    pub stale: u32,
}

/// The outcome of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameOutcome {
    /// Accepted; rendered unless a newer frame arrives first.
    Accepted,
    /// There is no stream, or the frame is malformed or old.
    Invalid,
    /// The sender may not send frames.
    Blocked,
}

/// The stream and its mailbox.
#[derive(Default)]
pub(crate) struct RenderStream {
    session: Option<StreamSession>,
    counters: StreamCounters,
    last_seq: Option<u32>,
    last_rx: UptimeMs,
    mailbox: Option<Box<[u8; PAYLOAD]>>,
}

impl RenderStream {
    /// Starts a stream for `owner`. An active stream of the same owner keeps its id. The counters are reset.
    pub(crate) fn start(
        &mut self,
        owner: u32,
        params: StreamParams,
        random_id: impl FnOnce() -> String,
        now: UptimeMs,
    ) {
        let id = match self.session.take() {
            Some(session) if session.owner == owner => session.id,
            _ => random_id(),
        };
        let stale = self.counters.stale;
        self.session = Some(StreamSession { id, owner, params, last_valid: now });
        self.counters = StreamCounters { stale, ..StreamCounters::default() };
        self.last_seq = None;
        self.mailbox = None;
    }

    /// Stops the stream and returns its final status.
    pub(crate) fn stop(&mut self) -> Option<Value> {
        self.session.as_ref()?;
        let mut last = self.status();
        self.session = None;
        self.mailbox = None;
        last["active"] = false.into();
        Some(last)
    }

    /// The connection that streams.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.owner)
    }

    /// The target frame rate.
    pub(crate) fn fps(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.params.fps)
    }

    /// Handles a frame. `leased` is true if its sender owns the lease.
    pub(crate) fn ingest(&mut self, sender: u32, leased: bool, frame: &[u8], now: UptimeMs) -> FrameOutcome {
        let Some(session) = &mut self.session else {
            self.counters.invalid = self.counters.invalid.saturating_add(1);
            return FrameOutcome::Invalid;
        };
        if session.owner != sender || !leased {
            self.counters.blocked = self.counters.blocked.saturating_add(1);
            return FrameOutcome::Blocked;
        }
        let Some((seq, pixels)) = parse_frame(frame).filter(|(seq, _)| is_newer(*seq, self.last_seq)) else {
            self.counters.invalid = self.counters.invalid.saturating_add(1);
            return FrameOutcome::Invalid;
        };
        session.last_valid = now;
        self.last_seq = Some(seq);
        self.last_rx = now;
        self.counters.rx = self.counters.rx.saturating_add(1);
        match &mut self.mailbox {
            Some(waiting) => {
                waiting.copy_from_slice(pixels);
                self.counters.dropped = self.counters.dropped.saturating_add(1);
            }
            empty => *empty = Some(Box::new(*pixels)),
        }
        FrameOutcome::Accepted
    }

    /// Takes the newest frame that was not rendered yet.
    pub(crate) fn take_frame(&mut self) -> Option<Box<[u8; PAYLOAD]>> {
        let frame = self.mailbox.take()?;
        self.counters.rendered = self.counters.rendered.saturating_add(1);
        Some(frame)
    }

    /// Ends a stream after its stale timeout.
    pub(crate) fn expire(&mut self, now: UptimeMs) -> Option<Value> {
        let session = self.session.as_ref()?;
        if session.last_valid.ago(now) <= session.params.stale_ms {
            return None;
        }
        self.counters.stale = self.counters.stale.saturating_add(1);
        self.stop()
    }

    /// When to call [`RenderStream::expire`] again.
    pub(crate) fn expires(&self) -> Option<UptimeMs> {
        self.session.as_ref().map(|session| session.last_valid.plus(session.params.stale_ms + 1))
    }

    /// The counters.
    pub(crate) fn counters(&self) -> StreamCounters {
        self.counters
    }

    /// The public status of the stream.
    pub(crate) fn status(&self) -> Value {
        let params = self.session.as_ref().map_or(StreamParams::clamp(None, None), |session| session.params);
        let StreamCounters { rx, rendered, dropped, invalid, blocked, stale } = self.counters;
        json!({
            "active": self.session.is_some(),
            "sessionId": self.session.as_ref().map_or("", |session| session.id.as_str()),
            "ownerWsClientId": self.owner().unwrap_or_default(),
            "targetFps": params.fps, "recommendedFps": 120, "staleTimeoutMs": params.stale_ms,
            "frameContractVersion": 1, "pixelFormat": "rgb888", "ledCount": LEDS,
            "headerBytes": HEADER, "payloadBytes": PAYLOAD, "maxPayloadBytes": PAYLOAD, "mailboxDepth": MAILBOX_DEPTH,
            "lastFrameSeq": self.last_seq.unwrap_or_default(), "lastFrameRxMs": self.last_rx.0,
            "framesRx": rx, "framesRendered": rendered, "framesDroppedMailbox": dropped,
            "framesInvalid": invalid, "framesBlockedLease": blocked, "staleTimeouts": stale,
        })
    }
}

/// The sequence number and the pixels of a well-formed frame.
fn parse_frame(frame: &[u8]) -> Option<(u32, &[u8; PAYLOAD])> {
    let (header, pixels) = frame.split_first_chunk::<HEADER>()?;
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let valid = header.starts_with(MAGIC)
        && header[4] == 1
        && header[5] == 1
        && usize::from(short(12)) == LEDS
        && short(14) == 0;
    let seq = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    Some((seq, <&[u8; PAYLOAD]>::try_from(pixels).ok().filter(|_| valid)?))
}

/// Whether a sequence number follows the last one, wrap-safe.
fn is_newer(seq: u32, last: Option<u32>) -> bool {
    last.is_none_or(|last| seq.wrapping_sub(last).cast_signed() > 0)
}

/// Encodes a version 1 frame.
pub fn frame(seq: u32, pixels: &[u8; PAYLOAD]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME);
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&[1, 1, 0, 0]);
    frame.extend_from_slice(&seq.to_le_bytes());
    frame.extend_from_slice(&(LEDS as u16).to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(pixels);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started_stream() -> RenderStream {
        let mut stream = RenderStream::default();
        stream.start(3, StreamParams::clamp(None, None), || "rs_1".into(), UptimeMs(100));
        stream
    }

    fn valid_frame(seq: u32) -> Vec<u8> {
        frame(seq, &[9; PAYLOAD])
    }

    #[test]
    fn minutes_of_frames_at_120_fps_are_rendered_or_replaced_with_one_buffered_at_most() {
        let mut stream = started_stream();
        // Rendered 60 times a second, over the wrap of the sequence number and of the clock.
        let (first, begun) = (u32::MAX - 7_000, UptimeMs(u32::MAX - 60_000));
        stream.start(3, StreamParams::clamp(Some(120), Some(750)), || "rs_2".into(), begun);
        for i in 0..14_400_u32 {
            let now = begun.plus(i * 1_000 / 120);
            assert_eq!(
                stream.ingest(3, true, &valid_frame(first.wrapping_add(i)), now),
                FrameOutcome::Accepted,
                "{i}"
            );
            assert!(stream.expire(now).is_none());
            if i % 2 == 1 {
                assert!(stream.take_frame().is_some() && stream.take_frame().is_none());
            }
        }
        let StreamCounters { rx, rendered, dropped, invalid, .. } = stream.counters();
        assert_eq!((rx, rendered, dropped, invalid), (14_400, 7_200, 7_200, 0));
    }

    #[test]
    fn a_frame_has_976_bytes_and_its_whole_header_is_checked() {
        assert_eq!(valid_frame(1).len(), 976);
        let mut stream = started_stream();
        assert_eq!(stream.ingest(3, true, &valid_frame(1), UptimeMs(101)), FrameOutcome::Accepted);
        let corrupt = |at: usize, value: u8| {
            let mut bytes = valid_frame(2);
            bytes[at] = value;
            bytes
        };
        let bad = [
            valid_frame(2)[..975].to_vec(),
            [valid_frame(2), vec![0]].concat(),
            Vec::new(),
            corrupt(0, b'X'),
            corrupt(4, 2),
            corrupt(5, 2),
            corrupt(12, 0),
            corrupt(14, 1),
            corrupt(15, 1),
        ];
        for (i, bytes) in bad.iter().enumerate() {
            assert_eq!(stream.ingest(3, true, bytes, UptimeMs(102)), FrameOutcome::Invalid, "{i}");
            assert_eq!(stream.counters().invalid, i as u32 + 1);
        }
        assert_eq!(
            stream.ingest(3, true, &corrupt(6, 0xff), UptimeMs(103)),
            FrameOutcome::Accepted,
            "flags are ignored"
        );
        assert_eq!(stream.counters().rx, 2);
    }

    #[test]
    fn frames_check_stream_then_owner_then_lease_then_format() {
        let mut stream = RenderStream::default();
        assert_eq!(stream.ingest(3, true, &valid_frame(1), UptimeMs(0)), FrameOutcome::Invalid, "no stream");
        let mut stream = started_stream();
        assert_eq!(stream.ingest(4, true, b"junk", UptimeMs(101)), FrameOutcome::Blocked, "another sender");
        assert_eq!(stream.ingest(3, false, b"junk", UptimeMs(101)), FrameOutcome::Blocked, "no lease");
        assert_eq!((stream.counters().blocked, stream.counters().invalid), (2, 0));
    }

    #[test]
    fn only_newer_frames_are_accepted_over_the_wrap() {
        let mut stream = started_stream();
        let seqs = [
            (u32::MAX - 1, true),
            (u32::MAX, true),
            (u32::MAX, false),
            (0, true),
            (5, true),
            (4, false),
            (u32::MAX, false),
        ];
        for (i, (seq, taken)) in seqs.into_iter().enumerate() {
            let fate = stream.ingest(3, true, &valid_frame(seq), UptimeMs(101));
            assert_eq!(fate == FrameOutcome::Accepted, taken, "{i}: {seq}");
        }
    }

    #[test]
    fn only_frames_never_rendered_count_as_dropped() {
        let mut stream = started_stream();
        stream.ingest(3, true, &valid_frame(1), UptimeMs(101));
        assert!(stream.take_frame().is_some() && stream.take_frame().is_none());
        stream.ingest(3, true, &valid_frame(2), UptimeMs(102));
        assert_eq!(stream.counters().dropped, 0, "the first was rendered");
        stream.ingest(3, true, &frame(3, &[7; PAYLOAD]), UptimeMs(103));
        assert_eq!(stream.take_frame().unwrap()[0], 7, "the latest wins");
        let StreamCounters { rx, rendered, dropped, .. } = stream.counters();
        assert_eq!((rx, rendered, dropped), (3, 2, 1));
    }

    #[test]
    fn the_stale_timeout_starts_with_the_stream_and_ends_it() {
        let mut stream = started_stream();
        assert!(stream.expire(UptimeMs(850)).is_none());
        stream.ingest(3, true, &valid_frame(1), UptimeMs(850));
        assert!(stream.expire(UptimeMs(1_600)).is_none());
        assert_eq!(
            stream.ingest(3, true, b"junk", UptimeMs(1_599)),
            FrameOutcome::Invalid,
            "an invalid frame does not reset the timeout"
        );
        let last = stream.expire(UptimeMs(1_601)).unwrap();
        assert_eq!(
            (&last["sessionId"], &last["active"], &last["staleTimeouts"]),
            (&"rs_1".into(), &false.into(), &1.into())
        );
        assert_eq!(stream.ingest(3, true, &valid_frame(2), UptimeMs(1_602)), FrameOutcome::Invalid);
        assert_eq!(stream.status()["active"], false);
    }

    #[test]
    fn restarting_keeps_the_id_and_resets_the_counters() {
        let mut stream = started_stream();
        stream.ingest(3, true, &valid_frame(9), UptimeMs(101));
        stream.start(3, StreamParams::clamp(Some(500), Some(1)), || "rs_2".into(), UptimeMs(102));
        let status = stream.status();
        assert_eq!((&status["sessionId"], &status["framesRx"]), (&"rs_1".into(), &0.into()));
        assert_eq!((&status["targetFps"], &status["staleTimeoutMs"]), (&240.into(), &250.into()));
        assert_eq!(
            stream.ingest(3, true, &valid_frame(1), UptimeMs(103)),
            FrameOutcome::Accepted,
            "sequence numbers restart"
        );
        stream.start(4, StreamParams::clamp(None, None), || "rs_2".into(), UptimeMs(104));
        assert_eq!(stream.status()["sessionId"], "rs_2");
    }
}
