//! WebTransport sessions over the simulated network: one ordered stream each way, a close that may overtake it, and an
//! idle timeout. Data that the network loses is sent again, as QUIC does; a process that dies says nothing.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tenure_meet_wire::transport::{
    Closed, PathStats, ReceiveLimits, RecvStream, SendStream, Session, Streams, TransportError,
};

use super::world::{Carriage, Life, World};
use crate::history::Nanos;
use crate::simulation::HostId;

/// How long an end waits for a sign of the other before it gives the session up.
const IDLE: Nanos = 5_000_000_000;
/// How often an end looks for one: what keep-alives would tell it.
const KEEP_ALIVE: Nanos = 1_000_000_000;

/// The sessions of a run.
#[derive(Default)]
pub(super) struct Wires {
    open: BTreeMap<u64, Arc<Mutex<Wire>>>,
    next: u64,
}

impl Wires {
    /// Cuts the sessions of a host, as a change of its network does.
    pub(super) fn hang_up(&mut self, host: HostId) {
        self.open.retain(|_, wire| !wire.lock().is_over());
        for wire in self.open.values() {
            let mut wire = wire.lock();
            if wire.ends.iter().any(|end| end.life.host == host) {
                wire.ends.iter_mut().for_each(|end| end.close(Closed::Lost("hung up".to_owned())));
            }
        }
    }

