//! A TCP proxy that injects faults into connections.

mod gate;
mod lane;
mod link;
mod pump;
mod trap;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;

use crate::{free_port, lock};
use gate::{Gate, Order, order};
use lane::Shared;

/// Attempts to bind another port when the chosen one is taken.
const PORT_ATTEMPTS: usize = 5;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies.
    ToClient,
}

/// What happens to the bytes of one direction, on all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwarded at once.
    Pass,
    /// Forwarded with this delay.
    Delay(Duration),
    /// Read and dropped, as are a close and a reset of the sender. Dropped bytes are missing from the stream:
    /// [cut](Proxy::cut) before passing again, or the protocol sees a corrupt stream.
    Drop,
    /// Not read: the buffers of the sender fill up. Nothing is lost when the mode changes again.
    Stall,
}

/// The bytes of one direction since the start, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from the sender.
    pub received: u64,
    /// Written to the receiver.
    pub forwarded: u64,
    /// Dropped, by [`Mode::Drop`] or by a trap.
    pub discarded: u64,
}

/// A proxy in front of one address.
///
/// It runs on its own thread, so its methods work in any test and take effect before they return: bytes sent after
/// [`set`](Self::set) returned are subject to the new mode. Dropping it resets all connections.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy to `upstream`, which may start later.
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("testkit-proxy")
            .enable_all()
            .build()
            .context("cannot start the runtime of the proxy")?;
        let shared = Arc::new(Shared::new(upstream));
        let (orders, inbox) = mpsc::channel(16);
        let gate = {
            let _inside = runtime.enter();
            open_gate(&shared)
        };
        let gate = match gate {
            Ok(gate) => gate,
            Err(error) => {
                shut_down(runtime);
                return Err(error);
            }
        };
        let addr = gate.addr();
        runtime.spawn(gate.run(inbox));
        Ok(Self { addr, shared, orders, runtime: Some(runtime) })
    }

    /// The address for clients; it never changes.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url_for_redis(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// `http://127.0.0.1:PORT`
    pub fn url_for_http(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Sets the mode of one direction. Bytes already held back follow the new mode.
    pub fn set(&self, direction: Direction, mode: Mode) {
        self.shared.lane(direction).mode.send_replace(mode);
    }

    /// Sets the mode of both directions.
    pub fn set_both(&self, mode: Mode) {
        self.set(Direction::ToServer, mode);
        self.set(Direction::ToClient, mode);
    }

    /// Routes new connections to another address.
    pub fn point_to(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Resets every current connection on both sides. New ones are accepted.
    pub fn cut(&self) -> Result<()> {
        order(&self.orders, Order::Cut)
    }

    /// Stops listening: the kernel refuses new connections. Current ones stay.
    pub fn refuse(&self) -> Result<()> {
        order(&self.orders, Order::Refuse)
    }

    /// Listens again, on the same port.
    pub fn accept(&self) -> Result<()> {
        order(&self.orders, Order::Accept)
    }

    /// Once: after `bytes` more bytes in `direction`, counted over all connections, the connection that carried the last of
    /// them ends. The receiver reads exactly those bytes and then EOF; the sender gets a reset. With 0, the next bytes end
    /// the connection and none of them arrives.
    pub fn cut_after_bytes(&self, direction: Direction, bytes: u64) {
        self.shared.traps.arm_after(direction, bytes);
    }

    /// Once: the next request reaches the server, and the client gets a reset instead of the reply. The connection to the
    /// server stays open, so that it does not cancel the request.
    ///
    /// The proxy does not parse the protocol: the next bytes of a client are the request, the next bytes on that connection
    /// the reply. Set the trap while no request is in flight.
    pub fn cut_before_reply(&self) {
        self.shared.traps.arm_before_reply(Vec::new());
    }

    /// [`cut_before_reply`](Self::cut_before_reply) for the next request that contains `bytes`, so that handshakes
    /// and health checks do not trigger it.
    pub fn cut_before_reply_to(&self, bytes: impl AsRef<[u8]>) {
        self.shared.traps.arm_before_reply(bytes.as_ref().to_vec());
    }

    /// Removes the traps that were not triggered.
    pub fn disarm(&self) {
        self.shared.traps.disarm();
    }

    /// The number of triggered traps since the start.
    pub fn traps_sprung(&self) -> u64 {
        self.shared.traps.sprung()
    }

    /// The number of accepted connections since the start.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The number of open connections, including half-closed ones.
    pub fn open_connections(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The byte counters of one direction.
    pub fn traffic(&self, direction: Direction) -> Traffic {
        let lane = self.shared.lane(direction);
        self.shared.traps.between_writes(|| Traffic {
            received: lane.received.load(Ordering::SeqCst),
            forwarded: lane.forwarded.load(Ordering::SeqCst),
            discarded: lane.discarded.load(Ordering::SeqCst),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = order(&self.orders, Order::Close);
        if let Some(runtime) = self.runtime.take() {
            shut_down(runtime);
        }
    }
}

/// Shuts the runtime down without waiting, which would panic in an async test.
fn shut_down(runtime: Runtime) {
    runtime.shutdown_background();
}

fn open_gate(shared: &Arc<Shared>) -> Result<Gate> {
    let mut attempt = 1;
    loop {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        match Gate::open(addr, Arc::clone(shared)) {
            Err(_) if attempt < PORT_ATTEMPTS => attempt += 1,
            outcome => return outcome.with_context(|| format!("cannot listen on {addr}")),
        }
    }
}
