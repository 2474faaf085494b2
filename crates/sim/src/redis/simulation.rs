//! Clients of a Redis, their requests on the way, and what happens to the servers meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_lease::{Claim, Generation, HighWaterMark, Key, Release, Renewal, Tick, Token, Ttl};

use super::client::Client;
use super::cluster::Cluster;
use super::requests::{Flight, Waiting, WakeUp};
use super::{Break, Profile};
use crate::disk::clock::Time;
use crate::disk::operation::id;
use crate::disk::seeded_rng::{SeededEntropy, SeededRng};
use crate::history::{Event, History, Setting, What};

pub(super) const MS: u64 = 1_000_000;
pub(super) const CLIENTS: u64 = 4;
pub(super) const KEYS: u64 = 2;
/// The client of a single server that takes only short leases, and asks for a quarantine that is no longer.
pub(super) const BRIEF_CLIENT: usize = 3;
pub(super) const BRIEF_TTL_MS: u64 = 1_000;
/// How long servers stay as they are, at least: Sentinel needs longer.
const CALM: u64 = 5_000 * MS;

/// A holder's view of one lease.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    pub(super) client: usize,
    pub(super) key: Key,
    pub(super) token: Token,
    pub(super) generation: Generation,
    pub(super) ttl: Ttl,
    /// Until when it acts.
    pub(super) until: u64,
}

/// A run.
pub(crate) struct RedisSimulation {
    pub(crate) rng: SeededRng,
    pub(crate) wrong: Option<String>,
    pub(crate) history: History,
    pub(crate) changes: u32,
    pub(crate) ops: u64,
    pub(super) time: Time,
    pub(super) cluster: Cluster,
    pub(super) profile: Profile,
    pub(super) entropy: SeededEntropy,
    pub(super) current: usize,
    changed_at: u64,
    pub(super) clients: Vec<Client>,
    pub(super) flights: Vec<Flight>,
    /// Claims in the queues of the servers, and the messages that tell them of a grant.
    pub(super) waiting: Vec<Waiting>,
    pub(super) wake_ups: Vec<WakeUp>,
    pub(super) waiters: u64,
    pub(super) beliefs: Vec<Belief>,
    pub(super) claims: Vec<(usize, Claim)>,
    /// Releases that were sent, and may be sent again.
    pub(super) releases: Vec<(usize, Release)>,
    /// Tokens that their holders have released.
    pub(super) given_up: BTreeSet<u64>,
    /// Which token was granted each generation, and the greatest one of each key.
    minted: BTreeMap<(Key, u64), Token>,
    top: BTreeMap<Key, u64>,
    /// A resource behind each key that admits by generation alone, and what it admitted last.
    marks: BTreeMap<Key, HighWaterMark>,
}

impl RedisSimulation {
    pub(crate) fn new(seed: u64, profile: Profile, how: Option<Break>) -> Self {
        let mut rng = SeededRng::new(seed);
        let (time, entropy) = (Time::default(), SeededEntropy::new(rng.next()));
        time.advance(1);
        let (replicas, quarantine) = match profile {
            Profile::Single => (0, 10),
            Profile::Sentinel => (2, 10),
            Profile::Strict => (2, 30),
        };
        let terms = (Duration::from_secs(quarantine), profile == Profile::Strict);
        let cluster = Cluster::new(&time, replicas, terms, how);
        let setting = Setting {
            seed,
            engine: profile.name().into(),
            generations_rise: profile != Profile::Sentinel,
            single_holding: profile != Profile::Sentinel,
            keeper: false,
            ..Setting::default()
        };
        let mut simulation = Self {
            rng,
            wrong: None,
            history: History { setting, events: Vec::new() },
            changes: 0,
            ops: 0,
            time,
            cluster,
            profile,
            entropy,
            current: 0,
            changed_at: 0,
            clients: (0..CLIENTS).map(|number| Client::new(0, number)).collect(),
            flights: Vec::new(),
            waiting: Vec::new(),
            wake_ups: Vec::new(),
            waiters: 0,
            beliefs: Vec::new(),
            claims: Vec::new(),
            releases: Vec::new(),
            given_up: BTreeSet::new(),
            minted: BTreeMap::new(),
            top: BTreeMap::new(),
            marks: BTreeMap::new(),
        };
        let now = simulation.now();
        for client in &mut simulation.clients {
            if let Err(error) = client.open(&mut simulation.cluster, now) {
                simulation.wrong = Some(error.to_string());
            }
        }
        if profile == Profile::Single
            && let Some(brief) = simulation.clients.get_mut(BRIEF_CLIENT)
        {
            brief.quarantine = Some(Duration::from_millis(BRIEF_TTL_MS));
        }
        // An empty server is in quarantine.
        simulation.time.advance(quarantine * 1_000 * MS);
        simulation
    }

