//! The loop that accepts new clients and executes commands, one at a time.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::flow::{DATAGRAM, Flow, Shared, open};

/// Commands wait only for the thread of the proxy, which never blocks.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// Packets queued for a client until its socket exists; the rest is dropped.
const EARLY: usize = 64;

type Done = SyncSender<io::Result<()>>;

/// The commands of the owner.
pub(super) enum Order {
    Refuse(SocketAddr, Done),
    Accept(Done),
    Close(Done),
}

/// Sends a command and waits until it is executed.
pub(super) fn order(orders: &mpsc::Sender<Order>, order: impl FnOnce(Done) -> Order) -> Result<()> {
    let (done, carried_out) = sync_channel(1);
    orders.try_send(order(done)).map_err(|_| anyhow!("the proxy does not accept commands"))?;
    carried_out
        .recv_timeout(ORDER_LIMIT)
        .context("the proxy did not execute the command")?
        .context("the command of the proxy failed")
}

struct Known {
    early: mpsc::Sender<Vec<u8>>,
    task: AbortHandle,
}

/// The port of the proxy and its clients.
pub(super) struct Gate {
    addr: SocketAddr,
    listener: Option<UdpSocket>,
    known: BTreeMap<SocketAddr, Known>,
    flows: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Gate {
    /// Listens on `addr`. Must be called inside the proxy's runtime.
    pub(super) fn open(addr: SocketAddr, shared: Arc<Shared>) -> io::Result<Self> {
        // Only sockets of the proxy share the port: no other process may use it.
        drop(std::net::UdpSocket::bind(addr)?);
        let listener = Some(open(addr, None)?);
        Ok(Self { addr, listener, known: BTreeMap::new(), flows: JoinSet::new(), shared })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Runs until the command channel is closed.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut packet = vec![0; DATAGRAM];
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Refuse(client, done)) => {
                        self.listener = None;
                        self.end_flow(client).await;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Accept(done)) => {
                        let _ = done.send(self.reopen());
                    }
                    Some(Order::Close(done)) => {
                        self.listener = None;
                        self.flows.shutdown().await;
                        let _ = done.send(Ok(()));
                        return;
                    }
                    None => return,
                },
                (len, client) = next(self.listener.as_ref(), &mut packet) => self.accept(client, &packet[..len]),
            }
        }
    }

    fn accept(&mut self, client: SocketAddr, packet: &[u8]) {
        if !self.known.contains_key(&client) {
            let (early, inbox) = mpsc::channel(EARLY);
            // A client without a socket loses its packets.
            let Ok(flow) = Flow::open(self.addr, client, inbox, &self.shared) else { return };
            let task = self.flows.spawn(flow.run());
            self.known.insert(client, Known { early, task });
        }
        if let Some(known) = self.known.get(&client) {
            let _ = known.early.try_send(packet.to_vec());
        }
    }

    /// Closes the sockets of a client; returns when they are closed.
    async fn end_flow(&mut self, client: SocketAddr) {
        self.shared.forget(client);
        let Some(known) = self.known.remove(&client) else { return };
        known.task.abort();
        while !known.task.is_finished() {
            tokio::task::yield_now().await;
        }
        // Reap finished flows.
        while self.flows.try_join_next().is_some() {}
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            self.listener = Some(open(self.addr, None)?);
        }
        Ok(())
    }
}

/// The next packet of a new client; pending while new clients are rejected.
async fn next(listener: Option<&UdpSocket>, packet: &mut [u8]) -> (usize, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        if let Ok(came) = listener.recv_from(packet).await {
            return came;
        }
    }
}
