//! A pump sends the groups of one video subscription, each on a stream of its own, at the pace of its receiver: a
//! participant or another handler.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tenure_lease::{Sleep, Tick};
use tenure_meet_wire::media::group::encode_header_from;
use tenure_meet_wire::media::{Alias, StreamCode};
use tenure_meet_wire::transport::{SendStream, Session, TransportError};
use tokio::sync::watch;

use super::group::{Cursor, End, Group, Piece, Read, Reading};
use super::meeting::Meeting;
use super::member::Order;
use super::subscribe::{Next, Plan};
use super::tail::Tails;
use crate::metric;

/// Where a pump gets its groups from.
pub(crate) trait Feed: Send + Sync {
    /// The next group after the one of this rendition and serial.
    fn next(&self, done: Option<(u8, u64)>) -> Next;

    /// Whether to go on with a group.
    fn plan(&self, at: (u8, u64)) -> Plan;

    /// The receiver is behind, and there is no newer group.
    fn fell_behind(&self);

    /// Something was sent.
    fn sent(&self);
}

/// A pump.
pub(crate) struct Pump {
    pub(crate) meeting: Arc<Meeting>,
    pub(crate) feed: Box<dyn Feed>,
    pub(crate) session: Arc<dyn Session>,
    pub(crate) alias: Alias,
    pub(crate) order: Arc<Order>,
    pub(crate) kind: &'static str,
}

/// How a group ended at the subscriber.
enum Ended {
    Finished,
    Reset(StreamCode),
    /// The subscriber stopped the stream, or the session is over.
    Gone,
}

/// The group that is being sent.
struct Sending<'a> {
    group: &'a Group,
    cursor: Cursor,
    at: (u8, u64),
    latency: Duration,
    erased: watch::Receiver<bool>,
    changes: watch::Receiver<u64>,
}

impl Pump {
    /// Sends groups until the subscription ends.
    pub(crate) async fn run(self) {
        let mut tails = Tails::new(self.order.cancel.clone());
        self.send_groups(&mut tails).await;
        tails.end().await;
    }

    async fn send_groups(&self, tails: &mut Tails) {
        let mut changes = self.order.changes();
        let mut done = None;
        loop {
            changes.borrow_and_update();
            match self.feed.next(done) {
                Next::Gone => return,
                Next::Nothing => tokio::select! {
                    biased;
                    () = self.order.cancel.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                },
                Next::Group { group, temporal, priority, latency } => {
                    let at = (group.info.rendition, group.info.serial);
                    let sending = Sending {
                        group: &group,
                        cursor: Cursor::new(temporal),
                        at,
                        latency,
                        erased: group.progress(),
                        changes: self.order.changes(),
                    };
                    let finished = self.send(&group, sending, priority).await;
                    done = Some(at);
                    if let Some(stream) = finished {
                        tails.add(stream, group);
                    }
                }
            }
            if self.order.cancel.is_cancelled() {
                return;
            }
        }
    }

    /// Sends a group. Returns the stream if it was finished.
    async fn send(
        &self,
        group: &Reading,
        mut sending: Sending<'_>,
        priority: u8,
    ) -> Option<Box<dyn SendStream>> {
        let opened = self.open(&mut sending).await?;
        let Ok(mut stream) = opened else {
            // The session is over, and its end cancels this pump.
            self.order.cancel.cancelled().await;
            return None;
        };
        stream.set_priority(priority.into());
        let header = encode_header_from(self.alias, &group.info.header);
        let first = Piece { bytes: header, arrived: group.info.started, frame: None };
        let mut ended = self.write(&mut *stream, first, &mut sending).await;
        metric::forward_latency(self.meeting.now().since(group.info.started));
        if ended.is_ok() {
            ended = self.send_pieces(&mut *stream, &mut sending).await;
        }
        self.order.set_write_since(None);
        self.order.set_queued(0);
        match ended.err().unwrap_or(Ended::Finished) {
            Ended::Finished => {
                stream.finish();
                return Some(stream);
            }
            Ended::Reset(code) => {
                metric::frame_dropped(reason(code));
                stream.reset(code.number());
            }
            // The subscriber does not want the rest.
            Ended::Gone => stream.reset(StreamCode::NotSubscribed.number()),
        }
        None
    }

