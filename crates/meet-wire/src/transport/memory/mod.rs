//! In-memory sessions for tests under virtual time: ordered, bounded, and cut on demand. [`Wire::set`] adds delay, loss
//! and reordering.

mod link;
mod listener;
mod stream;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_lease::Tick;
use tokio::sync::{Mutex, mpsc, watch};

use crate::transport::{
    Closed, PathStats, ReceiveLimits, RecvStream, SendStream, Session as TransportSession, Streams,
    TransportError,
};

pub use link::Conditions;
use link::{Arrival, Link};
pub use listener::{Dialer, Listener, Offer, listener};
use stream::stream;

/// Chunks that a stream buffers before its writer waits.
const DEPTH: usize = 64;
/// Streams and sessions waiting to be accepted.
const BACKLOG: usize = 64;
/// Datagrams that an end buffers. Further ones are lost, as on a network.
const DATAGRAMS: usize = 512;
/// Longest datagram, in bytes: what a QUIC path of 1,280 bytes carries.
const MAX_DATAGRAM: usize = 1_200;

type End = Arc<watch::Sender<Option<Closed>>>;

/// One end of a session.
pub struct Session {
    open: mpsc::Sender<Streams>,
    accept: Mutex<mpsc::Receiver<Streams>>,
    open_uni: mpsc::Sender<Box<dyn RecvStream>>,
    accept_uni: Mutex<mpsc::Receiver<Box<dyn RecvStream>>>,
    datagrams_out: mpsc::Sender<(Arrival, Bytes)>,
    datagrams_in: Mutex<Datagrams>,
    near: Arc<Link>,
    far: Arc<Link>,
    end: End,
    limits: parking_lot::Mutex<Limits>,
}

/// What an end was asked to allow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// The last call of [`TransportSession::set_receive_limits`].
    pub receive: Option<ReceiveLimits>,
    /// The last call of [`TransportSession::set_send_window`].
    pub send_window: Option<u64>,
}

/// The link between two ends.
#[derive(Clone)]
pub struct Wire {
    end: End,
    links: [Arc<Link>; 2],
}