    /// True time, which the clients' clocks show.
    pub(super) fn now(&self) -> Tick {
        Tick::from_nanos(self.time.now())
    }

    pub(crate) fn note(&mut self, what: What) {
        self.history.events.push(Event { at: self.time.now(), what });
    }

    pub(super) fn fail(&mut self, message: String) {
        self.wrong.get_or_insert(message);
    }

    fn fault(&mut self, name: &'static str, host: usize) {
        let until = self.time.now();
        self.changes += 1;
        self.note(What::Fault { name: name.into(), host: Some(host as u32), until });
    }

    /// One thing happens.
    pub(crate) fn step(&mut self) {
        match self.rng.weighted(&[44, 44, 34, 3, 14, 4, 3, 6, 3, 6, 6, 12, 2, 3]) {
            0 => self.ask(),
            1 => self.deliver(),
            2 => self.pass(1, 150),
            3 => self.pass(800, 5_000),
            4 => {
                let (n, behind) = (self.rng.below(3) as usize, self.rng.below(4) as usize);
                if n < self.servers() {
                    self.cluster.copy(n, behind);
                }
            }
            5 => {
                let (n, cut) = (self.rng.below(3) as usize, self.rng.one_in(2));
                if n < self.servers() && !self.cluster.is_master(n) {
                    self.cluster.cut(n, cut);
                }
            }
            6 => self.disturb(),
            7 => {
                let n = self.rng.below(CLIENTS) as usize;
                self.clients[n].node = self.current;
            }
            8 => self.join(),
            9 => self.act(),
            10 => {
                let n = self.rng.below(CLIENTS) as usize;
                self.sweep(n);
            }
            11 => self.wake(),
            12 => self.wipe(),
            _ => {
                let pick = self.rng.next();
                self.cluster.evict(self.current, pick);
            }
        }
        if let Some(defect) = self.cluster.defect.take() {
            self.fail(defect);
        }
    }

    fn servers(&self) -> usize {
        if self.profile == Profile::Single { 1 } else { 3 }
    }

    fn pass(&mut self, low: u64, high: u64) {
        let by = self.rng.within(low, high) * MS + self.rng.below(MS);
        self.time.advance(by);
    }

