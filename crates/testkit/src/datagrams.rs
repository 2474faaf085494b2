//! A UDP proxy that drops, delays or rejects the packets of a client.

mod flow;
mod gate;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;

use crate::free_port;
use flow::Shared;
use gate::{Gate, Order, order};

/// Attempts to bind another port when the chosen one is taken.
const PORT_ATTEMPTS: usize = 5;

/// A UDP proxy in front of one address. A client is the source address and port of packets.
///
/// It runs on its own thread, so its methods work in any test and take effect before they return. After it is dropped,
/// the kernel rejects packets to its port.
pub struct UdpProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    runtime: Option<Runtime>,
}

impl UdpProxy {
    /// Starts a proxy to `upstream`, which may start later.
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("testkit-udp")
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
                runtime.shutdown_background();
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

    /// Clients in the order of their first packets, without rejected ones.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.shared.clients()
    }

    /// Drops every packet of this client from now on, in both directions, without an error.
    pub fn lose(&self, client: SocketAddr) {
        self.shared.lose(client);
    }

    /// Sets whether packets of new clients are dropped.
    pub fn lose_new(&self, lost: bool) {
        self.shared.lose_new(lost);
    }

    /// Drops the packets of present and future clients that match `rule`; forwards all others.
    pub fn lose_those(&self, rule: impl Fn(SocketAddr) -> bool + Send + Sync + 'static) {
        self.shared.lose_those(Box::new(rule));
    }

    /// Loses this share of the packets of all clients and delays the others, in each direction. The same packets are lost
    /// in every run: the share decides, not the time. Zeros forward everything at once again.
    pub fn impair(&self, loss_permille: u32, delay: Duration) {
        self.shared.impair(loss_permille, delay);
    }

    /// Forwards the packets of all clients again.
    pub fn pass(&self) {
        self.shared.pass();
    }

    /// Rejects this client and all new ones, as a closed port does: a client gets an error with its next packet. Other
    /// clients are not affected.
    pub fn refuse(&self, client: SocketAddr) -> Result<()> {
        order(&self.orders, |done| Order::Refuse(client, done))
    }

    /// Accepts new clients again.
    pub fn accept(&self) -> Result<()> {
        order(&self.orders, Order::Accept)
    }

    /// Forwarded packets.
    pub fn forwarded(&self) -> u64 {
        self.shared.forwarded()
    }

    /// Dropped packets.
    pub fn lost(&self) -> u64 {
        self.shared.lost()
    }
}

impl Drop for UdpProxy {
    fn drop(&mut self) {
        let _ = order(&self.orders, Order::Close);
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits for it, which would panic in an async test.
            runtime.shutdown_background();
        }
    }
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
