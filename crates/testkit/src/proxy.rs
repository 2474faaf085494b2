//! A TCP proxy that treats a connection as badly as a test wants.

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

/// How often another port is tried when another process took the chosen one first.
const PORT_ATTEMPTS: usize = 5;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies.
    ToClient,
}

/// What happens to the bytes of one direction, on every connection, old and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwarded at once.
    Pass,
    /// Forwarded this long after they came.
    Delay(Duration),
    /// Read and thrown away, as are a close and a reset of the sender. What was thrown away is missing from the
    /// stream for good: [cut](Proxy::cut) before passing again, or the protocol above sees garbage.
    Drop,
    /// Not read at all: the sender's buffers fill up. Nothing is lost, so passing again continues cleanly.
    Stall,
}

/// The bytes of one direction since the start, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from the sender.
    pub received: u64,
    /// Written to the receiver.
    pub forwarded: u64,
    /// Thrown away, by [`Mode::Drop`] or by a trap.
    pub discarded: u64,
}

/// A proxy in front of one address, which forwards until it is set otherwise.
///
/// It runs on a thread of its own, so its calls work from any test and take effect before they return: bytes sent
/// after [`set`](Self::set) returned obey the new mode. Dropping it resets all connections.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy to `upstream`, which need not listen yet.
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("testkit-proxy")
            .enable_all()
            .build()
            .context("start the proxy's runtime")?;
        let shared = Arc::new(Shared::new(upstream));
        let (orders, inbox) = mpsc::channel(16);
        let gate = {
            let _inside = runtime.enter();
            open_gate(&shared)
        };
        let gate = match gate {
            Ok(gate) => gate,
            Err(error) => {
                give_up(runtime);
                return Err(error);
            }
        };
        let addr = gate.addr();
        runtime.spawn(gate.run(inbox));
        Ok(Self { addr, shared, orders, runtime: Some(runtime) })
    }

    /// Where clients connect, also after a time of refusing.
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

    /// Leads new connections to another address.
    pub fn point_to(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Resets every current connection on both sides. New ones are still welcome.
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

    /// Once: after `bytes` more bytes in `direction`, counted over all connections, the connection that carried
    /// the last of them ends. Its receiver reads exactly those bytes and then the end, its sender gets a reset.
    /// With 0 the next bytes end the connection and none of them arrives.
    pub fn cut_after_bytes(&self, direction: Direction, bytes: u64) {
        self.shared.traps.arm_after(direction, bytes);
    }

    /// Once: the next request goes to the server, and when the server answers, the client gets a reset instead of
    /// the answer. The server's side stays open, so nothing tells the server to abandon the request.
    ///
    /// The proxy knows no protocol: a request is whatever the client sends next, an answer whatever comes back on
    /// that connection after it. Arm it while nothing is under way.
    pub fn cut_before_reply(&self) {
        self.shared.traps.arm_before_reply(Vec::new());
    }

    /// [`cut_before_reply`](Self::cut_before_reply) for the next request that contains `bytes`, so that greetings
    /// and health checks do not spring the trap.
    pub fn cut_before_reply_to(&self, bytes: impl AsRef<[u8]>) {
        self.shared.traps.arm_before_reply(bytes.as_ref().to_vec());
    }

    /// Removes the traps that were not sprung.
    pub fn disarm(&self) {
        self.shared.traps.disarm();
    }

    /// How many traps were sprung since the start.
    pub fn traps_sprung(&self) -> u64 {
        self.shared.traps.sprung()
    }

    /// How many connections were taken since the start.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open now, a half-closed one included.
    pub fn open_connections(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The byte counters of one direction. Bytes that were received are counted.
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
            give_up(runtime);
        }
    }
}

/// Dropping a runtime waits for it, and waiting panics inside the async test that may be doing this.
fn give_up(runtime: Runtime) {
    runtime.shutdown_background();
}

fn open_gate(shared: &Arc<Shared>) -> Result<Gate> {
    let mut attempt = 1;
    loop {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        match Gate::open(addr, Arc::clone(shared)) {
            Err(_) if attempt < PORT_ATTEMPTS => attempt += 1,
            outcome => return outcome.with_context(|| format!("listen on {addr}")),
        }
    }
}
