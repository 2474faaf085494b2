//! Render stream v1: whole frames from the owner of the lease. A pure state machine over frames and time.

use serde_json::{Value, json};

use crate::uptime::Ms;

/// LEDs in a frame of version 1.
pub(crate) const LEDS: usize = 320;
/// Bytes before the pixels.
pub(crate) const HEADER: usize = 16;
/// Bytes of pixels.
pub const PAYLOAD: usize = LEDS * 3;
/// Bytes of a frame.
pub const FRAME: usize = HEADER + PAYLOAD;
/// Frames that wait to be rendered: the newest, and the one being rendered.
pub(crate) const MAILBOX: u32 = 2;

const MAGIC: &[u8] = b"K1F1";

/// What a stream is asked to be; already within its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Frames per second that the client means to send.
    pub fps: u32,
    /// How long without a frame before the device draws by itself again.
    pub stale_ms: u32,
}

impl Wanted {
    /// Clamps what a client asks for.
    pub(crate) fn clamp(fps: Option<i64>, stale_ms: Option<i64>) -> Self {
        Self {
            fps: fps.unwrap_or(120).clamp(1, 240) as u32,
            stale_ms: stale_ms.unwrap_or(750).clamp(250, 5_000) as u32,
        }
    }
}

/// A stream under way.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Session {
    id: String,
    owner: u32,
    wanted: Wanted,
    /// The last sign of life: the start, then each good frame.
    alive: Ms,
}

/// What was counted since the start of the last stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    /// Good frames.
    pub rx: u32,
    /// Frames shown.
    pub rendered: u32,
    /// Good frames replaced by newer ones before they were shown.
    pub dropped: u32,
    /// Frames that are none, came without a stream, or are not newer than the last.
    pub invalid: u32,
    /// Frames of somebody who may not send any.
    pub blocked: u32,
    /// Streams that ended because no frame came.
    pub stale: u32,
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It will be shown unless a newer one comes first.
    Taken,
    /// There is no stream, it is malformed, or it is old.
    Invalid,
    /// Its sender may not send.
    Blocked,
}

/// The stream and its mailbox.
#[derive(Default)]
pub(crate) struct Stream {
    session: Option<Session>,
    counters: Counters,
    last_seq: Option<u32>,
    last_rx: Ms,
    mailbox: Option<Box<[u8; PAYLOAD]>>,
}

impl Stream {
    /// Starts for `owner`. A stream that it already has keeps its id; counters begin anew either way.
    pub(crate) fn start(&mut self, owner: u32, wanted: Wanted, fresh: impl FnOnce() -> String, now: Ms) {
        let id = match self.session.take() {
            Some(session) if session.owner == owner => session.id,
            _ => fresh(),
        };
        let stale = self.counters.stale;
        self.session = Some(Session { id, owner, wanted, alive: now });
        self.counters = Counters { stale, ..Counters::default() };
        self.last_seq = None;
        self.mailbox = None;
    }

    /// Ends, and answers with the state that the goodbye carries.
    pub(crate) fn stop(&mut self) -> Option<Value> {
        self.session.as_ref()?;
        let mut last = self.status();
        self.session = None;
        self.mailbox = None;
        last["active"] = false.into();
        Some(last)
    }

