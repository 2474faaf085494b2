//! The network between hosts: loss, delay, duplication, reordering, and cuts in each direction.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_lease::Watched;
use tokio::sync::{mpsc, oneshot};

use super::wire::{Operation, Packet, Reply};
use super::{HostId, Item, SERVER, Simulation, State};
use crate::history::{Client, Nanos};

/// How long a packet takes at best, and how much longer by chance.
const LATENCY: Nanos = 200_000;
const JITTER: Nanos = 1_800_000;

/// What the network does to packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weather {
    /// Percent of packets that are lost.
    pub loss: u8,
    /// Percent of packets that arrive twice.
    pub double: u8,
    /// Percent of packets that are late.
    pub late: u8,
    /// How late at most, in milliseconds.
    pub late_ms: u32,
}

/// The state of the network.
pub(crate) struct Net {
    pub(crate) weather: Weather,
    /// Percent of waiting claims that arrive once more, and how much later at most.
    pub(crate) repeats: (u8, Nanos),
    /// Per host: packets from it, and to it, that are lost because of cuts under way.
    pub(crate) cut: Vec<[u32; 2]>,
    /// Requests that wait for an answer, by number.
    pub(crate) waiting: BTreeMap<u64, Waiting>,
    /// Watches that clients have open, by number.
    pub(crate) streams: BTreeMap<u64, Streaming>,
    next: u64,
}

/// The client's end of a watch.
pub(crate) struct Streaming {
    pub(crate) client: Client,
    pub(crate) tell: mpsc::Sender<Watched>,
    /// Which item comes next.
    pub(crate) place: u64,
}

/// A request without an answer.
pub(crate) struct Waiting {
    pub(crate) host: HostId,
    pub(crate) client: Client,
    pub(crate) reply_to: oneshot::Sender<tenure_lease::Result<Reply>>,
}

impl Net {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            weather: Weather::default(),
            repeats: (0, 1),
            cut: vec![[0; 2]; hosts],
            waiting: BTreeMap::new(),
            streams: BTreeMap::new(),
            next: 0,
        }
    }

    /// A number for a request or a stream.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl State {
    /// Whether packets from one host to another are lost to a cut.
    pub(crate) fn cut(&self, from: HostId, to: HostId) -> bool {
        self.net.cut[from as usize][0] > 0 || self.net.cut[to as usize][1] > 0
    }

    /// How long a packet that leaves now is on its way.
    pub(crate) fn flight(&mut self) -> Nanos {
        let weather = self.net.weather;
        let mut time = LATENCY + self.rng.below(JITTER);
        if self.rng.chance(u64::from(weather.late)) {
            time += self.rng.below(u64::from(weather.late_ms) * 1_000_000);
        }
        time
    }

    /// Sends a packet on its way. Answers whether it will arrive twice.
    pub(crate) fn send(&mut self, now: Nanos, from: HostId, to: HostId, packet: Packet) -> bool {
        let weather = self.net.weather;
        if self.cut(from, to) || self.rng.chance(u64::from(weather.loss)) {
            return false;
        }
        let mut twice = false;
        if self.rng.chance(u64::from(weather.double))
            && let Some(twin) = packet.twin()
        {
            let flight = self.flight();
            self.schedule(now + flight, Item::Deliver(to, Box::new(twin)));
            twice = true;
        }
        twice |= !twice && self.repeat(now, to, &packet);
        let flight = self.flight();
        self.schedule(now + flight, Item::Deliver(to, Box::new(packet)));
        twice
    }

    /// A claim that waits arrives once more, some time later.
    fn repeat(&mut self, now: Nanos, to: HostId, packet: &Packet) -> bool {
        let (percent, late) = self.net.repeats;
        let waits = |ask: &Operation| matches!(ask, Operation::Acquire(claim) if claim.wait.is_some());
        let asks = matches!(packet, Packet::Operation { ask, .. } if waits(ask));
        if percent == 0 || !asks || !self.rng.chance(u64::from(percent)) {
            return false;
        }
        let Some(twin) = packet.twin() else { return false };
        let flight = self.flight() + self.rng.below(late);
        self.schedule(now + flight, Item::Deliver(to, Box::new(twin)));
        true
    }

    /// An answer has come: it is sent to the waiting request.
    pub(crate) fn answered(&mut self, client: Client, id: u64, answer: tenure_lease::Result<Reply>) {
        if self.net.waiting.get(&id).is_some_and(|waiting| waiting.client == client)
            && let Some(waiting) = self.net.waiting.remove(&id)
        {
            // A caller that stopped waiting has removed itself from the list.
            drop(waiting.reply_to.send(answer));
        }
    }

    /// The next item of a stream has come. One that is out of its place or finds no room breaks the stream, as
    /// a lost packet breaks a connection.
    pub(crate) fn streamed(&mut self, client: Client, stream: u64, place: u64, watched: Watched) {
        let Some(open) = self.net.streams.get_mut(&stream).filter(|open| open.client == client) else {
            return;
        };
        let fits = open.place == place && open.tell.try_send(watched).is_ok();
        open.place += 1;
        if !fits {
            self.net.streams.remove(&stream);
        }
    }

    /// Tells the callers of a dead or cut server that their connections broke; some of them, some time.
    pub(crate) fn reset(&mut self, now: Nanos, whose: Option<HostId>, within: Nanos) {
        let ids: Vec<(u64, HostId, Client)> = self
            .net
            .waiting
            .iter()
            .filter(|(_, waiting)| whose.is_none_or(|host| waiting.host == host))
            .map(|(id, waiting)| (*id, waiting.host, waiting.client))
            .collect();
        for (id, host, client) in ids {
            if self.rng.chance(50) {
                let at = now + 1 + self.rng.below(within);
                let answer = Err(tenure_lease::Error::unknown("sim", "the connection was reset"));
                self.schedule(at, Item::Deliver(host, Box::new(Packet::Reply { client, id, answer })));
            }
        }
    }
}

impl Simulation {
    /// Sends a packet, unless its sender is dead.
    pub(crate) fn send(self: &Arc<Self>, from: HostId, client: Client, to: HostId, packet: Packet) {
        let now = self.now();
        let mut state = self.lock();
        if from == SERVER || state.lives(from, client) {
            state.send(now, from, to, packet);
        }
    }
}
