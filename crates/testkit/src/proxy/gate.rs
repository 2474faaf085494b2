//! The listening side: takes connections and obeys orders, one at a time.

use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lane::Shared;
use super::link::Link;

/// Orders only wait for the proxy's own thread, which never blocks.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// Room for the largest burst of connections a test makes; a client beyond it would wait a second for its retry.
const BACKLOG: u32 = 1024;

/// Where an order says that it was carried out.
type Done = SyncSender<io::Result<()>>;

/// What the proxy's owner can ask of it.
pub(super) enum Order {
    Cut(Done),
    Refuse(Done),
    Accept(Done),
    Close(Done),
}

/// Gives an order and waits until it is carried out. This blocks, even inside an async test: the proxy runs on
/// a thread of its own, so it is never the one that is blocked.
pub(super) fn order(orders: &mpsc::Sender<Order>, order: impl FnOnce(Done) -> Order) -> Result<()> {
    let (done, carried_out) = sync_channel(1);
    orders.try_send(order(done)).map_err(|_| anyhow!("the proxy takes no orders"))?;
    carried_out
        .recv_timeout(ORDER_LIMIT)
        .context("the proxy did not carry out an order")?
        .context("the proxy")
}

/// The proxy's listener and the connections it took.
pub(super) struct Gate {
    addr: SocketAddr,
    door: Option<ListenerGate>,
    links: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Gate {
    /// Listens on `addr`. Must be called inside the proxy's runtime.
    pub(super) fn open(addr: SocketAddr, shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self { addr, door: Some(ListenerGate::open(addr)?), links: JoinSet::new(), shared })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until closed or until its owner is gone.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(Order::Cut(done)) => {
                        self.cut().await;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Refuse(done)) => {
                        self.take_waiting();
                        self.door = None;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Accept(done)) => {
                        let _ = done.send(self.reopen());
                    }
                    Some(Order::Close(done)) => {
                        self.cut().await;
                        self.door = None;
                        let _ = done.send(Ok(()));
                        return;
                    }
                    None => return,
                },
                client = next(self.door.as_ref()) => self.take(client),
                Some(_) = self.links.join_next() => {}
            }
        }
    }

    fn take(&mut self, client: TcpStream) {
        self.links.spawn(Link::new(client, Arc::clone(&self.shared)).serve());
    }

    /// Takes the connections the kernel has made already: to their clients they are as current as any.
    fn take_waiting(&mut self) {
        while let Some(client) = self.door.as_ref().and_then(ListenerGate::waiting) {
            self.take(client);
        }
    }

    async fn cut(&mut self) {
        self.take_waiting();
        self.links.shutdown().await;
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.door.is_none() {
            self.door = Some(ListenerGate::open(self.addr)?);
        }
        Ok(())
    }
}

/// A listener, seen twice: to wait for a client, and to ask whether one is there right now. The waiting one cannot
/// answer that, as it goes by the last event of the runtime.
struct ListenerGate {
    listener: TcpListener,
    now: net::TcpListener,
}

impl ListenerGate {
    fn open(addr: SocketAddr) -> io::Result<Self> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        // Old connections of this port linger after it was closed, and must not keep it from opening again.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let now = socket.listen(BACKLOG)?.into_std()?;
        Ok(Self { listener: TcpListener::from_std(now.try_clone()?)?, now })
    }

    fn waiting(&self) -> Option<TcpStream> {
        let (client, _) = self.now.accept().ok()?;
        client.set_nonblocking(true).ok()?;
        TcpStream::from_std(client).ok()
    }
}

/// The next client; none while connections are refused. A failed accept concerns that client alone.
async fn next(door: Option<&ListenerGate>) -> TcpStream {
    let Some(door) = door else { return std::future::pending().await };
    loop {
        if let Ok((client, _)) = door.listener.accept().await {
            return client;
        }
    }
}