    /// Who streams.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.owner)
    }

    /// Frames per second that the stream asks for.
    pub(crate) fn fps(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.wanted.fps)
    }

    /// Takes a frame. `leased` says whether its sender may change the device.
    pub(crate) fn ingest(&mut self, sender: u32, leased: bool, frame: &[u8], now: Ms) -> Fate {
        let Some(session) = &mut self.session else {
            self.counters.invalid = self.counters.invalid.saturating_add(1);
            return Fate::Invalid;
        };
        if session.owner != sender || !leased {
            self.counters.blocked = self.counters.blocked.saturating_add(1);
            return Fate::Blocked;
        }
        let Some((seq, pixels)) = parse(frame).filter(|(seq, _)| newer(*seq, self.last_seq)) else {
            self.counters.invalid = self.counters.invalid.saturating_add(1);
            return Fate::Invalid;
        };
        session.alive = now;
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
        Fate::Taken
    }

    /// Takes the newest frame that was not shown yet.
    pub(crate) fn take(&mut self) -> Option<Box<[u8; PAYLOAD]>> {
        let frame = self.mailbox.take()?;
        self.counters.rendered = self.counters.rendered.saturating_add(1);
        Some(frame)
    }

    /// Ends a stream that has sent nothing for too long.
    pub(crate) fn expire(&mut self, now: Ms) -> Option<Value> {
        let session = self.session.as_ref()?;
        if session.alive.ago(now) <= session.wanted.stale_ms {
            return None;
        }
        self.counters.stale = self.counters.stale.saturating_add(1);
        self.stop()
    }

    /// When to look at [`Stream::expire`] again.
    pub(crate) fn expires(&self) -> Option<Ms> {
        self.session.as_ref().map(|session| session.alive.plus(session.wanted.stale_ms + 1))
    }

    /// The counters.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// What anybody may know of the stream.
    pub(crate) fn status(&self) -> Value {
        let wanted = self.session.as_ref().map_or(Wanted::clamp(None, None), |session| session.wanted);
        let Counters { rx, rendered, dropped, invalid, blocked, stale } = self.counters;
        json!({
            "active": self.session.is_some(),
            "sessionId": self.session.as_ref().map_or("", |session| session.id.as_str()),
            "ownerWsClientId": self.owner().unwrap_or_default(),
            "targetFps": wanted.fps, "recommendedFps": 120, "staleTimeoutMs": wanted.stale_ms,
            "frameContractVersion": 1, "pixelFormat": "rgb888", "ledCount": LEDS,
            "headerBytes": HEADER, "payloadBytes": PAYLOAD, "maxPayloadBytes": PAYLOAD, "mailboxDepth": MAILBOX,
            "lastFrameSeq": self.last_seq.unwrap_or_default(), "lastFrameRxMs": self.last_rx.0,
            "framesRx": rx, "framesRendered": rendered, "framesDroppedMailbox": dropped,
            "framesInvalid": invalid, "framesBlockedLease": blocked, "staleTimeouts": stale,
        })
    }
}

/// The sequence number and the pixels of a well-formed frame.
fn parse(frame: &[u8]) -> Option<(u32, &[u8; PAYLOAD])> {
    let (header, pixels) = frame.split_first_chunk::<HEADER>()?;
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let good = header.starts_with(MAGIC)
        && header[4] == 1
        && header[5] == 1
        && usize::from(short(12)) == LEDS
        && short(14) == 0;
    let seq = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    Some((seq, <&[u8; PAYLOAD]>::try_from(pixels).ok().filter(|_| good)?))
}

/// Whether a number comes after the last one, over the wrap if need be.
fn newer(seq: u32, last: Option<u32>) -> bool {
    last.is_none_or(|last| seq.wrapping_sub(last).cast_signed() > 0)
}