    /// The hosts that a client's open sessions lead to.
    pub(super) fn peers_of(&self, client: Life) -> Vec<Life> {
        let wires = self.open.values().map(|wire| wire.lock());
        let own = wires.filter(|wire| wire.ends[CLIENT].life == client && !wire.is_over());
        own.map(|wire| wire.ends[SERVER].life).collect()
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// A session between two hosts.
pub(super) struct Wire {
    pub(super) number: u64,
    ends: [End; 2],
}

struct End {
    life: Life,
    /// What has arrived in order.
    inbox: VecDeque<Bytes>,
    /// What has arrived before its turn.
    early: BTreeMap<u64, Option<Bytes>>,
    next_in: u64,
    next_out: u64,
    /// The peer sends no more.
    finished: bool,
    /// Whether the stream was taken from the session.
    taken: bool,
    closed: Option<Closed>,
    heard: Nanos,
    wakers: Vec<Waker>,
}

impl Wire {
    fn is_over(&self) -> bool {
        self.ends.iter().any(|end| end.closed.is_some())
    }
}

impl End {
    fn new(life: Life, now: Nanos) -> Self {
        Self {
            life,
            inbox: VecDeque::new(),
            early: BTreeMap::new(),
            next_in: 0,
            next_out: 0,
            finished: false,
            taken: false,
            closed: None,
            heard: now,
            wakers: Vec::new(),
        }
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    fn close(&mut self, closed: Closed) {
        if self.closed.is_none() {
            self.closed = Some(closed);
            self.wake();
        }
    }

    fn arrive(&mut self, number: u64, data: Option<Bytes>) {
        self.early.insert(number, data);
        while let Some(data) = self.early.remove(&self.next_in) {
            self.next_in += 1;
            match data {
                Some(bytes) => self.inbox.push_back(bytes),
                None => self.finished = true,
            }
        }
        self.wake();
    }

    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        self.wakers.retain(|waker| !waker.will_wake(context.waker()));
        self.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

/// Connects two lives; the first is the client's.
pub(super) fn connect(world: &Arc<World>, client: Life, server: Life) -> [Arc<SimSession>; 2] {
    let now = world.now();
    let mut wires = world.wires.lock();
    wires.next += 1;
    let number = wires.next;
    let wire = Arc::new(Mutex::new(Wire { number, ends: [client, server].map(|life| End::new(life, now)) }));
    wires.open.insert(number, wire.clone());
    drop(wires);
    [CLIENT, SERVER].map(|side| {
        keep_alive(world, &wire, side);
        Arc::new(SimSession { world: world.clone(), wire: wire.clone(), side })
    })
}

/// Gives an end up once it has heard nothing of the other for too long.
fn keep_alive(world: &Arc<World>, wire: &Arc<Mutex<Wire>>, side: usize) {
    let life = wire.lock().ends[side].life;
    let (again, watched) = (world.clone(), wire.clone());
    let check = move || {
        let now = again.now();
        let mut wire = watched.lock();
        let peer = (wire.ends[1 - side].life, wire.ends[1 - side].closed.is_none());
        let heard = {
            let mut state = again.simulation.lock();
            let there = state.lives(peer.0.host, peer.0.number) && state.host(peer.0.host).frozen == 0;
            if !state.lives(life.host, life.number) {
                return;
            }
            peer.1 && there && !state.cut(peer.0.host, life.host)
        };
        let end = &mut wire.ends[side];
        if heard {
            end.heard = now;
        } else if now - end.heard >= IDLE {
            end.close(Closed::Lost("timed out".to_owned()));
        }
        let over = end.closed.is_some();
        drop(wire);
        if !over {
            keep_alive(&again, &watched, side);
        }
    };
    world.after(life.host, KEEP_ALIVE, Box::new(check));
}

/// One end of a session. Dropping it closes it.
pub(super) struct SimSession {
    world: Arc<World>,
    wire: Arc<Mutex<Wire>>,
    side: usize,
}

impl SimSession {
    fn half(&self) -> Half {
        Half { world: self.world.clone(), wire: self.wire.clone(), side: self.side }
    }

    /// The stream of this session, once. At the server it appears with the first data.
    async fn stream(&self) -> Result<Streams, TransportError> {
        poll_fn(|context| {
            let mut wire = self.wire.lock();
            let end = &mut wire.ends[self.side];
            if let Some(closed) = &end.closed {
                return Poll::Ready(Err(TransportError::Closed(closed.clone())));
            }
            let visible = self.side == CLIENT || !end.inbox.is_empty();
            if end.taken || !visible {
                return end.wait(context);
            }
            end.taken = true;
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok((Box::new(self.half()), Box::new(self.half())))
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        self.close(0, "dropped");
    }
}

#[async_trait]
impl Session for SimSession {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        self.stream().await
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        self.stream().await
    }

    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError> {
        Err(TransportError::Closed(self.closed().await))
    }

    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError> {
        Err(TransportError::Closed(self.closed().await))
    }

    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError> {
        Err(TransportError::Datagram(bytes.len()))
    }

    async fn receive_datagram(&self) -> Result<Bytes, TransportError> {
        Err(TransportError::Closed(self.closed().await))
    }

    fn max_datagram(&self) -> usize {
        0
    }

    fn stats(&self) -> PathStats {
        PathStats::default()
    }

    fn set_send_window(&self, _bytes: u64) {}

    fn set_receive_limits(&self, _limits: ReceiveLimits) {}

    fn close(&self, code: u32, _reason: &str) {
        let (life, peer) = {
            let mut wire = self.wire.lock();
            if wire.ends[self.side].closed.is_some() {
                return;
            }
            wire.ends[self.side].close(Closed::Code(code));
            (wire.ends[self.side].life, wire.ends[1 - self.side].life)
        };
        let (wire, side) = (self.wire.clone(), 1 - self.side);
        let closes = Box::new(move || wire.lock().ends[side].close(Closed::Code(code)));
        self.world.carry(life, peer.host, Carriage::Once, closes);
    }

    async fn closed(&self) -> Closed {
        poll_fn(|context| {
            let mut wire = self.wire.lock();
            let end = &mut wire.ends[self.side];
            match &end.closed {
                Some(closed) => Poll::Ready(closed.clone()),
                None => end.wait(context),
            }
        })
        .await
    }

    fn remote(&self) -> Option<SocketAddr> {
        None
    }
}

/// Either half of the stream.
struct Half {
    world: Arc<World>,
    wire: Arc<Mutex<Wire>>,
    side: usize,
}

impl Half {
    fn transmit(&self, data: Option<Bytes>) -> Result<(), TransportError> {
        let (number, order, life, peer) = {
            let mut wire = self.wire.lock();
            let peer = wire.ends[1 - self.side].life;
            let number = wire.number;
            let end = &mut wire.ends[self.side];
            if let Some(closed) = &end.closed {
                return Err(TransportError::Closed(closed.clone()));
            }
            end.next_out += 1;
            (number, end.next_out - 1, end.life, peer)
        };
        if let Some(bytes) = &data {
            let now = self.world.now();
            let from_client = (self.side == CLIENT).then_some(life);
            self.world.judge.lock().saw_frame(now, number, from_client, peer, bytes);
        }
        let (world, wire, side) = (self.world.clone(), self.wire.clone(), 1 - self.side);
        let arrives = move || {
            let gone = !world.lives(peer) || wire.lock().ends[side].closed.is_some();
            if !gone {
                return wire.lock().ends[side].arrive(order, data);
            }
            // Nothing knows this session there any more, and the sender learns that.
            if let Some(now) = world.process_at(peer.host) {
                let reset = move || wire.lock().ends[1 - side].close(Closed::Lost("reset".to_owned()));
                world.carry(now, life.host, Carriage::Once, Box::new(reset));
            }
        };
        self.world.carry(life, peer.host, Carriage::Reliable, Box::new(arrives));
        Ok(())
    }
}

#[async_trait]
impl SendStream for Half {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        self.transmit(Some(bytes))
    }

    fn finish(&mut self) {
        // A session that is closed needs no end of its stream.
        drop(self.transmit(None));
    }

    fn reset(&mut self, _code: u32) {
        drop(self.transmit(None));
    }

    fn set_priority(&mut self, _priority: i32) {}

    async fn acknowledged(&mut self) {}
}

#[async_trait]
impl RecvStream for Half {
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError> {
        poll_fn(|context| {
            let mut wire = self.wire.lock();
            let end = &mut wire.ends[self.side];
            if let Some(mut bytes) = end.inbox.pop_front() {
                if bytes.len() > max {
                    end.inbox.push_front(bytes.split_off(max));
                }
                return Poll::Ready(Ok(Some(bytes)));
            }
            match &end.closed {
                Some(closed) => Poll::Ready(Err(TransportError::Closed(closed.clone()))),
                None if end.finished => Poll::Ready(Ok(None)),
                None => end.wait(context),
            }
        })
        .await
    }

    fn stop(&mut self, _code: u32) {}
}
