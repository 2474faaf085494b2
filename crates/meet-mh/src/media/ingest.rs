//! Reads groups and appends them as they arrive.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tenure_lease::Tick;
use tenure_meet_wire::media::group::{FrameHeader, GroupHeader, GroupParser, Part};
use tenure_meet_wire::media::{MediaError, StreamCode};
use tenure_meet_wire::transport::{RecvStream, Session, TransportError};
use tokio::task::JoinSet;

use super::group::Piece;
use super::incoming::{Begin, Begun, GroupSource};
use super::meeting::Meeting;
use super::meter::Meter;
use crate::{limits, metric};

/// Bytes per read.
const READ: usize = 64 * 1024;
/// Reads that are appended together when they are there already.
const READS: usize = 32;

/// Accepts groups, at most this many at once, until the session ends.
pub(crate) async fn accept_groups(
    meeting: Arc<Meeting>,
    source: Arc<dyn GroupSource>,
    session: Arc<dyn Session>,
    most: usize,
) {
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            stream = session.accept_uni(), if readers.len() < most => match stream {
                Ok(stream) => {
                    let (meeting, source) = (meeting.clone(), source.clone());
                    let reader = GroupReader { meeting, source, parser: GroupParser::default() };
                    readers.spawn(reader.read(stream));
                }
                Err(_) => return,
            },
            Some(_) = readers.join_next() => {}
        }
    }
}

/// What ended a group before its end.
enum GroupFailure {
    /// The publisher reset it or is gone.
    Lost,
    /// The publisher violated the protocol or a limit.
    Violation(StreamCode),
    /// It is not wanted.
    Stop(u32),
}

impl From<TransportError> for GroupFailure {
    fn from(_: TransportError) -> Self {
        Self::Lost
    }
}

impl From<MediaError> for GroupFailure {
    fn from(_: MediaError) -> Self {
        Self::Violation(StreamCode::TooLarge)
    }
}

struct GroupReader {
    meeting: Arc<Meeting>,
    source: Arc<dyn GroupSource>,
    parser: GroupParser,
}

impl GroupReader {
    async fn read(mut self, mut stream: Box<dyn RecvStream>) {
        match self.read_group(&mut *stream).await {
            Ok(()) | Err(GroupFailure::Lost) => {}
            Err(GroupFailure::Stop(code)) => stream.stop(code),
            Err(GroupFailure::Violation(code)) => {
                stream.stop(code.number());
                self.source.violation();
            }
        }
    }

    async fn read_group(&mut self, stream: &mut dyn RecvStream) -> Result<(), GroupFailure> {
        let (header, started) = self.read_header(stream).await?;
        let begun = self.begin(&header, started).await?;
        let read = self.read_frames(stream, &header, &begun).await;
        match &read {
            Ok(()) => begun.group.finish(),
            // Subscribers learn that the source is lost, never an end that was none.
            Err(_) => begun.group.erase(StreamCode::Superseded),
        }
        read
    }

    async fn read_header(
        &mut self,
        stream: &mut dyn RecvStream,
    ) -> Result<(GroupHeader, Tick), GroupFailure> {
        let mut started = None;
        loop {
            let Some(bytes) = stream.receive(READ).await? else { return Err(MediaError::Truncated.into()) };
            let started = *started.get_or_insert_with(|| self.meeting.now());
            self.take(&bytes)?;
            match self.parser.next_part()? {
                Some(Part::Group(header)) => return Ok((header, started)),
                // An unknown type harms nothing.
                Some(_) => return Err(GroupFailure::Stop(0)),
                None => {}
            }
        }
    }

    /// Counts bytes against the limit of the session and passes them to the parser.
    fn take(&mut self, bytes: &Bytes) -> Result<(), GroupFailure> {
        self.meeting.shared.load.received(bytes.len());
        let now = self.meeting.now();
        if !self.source.take(bytes.len(), now) {
            metric::frame_dropped("ingest_limit");
            return Err(GroupFailure::Stop(StreamCode::TooLarge.number()));
        }
        Ok(self.parser.push(bytes)?)
    }