/// A frame of version 1, as a client sends it.
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

    fn started() -> Stream {
        let mut stream = Stream::default();
        stream.start(3, Wanted::clamp(None, None), || "rs_1".into(), Ms(100));
        stream
    }

    fn good(seq: u32) -> Vec<u8> {
        frame(seq, &[9; PAYLOAD])
    }

    #[test]
    fn minutes_of_frames_at_120_a_second_are_shown_or_replaced_and_one_waits_at_most() {
        let mut stream = started();
        // Shown 60 times a second, over the wrap of the sequence and of the clock.
        let (first, begun) = (u32::MAX - 7_000, Ms(u32::MAX - 60_000));
        stream.start(3, Wanted::clamp(Some(120), Some(750)), || "rs_2".into(), begun);
        for i in 0..14_400_u32 {
            let now = begun.plus(i * 1_000 / 120);
            assert_eq!(stream.ingest(3, true, &good(first.wrapping_add(i)), now), Fate::Taken, "{i}");
            assert!(stream.expire(now).is_none());
            if i % 2 == 1 {
                assert!(stream.take().is_some() && stream.take().is_none());
            }
        }
        let Counters { rx, rendered, dropped, invalid, .. } = stream.counters();
        assert_eq!((rx, rendered, dropped, invalid), (14_400, 7_200, 7_200, 0));
    }

    #[test]
    fn a_frame_has_976_bytes_and_each_part_of_its_header_counts() {
        assert_eq!(good(1).len(), 976);
        let mut stream = started();
        assert_eq!(stream.ingest(3, true, &good(1), Ms(101)), Fate::Taken);
        let spoil = |at: usize, value: u8| {
            let mut bytes = good(2);
            bytes[at] = value;
            bytes
        };
        let bad = [
            good(2)[..975].to_vec(),
            [good(2), vec![0]].concat(),
            Vec::new(),
            spoil(0, b'X'),
            spoil(4, 2),
            spoil(5, 2),
            spoil(12, 0),
            spoil(14, 1),
            spoil(15, 1),
        ];
        for (i, bytes) in bad.iter().enumerate() {
            assert_eq!(stream.ingest(3, true, bytes, Ms(102)), Fate::Invalid, "{i}");
            assert_eq!(stream.counters().invalid, i as u32 + 1);
        }
        assert_eq!(stream.ingest(3, true, &spoil(6, 0xff), Ms(103)), Fate::Taken, "flags are free");
        assert_eq!(stream.counters().rx, 2);
    }

    #[test]
    fn frames_are_checked_in_the_order_stream_owner_lease_form() {
        let mut stream = Stream::default();
        assert_eq!(stream.ingest(3, true, &good(1), Ms(0)), Fate::Invalid, "no stream");
        let mut stream = started();
        assert_eq!(stream.ingest(4, true, b"junk", Ms(101)), Fate::Blocked, "another sender");
        assert_eq!(stream.ingest(3, false, b"junk", Ms(101)), Fate::Blocked, "no lease");
        assert_eq!((stream.counters().blocked, stream.counters().invalid), (2, 0));
    }

    #[test]
    fn only_newer_frames_are_taken_over_the_wrap() {
        let mut stream = started();
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
            let fate = stream.ingest(3, true, &good(seq), Ms(101));
            assert_eq!(fate == Fate::Taken, taken, "{i}: {seq}");
        }
    }

    #[test]
    fn only_frames_that_were_never_shown_count_as_dropped() {
        let mut stream = started();
        stream.ingest(3, true, &good(1), Ms(101));
        assert!(stream.take().is_some() && stream.take().is_none());
        stream.ingest(3, true, &good(2), Ms(102));
        assert_eq!(stream.counters().dropped, 0, "the first was shown");
        stream.ingest(3, true, &frame(3, &[7; PAYLOAD]), Ms(103));
        assert_eq!(stream.take().unwrap()[0], 7, "the latest wins");
        let Counters { rx, rendered, dropped, .. } = stream.counters();
        assert_eq!((rx, rendered, dropped), (3, 2, 1));
    }

    #[test]
    fn silence_ends_the_stream_and_the_timer_starts_with_it() {
        let mut stream = started();
        assert!(stream.expire(Ms(850)).is_none());
        stream.ingest(3, true, &good(1), Ms(850));
        assert!(stream.expire(Ms(1_600)).is_none());
        assert_eq!(stream.ingest(3, true, b"junk", Ms(1_599)), Fate::Invalid, "junk is no sign of life");
        let last = stream.expire(Ms(1_601)).unwrap();
        assert_eq!(
            (&last["sessionId"], &last["active"], &last["staleTimeouts"]),
            (&"rs_1".into(), &false.into(), &1.into())
        );
        assert_eq!(stream.ingest(3, true, &good(2), Ms(1_602)), Fate::Invalid);
        assert_eq!(stream.status()["active"], false);
    }

    #[test]
    fn starting_again_keeps_the_id_and_counts_anew() {
        let mut stream = started();
        stream.ingest(3, true, &good(9), Ms(101));
        stream.start(3, Wanted::clamp(Some(500), Some(1)), || "rs_2".into(), Ms(102));
        let status = stream.status();
        assert_eq!((&status["sessionId"], &status["framesRx"]), (&"rs_1".into(), &0.into()));
        assert_eq!((&status["targetFps"], &status["staleTimeoutMs"]), (&240.into(), &250.into()));
        assert_eq!(stream.ingest(3, true, &good(1), Ms(103)), Fate::Taken, "numbers begin anew");
        stream.start(4, Wanted::clamp(None, None), || "rs_2".into(), Ms(104));
        assert_eq!(stream.status()["sessionId"], "rs_2");
    }
}
