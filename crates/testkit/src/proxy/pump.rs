//! One direction of one connection.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::runtime_now as now;

use super::lane::{Lane, Shared};
use super::trap::{Passed, Seen};
use super::{Direction, Mode};

const CHUNK: usize = 16 * 1024;

/// The maximum number of delayed bytes; then the sender is throttled.
const HELD: usize = 4 * 1024 * 1024;

/// Why the proxy ends a connection.
#[derive(Debug)]
pub(super) enum Break {
    /// One side failed or reset the connection; the other gets a reset.
    Reset,
    /// The trap on a number of bytes was triggered in this direction.
    AfterBytes(Direction),
    /// The trap on a reply was triggered.
    BeforeReply,
}

/// Moves bytes from `source` to `sink` according to the current mode.
pub(super) struct Pump<'a, R, W> {
    pub(super) direction: Direction,
    pub(super) source: R,
    pub(super) sink: W,
    pub(super) shared: &'a Shared,
    /// Set by a request whose reply must be withheld; read by the direction of replies.
    pub(super) marked: &'a AtomicBool,
}

/// How the sender ended. The receiver sees it after all earlier bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SenderEnd {
    Closed,
    Reset,
}

/// Received bytes that are not forwarded yet.
struct Held {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    end: Option<SenderEnd>,
    seen: Seen,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Pump<'_, R, W> {
    /// Runs until the sender has closed and everything is forwarded.
    pub(super) async fn run(mut self) -> Result<(), Break> {
        let mut modes = self.lane().mode.subscribe();
        let mut held = Held { chunks: VecDeque::new(), bytes: 0, end: None, seen: Seen::default() };
        let mut buffer = vec![0; CHUNK];
        loop {
            // Read before every write, so that bytes sent after a change never see the old mode.
            let mode = *modes.borrow_and_update();
            if mode == Mode::Drop {
                self.discard(&mut held);
            }
            let open = matches!(mode, Mode::Pass | Mode::Delay(_));
            if open && held.chunks.is_empty() {
                match held.end {
                    Some(SenderEnd::Closed) => {
                        return self.sink.shutdown().await.map_err(|_| Break::Reset);
                    }
                    Some(SenderEnd::Reset) => return Err(Break::Reset),
                    None => {}
                }
            }
            let reading = held.end.is_none() && mode != Mode::Stall && held.bytes < HELD;
            let writing = open && !held.chunks.is_empty();
            tokio::select! {
                biased;
                () = change(&mut modes) => {}
                read = self.source.read(&mut buffer), if reading => {
                    self.received(&mut held, mode, read.map(|n| &buffer[..n]))?;
                }
                wrote = write_front(&mut self.sink, &held.chunks, mode, self.shared, self.direction), if writing => {
                    self.wrote(&mut held, wrote)?;
                }
            }
        }
    }

    fn received(&self, held: &mut Held, mode: Mode, read: io::Result<&[u8]>) -> Result<(), Break> {
        let bytes = match read {
            Ok([]) => {
                held.end = Some(SenderEnd::Closed);
                return Ok(());
            }
            Ok(bytes) => bytes,
            Err(_) => {
                held.end = Some(SenderEnd::Reset);
                return Ok(());
            }
        };
        count(&self.lane().received, bytes.len());
        match self.direction {
            Direction::ToServer => {
                if mode != Mode::Drop && self.shared.traps.marks(&mut held.seen, bytes) {
                    self.marked.store(true, Ordering::SeqCst);
                }
            }
            Direction::ToClient => {
                if self.marked.load(Ordering::SeqCst) {
                    count(&self.lane().discarded, bytes.len());
                    return Err(Break::BeforeReply);
                }
            }
        }
        held.bytes += bytes.len();
        held.chunks.push_back((now(), bytes.to_vec()));
        Ok(())
    }

    fn wrote(&self, held: &mut Held, wrote: io::Result<Passed>) -> Result<(), Break> {
        let Ok(Passed { bytes, sprung }) = wrote else { return Err(Break::Reset) };
        if sprung {
            return Err(Break::AfterBytes(self.direction));
        }
        held.bytes -= bytes;
        if let Some((_, front)) = held.chunks.front_mut() {
            front.drain(..bytes);
        }
        held.chunks.pop_front_if(|(_, front)| front.is_empty());
        Ok(())
    }

    fn discard(&self, held: &mut Held) {
        count(&self.lane().discarded, held.bytes);
        held.chunks.clear();
        held.bytes = 0;
    }

    fn lane(&self) -> &Lane {
        self.shared.lane(self.direction)
    }
}

/// Writes as much as possible of the first chunk once it is due. Cancel safe: if a write was done, this returned.
async fn write_front(
    sink: &mut (impl AsyncWrite + Unpin),
    chunks: &VecDeque<(Instant, Vec<u8>)>,
    mode: Mode,
    shared: &Shared,
    direction: Direction,
) -> io::Result<Passed> {
    let Some((came, bytes)) = chunks.front() else { return pending().await };
    if let Mode::Delay(delay) = mode {
        until(*came, delay).await;
    }
    poll_fn(|context| {
        shared.traps.pass(direction, bytes.len(), |allowed| {
            let wrote = ready!(Pin::new(&mut *sink).poll_write(context, &bytes[..allowed]))?;
            count(&shared.lane(direction).forwarded, wrote);
            Poll::Ready(Ok(wrote))
        })
    })
    .await
}

/// Waits for a change of the mode. The proxy keeps the sender alive.
async fn change(modes: &mut watch::Receiver<Mode>) {
    if modes.changed().await.is_err() {
        pending().await
    }
}

fn count(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::SeqCst);
}

#[expect(clippy::disallowed_methods, reason = "real delays on the runtime of the proxy")]
async fn until(came: Instant, delay: Duration) {
    tokio::time::sleep_until(came + delay).await;
}
