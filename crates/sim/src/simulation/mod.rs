//! The simulated world: hosts with clocks of their own, a network, and true time.
//!
//! Every host has a runtime of its own, on the one thread of the run. The world moves true time from one
//! scheduled item to the next, hands the item to its host, and lets that host run until it has nothing to
//! do. A frozen host is not run; a crashed host's runtime is dropped with everything in it.

pub(crate) mod clock;
pub(crate) mod exec;
pub(crate) mod net;
pub(crate) mod record;
pub(crate) mod server;
pub(crate) mod stub;
mod tell;
pub(crate) mod wire;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::history::{Client, Nanos, Setting, What};
use crate::rng::Rng;
use clock::Alarm;
use net::Net;
use record::Record;
use wire::Packet;

/// The number of a host; the server is 0.
pub(crate) type HostId = u32;

/// The server's host.
pub(crate) const SERVER: HostId = 0;

/// True time and everything that is shared between hosts.
pub(crate) struct Simulation {
    now: AtomicU64,
    state: Mutex<State>,
}

/// What is behind the world's one lock. It is never held while a host runs.
pub(crate) struct State {
    pub(crate) agenda: BinaryHeap<Reverse<Scheduled>>,
    number: u64,
    pub(crate) rng: Rng,
    pub(crate) hosts: Vec<Host>,
    pub(crate) net: Net,
    pub(crate) record: Record,
}

/// What the world knows of a host.
pub(crate) struct Host {
    pub(crate) alive: bool,
    /// Counts freezes and suspends under way.
    pub(crate) frozen: u32,
    /// What came while it was frozen.
    pub(crate) held: Vec<Item>,
    /// Who lives there now.
    pub(crate) client: Client,
    /// How long it has been suspended in all.
    pub(crate) suspended: Arc<AtomicU64>,
    /// Microseconds by which its wall clock is off.
    pub(crate) wall_off: Arc<AtomicU64>,
}

/// Something that will happen.
pub(crate) enum Item {
    /// A sleeper's time has come.
    Alarm(HostId, Arc<Alarm>),
    /// A packet arrives.
    Deliver(HostId, Box<Packet>),
    /// A fault of the plan begins.
    Fault(usize),
    /// A fault of the plan ends.
    Heal(usize),
    /// A host dies by its own decision.
    Die(HostId, Client),
    /// A host begins its work.
    Start(HostId),
    /// Something else arrives at a host or is due there.
    Work(HostId, Box<dyn FnOnce() + Send>),
    /// No fault comes after this.
    Calm,
}

/// An item and when it happens; those of one moment in the order they were scheduled.
pub(crate) struct Scheduled {
    pub(crate) at: Nanos,
    number: u64,
    pub(crate) item: Item,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl State {
    pub(crate) fn schedule(&mut self, at: Nanos, item: Item) {
        self.number += 1;
        self.agenda.push(Reverse(Scheduled { at, number: self.number, item }));
    }

    pub(crate) fn host(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host as usize]
    }

    /// Whether this life of the host is still going on.
    pub(crate) fn lives(&self, host: HostId, client: Client) -> bool {
        let host = &self.hosts[host as usize];
        host.alive && host.client == client
    }
}

impl Simulation {
    pub(crate) fn new(hosts: usize, rng: Rng, setting: Setting) -> Arc<Self> {
        let host = || Host {
            alive: false,
            frozen: 0,
            held: Vec::new(),
            client: 0,
            suspended: Arc::default(),
            wall_off: Arc::default(),
        };
        let state = State {
            agenda: BinaryHeap::new(),
            number: 0,
            rng,
            hosts: (0..hosts).map(|_| host()).collect(),
            net: Net::new(hosts),
            record: Record::new(setting),
        };
        Arc::new(Self { now: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// True time.
    pub(crate) fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, to: Nanos) {
        self.now.store(to, Ordering::Relaxed);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Writes down what happened now.
    pub(crate) fn note(&self, what: What) {
        let now = self.now();
        self.lock().record.note(now, what);
    }

    /// Schedules something so many nanoseconds from now.
    pub(crate) fn after(&self, time: Nanos, item: Item) {
        let at = self.now() + time;
        self.lock().schedule(at, item);
    }
}