    /// Begins the group, once its alias is published and the session active.
    async fn begin(&mut self, header: &GroupHeader, started: Tick) -> Result<Begun, GroupFailure> {
        let clock = self.meeting.shared.clock.clone();
        let mut late = clock.sleep_until(started + limits::UNKNOWN_STREAM);
        let Some(mut changed) = self.source.changes() else { return Err(GroupFailure::Lost) };
        loop {
            match self.source.begin(header, self.parser.raw_header(), started) {
                Begin::Group(begun) => return Ok(begun),
                Begin::Stop(code) => return Err(GroupFailure::Stop(code.number())),
                Begin::Wait => {}
            }
            tokio::select! {
                changed = changed.changed() => changed.map_err(|_| GroupFailure::Lost)?,
                () = &mut late => {
                    metric::frame_dropped("unknown_alias");
                    return Err(GroupFailure::Stop(StreamCode::NotSubscribed.number()));
                }
            }
        }
    }

    async fn read_frames(
        &mut self,
        stream: &mut dyn RecvStream,
        header: &GroupHeader,
        begun: &Begun,
    ) -> Result<(), GroupFailure> {
        let Begun { group, meter, moved } = begun;
        let mut erased = group.progress();
        let (mut frame, mut ended) = (OpenFrame::default(), false);
        loop {
            let pieces = self.parts(header, &mut frame, meter)?;
            if !pieces.is_empty() {
                match group.append(pieces) {
                    Ok(false) => {}
                    Ok(true) => self.meeting.evicted(group),
                    Err(code) => return Err(GroupFailure::Stop(code.number())),
                }
            }
            if ended {
                return Ok(self.parser.finish()?);
            }
            let received = tokio::select! {
                biased;
                received = stream.receive(READ) => received?,
                _ = erased.wait_for(|erased| *erased) => {
                    let code = group.append([]).err().unwrap_or(StreamCode::Superseded);
                    return Err(GroupFailure::Stop(code.number()));
                }
            };
            let Some(bytes) = received else { return Ok(self.parser.finish()?) };
            moved.mark(self.meeting.now());
            self.take(&bytes)?;
            for _ in 0..READS {
                match receive_now(stream) {
                    Some(Ok(Some(bytes))) => self.take(&bytes)?,
                    Some(Err(error)) => return Err(error.into()),
                    Some(Ok(None)) => {
                        ended = true;
                        break;
                    }
                    None => break,
                }
            }
        }
    }

    /// The complete parts of what was received, in own allocations.
    fn parts(
        &mut self,
        group: &GroupHeader,
        frame: &mut OpenFrame,
        meter: &Meter,
    ) -> Result<Vec<Piece>, GroupFailure> {
        let (mut pieces, now) = (Vec::new(), self.meeting.now());
        while let Some(part) = self.parser.next_part()? {
            match part {
                Part::Group(_) | Part::Unknown(_) => {}
                Part::Frame(header) => {
                    meter.frame(group.timestamp_us.saturating_add(header.delta_us), now);
                    let raw = self.parser.raw_header();
                    *frame = OpenFrame { header: Some((header, raw)), temporal: header.flags.temporal };
                }
                Part::Payload { bytes, .. } => {
                    meter.received(frame.temporal, bytes.len());
                    pieces.push(match frame.header.take() {
                        Some((header, raw)) => {
                            let mut whole = BytesMut::with_capacity(raw.len() + bytes.len());
                            whole.extend_from_slice(&raw);
                            whole.extend_from_slice(&bytes);
                            let frame = Some(header.flags.temporal);
                            Piece { bytes: whole.freeze(), arrived: now, frame }
                        }
                        None => Piece { bytes, arrived: now, frame: None },
                    });
                }
            }
        }
        Ok(pieces)
    }
}

/// The frame whose payload is being received.
#[derive(Default)]
struct OpenFrame {
    /// Its header, until the first bytes of the payload arrive.
    header: Option<(FrameHeader, Bytes)>,
    temporal: u8,
}

/// What can be received without waiting.
fn receive_now(stream: &mut dyn RecvStream) -> Option<Result<Option<Bytes>, TransportError>> {
    let mut receive = stream.receive(READ);
    match receive.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(received) => Some(received),
        Poll::Pending => None,
    }
}