    /// A restart of the only server, or the promotion of a replica while the old master lives.
    fn disturb(&mut self) {
        let now = self.time.now();
        if now < self.changed_at + CALM {
            return;
        }
        if self.profile == Profile::Single {
            let behind = match self.rng.below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(self.rng.within(1, 6) as usize),
            };
            self.cluster.restart(0, behind);
            self.fault("restart", 0);
            // Every engine sweeps within a second; which one is first, nothing says.
            let first = self.rng.below(CLIENTS);
            (0..CLIENTS).for_each(|n| self.sweep(((first + n) % CLIENTS) as usize));
            self.repeat_releases();
        } else {
            let replicas = self.cluster.replicas_of(self.current);
            let Some(next) = self.rng.pick(&replicas).copied() else { return };
            self.cluster.promote(next);
            self.current = next;
            self.fault("promote", next);
        }
        self.changed_at = now;
    }

    /// An old master learns that it is one no more.
    fn join(&mut self) {
        for n in 0..self.servers() {
            if n != self.current && self.cluster.is_master(n) && self.rng.one_in(2) {
                self.cluster.demote(n, self.current);
                self.fault("demote", n);
            }
        }
    }

    /// The sweep of one client's engine.
    fn sweep(&mut self, n: usize) {
        // No two requests arrive at one moment: floors that two masters raise differ by the time between them.
        self.time.advance(MS);
        let now = self.now();
        // What it brings up to date shows in the replies to others; a failure leaves that to them.
        drop(self.clients[n].sweep(&mut self.cluster, now));
        self.collect_wake_ups();
    }

    /// A holder writes to the resource behind its key, which admits by generation.
    fn act(&mut self) {
        let now = self.time.now();
        let Some(belief) = self.rng.pick(&self.beliefs).cloned() else { return };
        let late = self.rng.one_in(3);
        if belief.until <= now && !late {
            return;
        }
        let next = HighWaterMark::new(belief.generation, belief.token.digest());
        let before = self.marks.get(&belief.key).copied();
        let accepted = HighWaterMark::admits(before.as_ref(), &next);
        if let Some(before) = before
            && before.generation() == next.generation()
            && before.writer() != next.writer()
        {
            self.fail(format!("{}: two writers carry {}", belief.key, next.generation()));
        }
        if accepted {
            self.marks.insert(belief.key.clone(), next);
        }
        self.note(What::Wrote {
            key: belief.key.to_string(),
            client: belief.client as u32,
            generation: belief.generation.get(),
            token: id(&belief.token),
            accepted,
            strict: false,
        });
    }

    fn deadline(sent: u64, ttl: Ttl) -> u64 {
        let ttl = ttl.as_duration().as_nanos() as u64;
        sent + ttl - ttl / 100 - (50 * MS).max(ttl / 50)
    }

    /// A client learns of a grant. A claim that waited may not act before it has renewed: then `sent` is none.
    pub(super) fn granted(
        &mut self,
        client: usize,
        claim: &Claim,
        generation: Generation,
        sent: Option<u64>,
    ) {
        let (now, number) = (self.time.now(), generation.get());
        let known = self.minted.insert((claim.key.clone(), number), claim.token.clone());
        if known.as_ref().is_some_and(|token| *token != claim.token) {
            self.fail(format!("{}: {number} was minted twice", claim.key));
        }
        let top = self.top.entry(claim.key.clone()).or_default();
        let fell = known.is_none() && number <= *top;
        let before = std::mem::replace(top, number.max(*top));
        // A message about a waiting claim may come after the reply to the claim that was granted next.
        if fell && sent.is_some() && self.profile != Profile::Sentinel {
            self.fail(format!("{}: {number} was granted after {before}", claim.key));
        }
        let until = sent.map_or(now, |sent| Self::deadline(sent, claim.ttl));
        if (until <= now && sent.is_some()) || self.given_up.contains(&id(&claim.token)) {
            return;
        }
        self.beliefs.retain(|b| b.until + 60_000 * MS > now);
        if until > now {
            self.check_rivals(&claim.key, &claim.token, generation);
        }
        match self.beliefs.iter_mut().find(|b| b.token == claim.token && b.generation == generation) {
            Some(belief) => belief.until = belief.until.max(until),
            None => self.beliefs.push(Belief {
                client,
                key: claim.key.clone(),
                token: claim.token.clone(),
                generation,
                ttl: claim.ttl,
                until,
            }),
        }
    }

    /// Fails the run if another holder acts on the same key.
    fn check_rivals(&mut self, key: &Key, token: &Token, generation: Generation) {
        let now = self.time.now();
        let rival = self.beliefs.iter().find(|b| b.key == *key && b.token != *token && b.until > now);
        if let Some(rival) = rival.filter(|_| self.profile != Profile::Sentinel) {
            let left = (rival.until - now) / MS;
            let message = format!(
                "{key}: {generation} is held while the holder of {} acts for {left} ms more",
                rival.generation
            );
            self.fail(message);
        }
    }

    pub(super) fn renewed(&mut self, sent: u64, renewal: &Renewal) {
        let now = self.time.now();
        let mut acts = false;
        for belief in &mut self.beliefs {
            if belief.token == renewal.token && belief.generation == renewal.generation {
                belief.until = belief.until.max(Self::deadline(sent, belief.ttl));
                acts |= belief.until > now;
            }
        }
        if acts {
            self.check_rivals(&renewal.key, &renewal.token, renewal.generation);
        }
    }
}
