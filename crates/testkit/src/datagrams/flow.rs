//! One client of the proxy and its sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::lock;

/// The longest datagram.
pub(super) const DATAGRAM: usize = 65_536;

/// Whether the packets of a client are dropped.
pub(super) type Rule = Box<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// The state that the owner sets and the flows read.
pub(super) struct Shared {
    pub(super) upstream: SocketAddr,
    lose_new: AtomicBool,
    forwarded: AtomicU64,
    lost: AtomicU64,
    known: Mutex<Known>,
    rule: Mutex<Option<Rule>>,
}

#[derive(Default)]
struct Known {
    order: Vec<SocketAddr>,
    lost: BTreeMap<SocketAddr, Arc<AtomicBool>>,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            lose_new: AtomicBool::new(false),
            forwarded: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            known: Mutex::default(),
            rule: Mutex::default(),
        }
    }

    pub(super) fn clients(&self) -> Vec<SocketAddr> {
        lock(&self.known).order.clone()
    }

    pub(super) fn lose(&self, client: SocketAddr) {
        if let Some(lost) = lock(&self.known).lost.get(&client) {
            lost.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn lose_new(&self, lost: bool) {
        self.lose_new.store(lost, Ordering::SeqCst);
    }

    /// Drops the packets of present and future clients that match a rule.
    pub(super) fn lose_those(&self, rule: Rule) {
        let mut kept = lock(&self.rule);
        for (client, lost) in &lock(&self.known).lost {
            lost.store(rule(*client), Ordering::SeqCst);
        }
        *kept = Some(rule);
    }

    pub(super) fn pass(&self) {
        self.lose_new(false);
        *lock(&self.rule) = None;
        lock(&self.known).lost.values().for_each(|lost| lost.store(false, Ordering::SeqCst));
    }

    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::SeqCst)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }

    /// Adds a client and returns the flag that says whether its packets are dropped.
    fn greet(&self, client: SocketAddr) -> Arc<AtomicBool> {
        let rule = lock(&self.rule);
        let named = rule.as_ref().is_some_and(|rule| rule(client));
        let lost = Arc::new(AtomicBool::new(named || self.lose_new.load(Ordering::SeqCst)));
        let mut known = lock(&self.known);
        known.order.push(client);
        known.lost.insert(client, Arc::clone(&lost));
        lost
    }

    pub(super) fn forget(&self, client: SocketAddr) {
        let mut known = lock(&self.known);
        known.order.retain(|other| *other != client);
        known.lost.remove(&client);
    }
}

/// A socket on `local` with SO_REUSEPORT. A socket with `peer` receives the packets of that peer in preference to a
/// socket without one.
pub(super) fn open(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<UdpSocket> {
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &local)?;
    if let Some(peer) = peer {
        connect(&fd, &peer)?;
    }
    let socket = StdSocket::from(fd);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// One client: its own socket on the port of the proxy, and a socket to the server.
pub(super) struct Flow {
    client: SocketAddr,
    near: UdpSocket,
    far: UdpSocket,
    early: mpsc::Receiver<Vec<u8>>,
    lost: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Flow {
    pub(super) fn open(
        local: SocketAddr,
        client: SocketAddr,
        early: mpsc::Receiver<Vec<u8>>,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        let near = open(local, Some(client))?;
        let far = open(SocketAddr::from(([127, 0, 0, 1], 0)), Some(shared.upstream))?;
        Ok(Self { client, near, far, early, lost: shared.greet(client), shared: Arc::clone(shared) })
    }

    /// Forwards packets until it is dropped. A socket error loses one packet.
    pub(super) async fn run(mut self) {
        let (mut request, mut reply) = (vec![0; DATAGRAM], vec![0; DATAGRAM]);
        loop {
            tokio::select! {
                Some(packet) = self.early.recv() => self.carry(&self.far, &packet).await,
                came = self.near.recv_from(&mut request) => {
                    // Before it was connected, the socket may have received packets of other clients.
                    if let Ok((len, from)) = came && from == self.client {
                        self.carry(&self.far, &request[..len]).await;
                    }
                }
                came = self.far.recv(&mut reply) => {
                    if let Ok(len) = came {
                        self.carry(&self.near, &reply[..len]).await;
                    }
                }
            }
        }
    }

    async fn carry(&self, to: &UdpSocket, packet: &[u8]) {
        let lost = self.lost.load(Ordering::SeqCst) || to.send(packet).await.is_err();
        let counter = if lost { &self.shared.lost } else { &self.shared.forwarded };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}
