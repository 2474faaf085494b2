//! Where new clients arrive, and where orders are carried out, one at a time.

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

/// Orders only wait for the proxy's own thread, which never blocks.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// Packets of a client that came before its own socket was there; what does not fit is lost, as on any network.
const EARLY: usize = 64;

type Done = SyncSender<io::Result<()>>;

/// What the proxy's owner can ask of it.
pub(super) enum Order {
    Refuse(SocketAddr, Done),
    Accept(Done),
    Close(Done),
}

/// Gives an order and waits until it is carried out.
pub(super) fn order(orders: &mpsc::Sender<Order>, order: impl FnOnce(Done) -> Order) -> Result<()> {
    let (done, carried_out) = sync_channel(1);
    orders.try_send(order(done)).map_err(|_| anyhow!("the proxy takes no orders"))?;
    carried_out
        .recv_timeout(ORDER_LIMIT)
        .context("the proxy did not carry out an order")?
        .context("the proxy")
}

struct Known {
    early: mpsc::Sender<Vec<u8>>,
    task: AbortHandle,
}

/// The proxy's port and the clients that it knows.
pub(super) struct Gate {
    addr: SocketAddr,
    door: Option<UdpSocket>,
    known: BTreeMap<SocketAddr, Known>,
    flows: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Gate {
    /// Listens on `addr`. Must be called inside the proxy's runtime.
    pub(super) fn open(addr: SocketAddr, shared: Arc<Shared>) -> io::Result<Self> {
        // Sharing the port is for the proxy's own sockets only: no other process may be on it.
        drop(std::net::UdpSocket::bind(addr)?);
        let door = Some(open(addr, None)?);
        Ok(Self { addr, door, known: BTreeMap::new(), flows: JoinSet::new(), shared })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until closed or until its owner is gone.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut packet = vec![0; DATAGRAM];
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Refuse(client, done)) => {
                        self.door = None;
                        self.end(client).await;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Accept(done)) => {
                        let _ = done.send(self.reopen());
                    }
                    Some(Order::Close(done)) => {
                        self.door = None;
                        self.flows.shutdown().await;
                        let _ = done.send(Ok(()));
                        return;
                    }
                    None => return,
                },
                (len, client) = next(self.door.as_ref(), &mut packet) => self.take(client, &packet[..len]),
            }
        }
    }

    fn take(&mut self, client: SocketAddr, packet: &[u8]) {
        if !self.known.contains_key(&client) {
            let (early, inbox) = mpsc::channel(EARLY);
            // A client that no socket can be had for is one that the network lost.
            let Ok(flow) = Flow::open(self.addr, client, inbox, &self.shared) else { return };
            let task = self.flows.spawn(flow.run());
            self.known.insert(client, Known { early, task });
        }
        if let Some(known) = self.known.get(&client) {
            let _ = known.early.try_send(packet.to_vec());
        }
    }

    /// Closes the sockets of a client; returns when they are closed.
    async fn end(&mut self, client: SocketAddr) {
        self.shared.forget(client);
        let Some(known) = self.known.remove(&client) else { return };
        known.task.abort();
        while !known.task.is_finished() {
            tokio::task::yield_now().await;
        }
        // What is finished is let go of here.
        while self.flows.try_join_next().is_some() {}
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.door.is_none() {
            self.door = Some(open(self.addr, None)?);
        }
        Ok(())
    }
}

/// The next packet of a client without a socket of its own; none while new clients are refused.
async fn next(door: Option<&UdpSocket>, packet: &mut [u8]) -> (usize, SocketAddr) {
    let Some(door) = door else { return std::future::pending().await };
    loop {
        if let Ok(came) = door.recv_from(packet).await {
            return came;
        }
    }
}