    /// Opens a stream. `None` when the group is not to be sent any more: a subscriber that allows no stream pins no old
    /// group.
    async fn open(&self, sending: &mut Sending<'_>) -> Option<Result<Box<dyn SendStream>, TransportError>> {
        let mut opening = self.session.open_uni();
        loop {
            tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return None,
                _ = sending.erased.wait_for(|erased| *erased) => return None,
                opened = &mut opening => return Some(opened),
                _ = sending.changes.changed() => {}
            }
            if !matches!(self.look(sending), Ok(false)) {
                return None;
            }
        }
    }

    async fn send_pieces(&self, stream: &mut dyn SendStream, sending: &mut Sending<'_>) -> Result<(), Ended> {
        let clock = &self.meeting.shared.clock;
        // Set when a newer group is there: this one must not keep the receiver waiting.
        let mut late = None;
        loop {
            match sending.group.read(&mut sending.cursor) {
                Read::Piece(piece) => {
                    late = None;
                    let begins = piece.frame.is_some();
                    self.write(stream, piece, sending).await?;
                    if begins {
                        metric::frame_forwarded(self.kind);
                    }
                }
                Read::End(End::Finished) => return Err(Ended::Finished),
                Read::End(End::Reset(code)) => return Err(Ended::Reset(code)),
                Read::Evicted => return Err(Ended::Reset(StreamCode::Stale)),
                Read::Wait => tokio::select! {
                    biased;
                    () = self.order.cancel.cancelled() => return Err(Ended::Gone),
                    _ = sending.erased.changed() => {}
                    _ = sending.changes.changed() => {
                        if self.look(sending)? {
                            late.get_or_insert_with(|| clock.sleep_until(clock.now() + sending.latency));
                        }
                    }
                    () = wait(&mut late) => return Err(Ended::Reset(StreamCode::Stale)),
                },
            }
        }
    }

    /// Looks whether the group is still the right one. Returns whether a newer one is there.
    fn look(&self, sending: &mut Sending<'_>) -> Result<bool, Ended> {
        match self.feed.plan(sending.at) {
            Plan::Stop(code) => Err(Ended::Reset(code)),
            Plan::Continue { temporal, newer } => {
                sending.cursor.limit(temporal);
                Ok(newer)
            }
        }
    }

    /// Writes a piece. While the subscriber does not take it, a newer group may take its place.
    async fn write(
        &self,
        stream: &mut dyn SendStream,
        piece: Piece,
        sending: &mut Sending<'_>,
    ) -> Result<(), Ended> {
        let len = piece.bytes.len();
        self.write_bytes(stream, piece.bytes, piece.arrived + sending.latency, sending).await?;
        self.meeting.shared.load.sent(len);
        self.feed.sent();
        Ok(())
    }

    async fn write_bytes(
        &self,
        stream: &mut dyn SendStream,
        bytes: Bytes,
        deadline: Tick,
        sending: &mut Sending<'_>,
    ) -> Result<(), Ended> {
        let len = bytes.len();
        let mut write = stream.send(bytes);
        if let Poll::Ready(written) = poll_once(&mut write).await {
            return written.map_err(|_| Ended::Gone);
        }
        let clock = &self.meeting.shared.clock;
        self.order.set_write_since(Some(clock.now()));
        self.order.set_queued(sending.group.unread_bytes(&sending.cursor) + len);
        let (mut late, mut is_late, mut asked) = (clock.sleep_until(deadline), false, false);
        loop {
            tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return Err(Ended::Gone),
                _ = sending.erased.wait_for(|erased| *erased) => {
                    return Err(match sending.group.read(&mut sending.cursor) {
                        Read::End(End::Reset(code)) => Ended::Reset(code),
                        _ => Ended::Reset(StreamCode::Superseded),
                    });
                }
                written = &mut write => {
                    self.order.set_write_since(None);
                    self.order.set_queued(0);
                    return written.map_err(|_| Ended::Gone);
                }
                _ = sending.changes.changed() => {}
                () = &mut late, if !is_late => is_late = true,
            }
            let newer = self.look(sending)?;
            if is_late && newer {
                return Err(Ended::Reset(StreamCode::Stale));
            }
            if is_late && !std::mem::replace(&mut asked, true) {
                self.feed.fell_behind();
            }
        }
    }
}

/// Waits for a timer, or forever without one.
async fn wait(timer: &mut Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

const fn reason(code: StreamCode) -> &'static str {
    match code {
        StreamCode::Stale => "stale",
        StreamCode::Muted => "muted",
        StreamCode::Superseded => "superseded",
        StreamCode::RenditionSwitched => "rendition_switched",
        StreamCode::TooLarge => "too_large",
        StreamCode::NotSubscribed => "not_subscribed",
    }
}

type Write<'a> = Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send + 'a>>;

/// Polls a write once. Most complete at once, and need no timer.
async fn poll_once(write: &mut Write<'_>) -> Poll<Result<(), TransportError>> {
    std::future::poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await
}
