//! One client of the proxy and its sockets.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{clock, lock};

/// The longest datagram.
pub(super) const DATAGRAM: usize = 65_536;

/// The seed of losses.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

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
    loss_permille: AtomicU32,
    delay_micros: AtomicU64,
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
            loss_permille: AtomicU32::new(0),
            delay_micros: AtomicU64::new(0),
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

    pub(super) fn impair(&self, loss_permille: u32, delay: Duration) {
        self.loss_permille.store(loss_permille, Ordering::SeqCst);
        self.delay_micros.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_micros.load(Ordering::SeqCst))
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

/// Delayed packets of a flow; further ones are lost.
const DELAYED: usize = 8_192;

/// Which way a packet goes.
#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

/// One client: its own socket on the port of the proxy, and a socket to the server.
pub(super) struct Flow {
    client: SocketAddr,
    near: UdpSocket,
    far: UdpSocket,
    early: mpsc::Receiver<Vec<u8>>,
    lost: Arc<AtomicBool>,
    shared: Arc<Shared>,
    random: u64,
    delayed: VecDeque<(Instant, Direction, Vec<u8>)>,
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
        Ok(Self {
            client,
            near,
            far,
            early,
            lost: shared.greet(client),
            shared: Arc::clone(shared),
            random: SEED,
            delayed: VecDeque::new(),
        })
    }

    /// Forwards packets until it is dropped. A socket error loses one packet.
    pub(super) async fn run(mut self) {
        let (mut request, mut reply) = (vec![0; DATAGRAM], vec![0; DATAGRAM]);
        loop {
            let due = self.delayed.front().map(|(at, ..)| *at);
            let wake = async {
                match due {
                    Some(at) => clock::wait_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(packet) = self.early.recv() => self.take(Direction::ToServer, &packet).await,
                came = self.near.recv_from(&mut request) => {
                    // Before it was connected, the socket may have received packets of other clients.
                    if let Ok((len, from)) = came && from == self.client {
                        self.take(Direction::ToServer, &request[..len]).await;
                    }
                }
                came = self.far.recv(&mut reply) => {
                    if let Ok(len) = came {
                        self.take(Direction::ToClient, &reply[..len]).await;
                    }
                }
                () = wake => {
                    if let Some((_, direction, packet)) = self.delayed.pop_front() {
                        self.carry(direction, &packet).await;
                    }
                }
            }
        }
    }

    /// Loses, delays or forwards a packet.
    async fn take(&mut self, direction: Direction, packet: &[u8]) {
        if self.happens(self.shared.loss_permille.load(Ordering::SeqCst)) {
            self.shared.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let delay = self.shared.delay();
        if delay.is_zero() && self.delayed.is_empty() {
            return self.carry(direction, packet).await;
        }
        if self.delayed.len() < DELAYED {
            self.delayed.push_back((clock::runtime_now() + delay, direction, packet.to_vec()));
        } else {
            self.shared.lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A fixed sequence (xorshift), so that a test fails the same way twice.
    fn happens(&mut self, permille: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1_000 < u64::from(permille)
    }

    async fn carry(&self, direction: Direction, packet: &[u8]) {
        let to = match direction {
            Direction::ToServer => &self.far,
            Direction::ToClient => &self.near,
        };
        let lost = self.lost.load(Ordering::SeqCst) || to.send(packet).await.is_err();
        let counter = if lost { &self.shared.lost } else { &self.shared.forwarded };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}