/// Creates the two ends of a session.
pub fn pair() -> (Arc<Session>, Arc<Session>) {
    let (end, _) = watch::channel(None);
    let end = Arc::new(end);
    let (left, right) = (Inbox::new(), Inbox::new());
    let (to_left, to_right) = (left.outlet(), right.outlet());
    let (rightward, leftward) = (Arc::new(Link::default()), Arc::new(Link::default()));
    (
        side(to_right, left, (rightward.clone(), leftward.clone()), &end),
        side(to_left, right, (leftward, rightward), &end),
    )
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

/// What arrives at one end.
struct Inbox {
    streams: Channel<Streams>,
    uni: Channel<Box<dyn RecvStream>>,
    datagrams: Channel<(Arrival, Bytes)>,
}

/// Where the other end sends it.
struct Outlet {
    streams: mpsc::Sender<Streams>,
    uni: mpsc::Sender<Box<dyn RecvStream>>,
    datagrams: mpsc::Sender<(Arrival, Bytes)>,
}

impl Inbox {
    fn new() -> Self {
        Self {
            streams: mpsc::channel(BACKLOG),
            uni: mpsc::channel(BACKLOG),
            datagrams: mpsc::channel(DATAGRAMS),
        }
    }

    fn outlet(&self) -> Outlet {
        Outlet {
            streams: self.streams.0.clone(),
            uni: self.uni.0.clone(),
            datagrams: self.datagrams.0.clone(),
        }
    }
}

fn side(to_peer: Outlet, inbox: Inbox, (near, far): (Arc<Link>, Arc<Link>), end: &End) -> Arc<Session> {
    let datagrams = Datagrams { arriving: inbox.datagrams.1, delayed: BinaryHeap::new(), count: 0 };
    Arc::new(Session {
        open: to_peer.streams,
        accept: Mutex::new(inbox.streams.1),
        open_uni: to_peer.uni,
        accept_uni: Mutex::new(inbox.uni.1),
        datagrams_out: to_peer.datagrams,
        datagrams_in: Mutex::new(datagrams),
        near,
        far,
        end: end.clone(),
        limits: parking_lot::Mutex::default(),
    })
}

impl Session {
    /// The link between the two ends.
    pub fn wire(&self) -> Wire {
        Wire { end: self.end.clone(), links: [self.near.clone(), self.far.clone()] }
    }

    /// What this end was asked to allow.
    pub fn limits(&self) -> Limits {
        *self.limits.lock()
    }
}

impl Wire {
    /// Cuts the link as a network failure does: both ends see a loss without a code.
    pub fn cut(&self) {
        finish(&self.end, Closed::Lost("cut".to_owned()));
    }

    /// Changes the network for what is sent from now on, in both directions.
    pub fn set(&self, conditions: &Conditions) {
        for link in &self.links {
            link.set(conditions.clone());
        }
    }
}

/// Only the first close counts.
fn finish(end: &watch::Sender<Option<Closed>>, closed: Closed) {
    end.send_if_modified(|kept| {
        let first = kept.is_none();
        if first {
            *kept = Some(closed);
        }
        first
    });
}

async fn ended(end: &watch::Sender<Option<Closed>>) -> Closed {
    let mut end = end.subscribe();
    match end.wait_for(Option::is_some).await.map(|closed| closed.clone()) {
        Ok(Some(closed)) => closed,
        _ => Closed::Lost("gone".to_owned()),
    }
}

fn gone() -> TransportError {
    TransportError::Closed(Closed::Lost("gone".to_owned()))
}

/// The next item that the peer sent, unless the session ends first.
async fn next<T>(
    items: &Mutex<mpsc::Receiver<T>>,
    end: &watch::Sender<Option<Closed>>,
) -> Result<T, TransportError> {
    let mut items = items.lock().await;
    tokio::select! {
        biased;
        closed = ended(end) => Err(TransportError::Closed(closed)),
        item = items.recv() => item.ok_or_else(gone),
    }
}

/// Passes a stream to the peer, unless the session ends first.
async fn pass<T>(
    streams: &mpsc::Sender<T>,
    stream: T,
    end: &watch::Sender<Option<Closed>>,
) -> Result<(), TransportError> {
    tokio::select! {
        biased;
        closed = ended(end) => Err(TransportError::Closed(closed)),
        sent = streams.send(stream) => sent.map_err(|_| gone()),
    }
}

/// Datagrams on their way, by arrival.
struct Datagrams {
    arriving: mpsc::Receiver<(Arrival, Bytes)>,
    delayed: BinaryHeap<Reverse<(Tick, u64, Bytes)>>,
    count: u64,
}

impl Datagrams {
    /// The next datagram. Cancel safe.
    async fn next(&mut self, link: &Link) -> Option<Bytes> {
        loop {
            let first = self.delayed.peek().map(|Reverse((at, ..))| *at);
            let due = async {
                match (first, link.clock()) {
                    (Some(at), Some(clock)) => clock.sleep_until(at).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                arriving = self.arriving.recv() => match arriving? {
                    (Arrival::Now, bytes) => return Some(bytes),
                    (Arrival::At(at), bytes) => {
                        self.count += 1;
                        self.delayed.push(Reverse((at, self.count, bytes)));
                    }
                    (Arrival::Never, _) => {}
                },
                () = due => return self.delayed.pop().map(|Reverse((.., bytes))| bytes),
            }
        }
    }
}

#[async_trait]
impl TransportSession for Session {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        next(&self.accept, &self.end).await
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        let (sender, far_receiver) = stream(&self.near, &self.end);
        let (far_sender, receiver) = stream(&self.far, &self.end);
        pass(&self.open, (far_sender, far_receiver), &self.end).await?;
        Ok((sender, receiver))
    }

    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError> {
        next(&self.accept_uni, &self.end).await
    }

    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError> {
        let (sender, far_receiver) = stream(&self.near, &self.end);
        pass(&self.open_uni, far_receiver, &self.end).await?;
        Ok(sender)
    }

    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError> {
        if let Some(closed) = self.end.borrow().clone() {
            return Err(TransportError::Closed(closed));
        }
        if bytes.len() > MAX_DATAGRAM {
            return Err(TransportError::Datagram(bytes.len()));
        }
        match self.near.datagram(bytes.len()) {
            Arrival::Never => {}
            // The peer does not keep up: the datagram is lost.
            arrival => drop(self.datagrams_out.try_send((arrival, bytes))),
        }
        Ok(())
    }

    async fn receive_datagram(&self) -> Result<Bytes, TransportError> {
        let mut datagrams = self.datagrams_in.lock().await;
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            datagram = datagrams.next(&self.far) => datagram.ok_or_else(gone),
        }
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM
    }

    fn stats(&self) -> PathStats {
        let ((near, near_now), (far, far_now)) = (self.near.delay(), self.far.delay());
        let (sent, received) = (self.near.carried(), self.far.carried());
        PathStats {
            rtt: near_now + far_now,
            min_rtt: near + far,
            sent_bytes: sent.bytes,
            lost_bytes: sent.lost_bytes,
            sent_packets: sent.packets,
            lost_packets: sent.lost_packets,
            received_bytes: received.bytes,
        }
    }

    fn set_send_window(&self, bytes: u64) {
        self.limits.lock().send_window = Some(bytes);
    }

    fn set_receive_limits(&self, limits: ReceiveLimits) {
        self.limits.lock().receive = Some(limits);
    }

    fn close(&self, code: u32, _reason: &str) {
        finish(&self.end, Closed::Code(code));
    }

    async fn closed(&self) -> Closed {
        ended(&self.end).await
    }

    fn remote(&self) -> Option<SocketAddr> {
        None
    }
}

impl Drop for Session {
    /// Dropping an end closes it, as the exit of a process does.
    fn drop(&mut self) {
        finish(&self.end, Closed::Lost("dropped".to_owned()));
    }
}
