//! The loop that accepts connections and executes commands, one at a time.

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

/// Commands wait only for the thread of the proxy, which never blocks.
const ORDER_LIMIT: Duration = Duration::from_secs(20);

/// The backlog, for the largest burst of connections in a test. A client beyond it would retry after a second.
const BACKLOG: u32 = 1024;

/// The channel for the result of a command.
type Done = SyncSender<io::Result<()>>;

/// The commands of the owner.
pub(super) enum Order {
    Cut(Done),
    Refuse(Done),
    Accept(Done),
    Close(Done),
}

/// Sends a command and waits until it is executed. This blocks, also in an async test: the proxy has its own thread.
pub(super) fn order(orders: &mpsc::Sender<Order>, order: impl FnOnce(Done) -> Order) -> Result<()> {
    let (done, carried_out) = sync_channel(1);
    orders.try_send(order(done)).map_err(|_| anyhow!("the proxy does not accept commands"))?;
    carried_out
        .recv_timeout(ORDER_LIMIT)
        .context("the proxy did not execute the command")?
        .context("the command of the proxy failed")
}

/// The listener of the proxy and its connections.
pub(super) struct Gate {
    addr: SocketAddr,
    listener: Option<DualListener>,
    links: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Gate {
    /// Listens on `addr`. Must be called inside the proxy's runtime.
    pub(super) fn open(addr: SocketAddr, shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self { addr, listener: Some(DualListener::open(addr)?), links: JoinSet::new(), shared })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Runs until the command channel is closed.
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
                        self.listener = None;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Accept(done)) => {
                        let _ = done.send(self.reopen());
                    }
                    Some(Order::Close(done)) => {
                        self.cut().await;
                        self.listener = None;
                        let _ = done.send(Ok(()));
                        return;
                    }
                    None => return,
                },
                client = next(self.listener.as_ref()) => self.accept(client),
                Some(_) = self.links.join_next() => {}
            }
        }
    }

    fn accept(&mut self, client: TcpStream) {
        self.links.spawn(Link::new(client, Arc::clone(&self.shared)).serve());
    }

    /// Accepts the connections that the kernel has already established: for their clients they are open.
    fn take_waiting(&mut self) {
        while let Some(client) = self.listener.as_ref().and_then(DualListener::waiting) {
            self.accept(client);
        }
    }

    async fn cut(&mut self) {
        self.take_waiting();
        self.links.shutdown().await;
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            self.listener = Some(DualListener::open(self.addr)?);
        }
        Ok(())
    }
}

/// Two handles of one listener: an asynchronous one to wait for clients, and a non-blocking one to check for a client now.
/// The asynchronous one reports only the last event of the runtime.
struct DualListener {
    listener: TcpListener,
    now: net::TcpListener,
}

impl DualListener {
    fn open(addr: SocketAddr) -> io::Result<Self> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        // Connections in TIME_WAIT must not prevent the port from being bound again.
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

/// The next client; pending while connections are refused. A failed accept affects only that client.
async fn next(listener: Option<&DualListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        if let Ok((client, _)) = listener.listener.accept().await {
            return client;
        }
    }
}
