//! A UDP proxy that loses the packets of one client, or refuses them.

mod flow;
mod gate;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;

use crate::free_port;
use flow::Shared;
use gate::{Gate, Order, order};

/// How often another port is tried when another process took the chosen one first.
const PORT_ATTEMPTS: usize = 5;

/// A proxy of datagrams in front of one address, which forwards until it is set otherwise. A client is an address and port that packets come from.
///
/// It runs on a thread of its own, so its calls work from any test and take effect before they return. Dropping it ends it: the kernel
/// refuses what comes after.
pub struct UdpProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    runtime: Option<Runtime>,
}

impl UdpProxy {
    /// Starts a proxy to `upstream`, which need not be there yet.
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("testkit-udp")
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
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let addr = gate.addr();
        runtime.spawn(gate.run(inbox));
        Ok(Self { addr, shared, orders, runtime: Some(runtime) })
    }

    /// Where clients send to, also after a time of refusing.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Clients in the order of their first packets, those that were refused later left out.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.shared.clients()
    }

    /// Loses every packet of this client from now on, in both directions, without an error.
    pub fn lose(&self, client: SocketAddr) {
        self.shared.lose(client);
    }

    /// Whether packets of clients that have not been seen yet are lost as well.
    pub fn lose_new(&self, lost: bool) {
        self.shared.lose_new(lost);
    }

    /// Loses the packets of the clients that `rule` names, of those that are there and of those that come; forwards all others.
    pub fn lose_those(&self, rule: impl Fn(SocketAddr) -> bool + Send + Sync + 'static) {
        self.shared.lose_those(Box::new(rule));
    }

    /// Forwards the packets of all clients again.
    pub fn pass(&self) {
        self.shared.pass();
    }

    /// Refuses this client and all that are new, as a machine does where nothing listens: the client gets an error with its next packet. The other
    /// clients stay.
    pub fn refuse(&self, client: SocketAddr) -> Result<()> {
        order(&self.orders, |done| Order::Refuse(client, done))
    }

    /// Takes new clients again.
    pub fn accept(&self) -> Result<()> {
        order(&self.orders, Order::Accept)
    }

    /// Packets that reached the other side.
    pub fn forwarded(&self) -> u64 {
        self.shared.forwarded()
    }

    /// Packets that were lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost()
    }
}

impl Drop for UdpProxy {
    fn drop(&mut self) {
        let _ = order(&self.orders, Order::Close);
        if let Some(runtime) = self.runtime.take() {
            // Dropping a runtime waits for it, and waiting panics inside the async test that may be doing this.
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
            outcome => return outcome.with_context(|| format!("listen on {addr}")),
        }
    }
}
