//! What the hosts of a run share: the network between them, their services, and the judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::call::{Calls, Service};
use super::judge::Judge;
use super::session::Wires;
use crate::history::{Client, Nanos};
use crate::simulation::{HostId, Item, Simulation};

/// How often a reliable transport sends a packet again before it gives up.
const TRIES: u32 = 40;
/// How long it waits before it does, at least, and how much longer by chance.
const RETRANSMIT: (Nanos, Nanos) = (100_000_000, 300_000_000);

/// One life of a host's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Life {
    pub(super) host: HostId,
    pub(super) number: Client,
}

/// What happens to a packet that the network loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carriage {
    /// It is lost.
    Once,
    /// It is sent again, as QUIC and TCP do.
    Reliable,
}

/// What a packet does where it arrives.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// Everything that hosts share.
pub(super) struct World {
    pub(super) simulation: Arc<Simulation>,
    /// The services that run now, by name.
    pub(super) services: Mutex<BTreeMap<String, Service>>,
    /// The host of each name, running or not.
    pub(super) addresses: BTreeMap<String, HostId>,
    pub(super) calls: Mutex<Calls>,
    pub(super) wires: Mutex<Wires>,
    pub(super) judge: Mutex<Judge>,
    /// The code of the meeting, as its host sent it to the others.
    pub(super) invitation: Mutex<Option<String>>,
}

impl World {
    pub(super) fn new(
        simulation: Arc<Simulation>,
        addresses: BTreeMap<String, HostId>,
        judge: Judge,
    ) -> Arc<Self> {
        Arc::new(Self {
            simulation,
            services: Mutex::default(),
            addresses,
            calls: Mutex::default(),
            wires: Mutex::default(),
            judge: Mutex::new(judge),
            invitation: Mutex::default(),
        })
    }

    pub(super) fn now(&self) -> Nanos {
        self.simulation.now()
    }

    pub(super) fn lives(&self, life: Life) -> bool {
        self.simulation.lock().lives(life.host, life.number)
    }

    /// The process that runs at a host now.
    pub(super) fn process_at(&self, host: HostId) -> Option<Life> {
        let mut state = self.simulation.lock();
        let there = state.host(host);
        there.alive.then_some(Life { host, number: there.client })
    }

    /// Adds a line to the history of the run.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        let now = self.now();
        self.judge.lock().note(now, line);
    }

    /// Sends a packet.
    pub(super) fn carry(self: &Arc<Self>, from: Life, to: HostId, how: Carriage, work: Work) {
        self.attempt(from, to, how, work, TRIES);
    }

    fn attempt(self: &Arc<Self>, from: Life, to: HostId, how: Carriage, work: Work, left: u32) {
        let now = self.now();
        let mut state = self.simulation.lock();
        if !state.lives(from.host, from.number) {
            return;
        }
        let loss = u64::from(state.net.weather.loss);
        if !state.cut(from.host, to) && !state.rng.chance(loss) {
            let at = now + state.flight();
            return state.schedule(at, Item::Work(to, work));
        }
        if how == Carriage::Reliable && left > 0 {
            let at = now + RETRANSMIT.0 + state.rng.below(RETRANSMIT.1);
            let world = self.clone();
            let again: Work = Box::new(move || world.attempt(from, to, how, work, left - 1));
            state.schedule(at, Item::Work(from.host, again));
        }
    }

    /// Has something done at a host after so many nanoseconds.
    pub(super) fn after(&self, host: HostId, time: Nanos, work: Work) {
        self.simulation.after(time, Item::Work(host, work));
    }
}
