//! Callers of a Redis, their requests on the way, and what happens to the servers meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use lease::{
    Acquired, Claim, Generation, Holder, Key, Mark, Release, Released, Renewal, Renewed, Token, Ttl,
};

use super::cluster::{Caller, Cluster};
use super::{Break, Profile};
use crate::disk::ask::{Ask, acquired, id, unknown};
use crate::disk::clock::Time;
use crate::disk::dice::{Dice, Mint};
use crate::history::{Answer, Event, History, Outcome, Setting, What};

const MS: u64 = 1_000_000;
const CLIENTS: u64 = 4;
const KEYS: u64 = 2;
/// How long servers stay as they are, at least: Sentinel needs longer.
const CALM: u64 = 5_000 * MS;

/// A holder's view of one lease.
#[derive(Clone, Debug)]
struct Belief {
    client: usize,
    key: Key,
    token: Token,
    generation: Generation,
    ttl: Ttl,
    /// Until when it acts.
    until: u64,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Flight {
    op: u64,
    client: usize,
    caller: Caller,
    sent: u64,
    ask: Ask,
}

/// A run.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) wrong: Option<String>,
    pub(crate) history: History,
    pub(crate) changes: u32,
    pub(crate) ops: u64,
    time: Time,
    cluster: Cluster,
    profile: Profile,
    mint: Mint,
    current: usize,
    changed_at: u64,
    callers: Vec<Caller>,
    flights: Vec<Flight>,
    beliefs: Vec<Belief>,
    claims: Vec<(usize, Claim)>,
    /// Who was told of which number, and the greatest of each key.
    minted: BTreeMap<(Key, u64), Token>,
    top: BTreeMap<Key, u64>,
    /// A resource behind each key that admits by number alone, and what it admitted last.
    marks: BTreeMap<Key, Mark>,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile, how: Option<Break>) -> Self {
        let mut dice = Dice::new(seed);
        let (time, mint) = (Time::default(), Mint::new(dice.next()));
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
        Self {
            dice,
            wrong: None,
            history: History { setting, events: Vec::new() },
            changes: 0,
            ops: 0,
            time,
            cluster,
            profile,
            mint,
            current: 0,
            changed_at: 0,
            callers: vec![Caller::default(); CLIENTS as usize],
            flights: Vec::new(),
            beliefs: Vec::new(),
            claims: Vec::new(),
            minted: BTreeMap::new(),
            top: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, what: What) {
        self.history.events.push(Event { at: self.time.now(), what });
    }

    fn fail(&mut self, words: String) {
        self.wrong.get_or_insert(words);
    }

    fn fault(&mut self, name: &'static str, host: usize) {
        let until = self.time.now();
        self.changes += 1;
        self.note(What::Fault { name: name.into(), host: Some(host as u32), until });
    }

    /// One thing happens.
    pub(crate) fn step(&mut self) {
        match self.dice.weighted(&[44, 44, 34, 3, 14, 4, 3, 6, 3, 6]) {
            0 => self.ask(),
            1 => self.deliver(),
            2 => self.pass(1, 150),
            3 => self.pass(800, 5_000),
            4 => {
                let (n, behind) = (self.dice.below(3) as usize, self.dice.below(4) as usize);
                if n < self.servers() {
                    self.cluster.copy(n, behind);
                }
            }
            5 => {
                let (n, cut) = (self.dice.below(3) as usize, self.dice.one_in(2));
                if n < self.servers() && !self.cluster.is_master(n) {
                    self.cluster.cut(n, cut);
                }
            }
            6 => self.disturb(),
            7 => {
                let n = self.dice.below(CLIENTS) as usize;
                self.callers[n].node = self.current;
            }
            8 => self.join(),
            _ => self.act(),
        }
    }

    fn servers(&self) -> usize {
        if self.profile == Profile::Single { 1 } else { 3 }
    }

    fn pass(&mut self, low: u64, high: u64) {
        let by = self.dice.within(low, high) * MS + self.dice.below(MS);
        self.time.advance(by);
    }

    /// A restart of the only server, or the promotion of a replica while the old master lives.
    fn disturb(&mut self) {
        let now = self.time.now();
        if now < self.changed_at + CALM {
            return;
        }
        if self.profile == Profile::Single {
            let behind = match self.dice.below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(self.dice.within(1, 6) as usize),
            };
            self.cluster.restart(0, behind);
            self.fault("restart", 0);
        } else {
            let replicas = self.cluster.replicas_of(self.current);
            let Some(next) = self.dice.pick(&replicas).copied() else { return };
            self.cluster.promote(next);
            self.current = next;
            self.fault("promote", next);
        }
        self.changed_at = now;
    }

    /// An old master learns that it is one no more.
    fn join(&mut self) {
        for n in 0..self.servers() {
            if n != self.current && self.cluster.is_master(n) && self.dice.one_in(2) {
                self.cluster.demote(n, self.current);
                self.fault("demote", n);
            }
        }
    }

    /// A holder writes to the resource behind its key, which admits by number.
    fn act(&mut self) {
        let now = self.time.now();
        let Some(belief) = self.dice.pick(&self.beliefs).cloned() else { return };
        let late = self.dice.one_in(3);
        if belief.until <= now && !late {
            return;
        }
        let next = Mark::new(belief.generation, belief.token.digest());
        let before = self.marks.get(&belief.key).copied();
        let accepted = Mark::admits(before.as_ref(), &next);
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

    fn ttl(&mut self) -> Ttl {
        let ms: &[u64] = match self.profile {
            Profile::Strict => &[10_000, 15_000, 30_000],
            _ => &[500, 1_500, 4_000, 10_000],
        };
        self.dice.pick(ms).and_then(|ms| Ttl::from_millis(*ms).ok()).unwrap_or(Ttl::MAX)
    }

    fn ask(&mut self) {
        if self.flights.len() > 5 {
            return;
        }
        let belief = self.dice.pick(&self.beliefs).cloned();
        let (client, ask) = match (self.dice.weighted(&[8, 8, 4, 3, 2]), belief) {
            (1, Some(b)) => {
                let renewal =
                    Renewal { key: b.key, token: b.token, generation: b.generation, ttl: Some(b.ttl) };
                (b.client, Ask::Renew(renewal))
            }
            (2, Some(b)) => {
                // Whoever gives a key back does not act on it any more.
                let mine = |other: &Belief| other.token == b.token;
                self.beliefs.retain(|other| !mine(other));
                (b.client, Ask::Release(Release::new(b.key, b.token)))
            }
            (3, _) if !self.claims.is_empty() => {
                let at = self.dice.below(self.claims.len() as u64) as usize;
                let (client, claim) = self.claims[at].clone();
                (client, Ask::Acquire(claim))
            }
            (4, Some(b)) => (b.client, Ask::Inspect(b.key)),
            _ => {
                let client = self.dice.below(CLIENTS) as usize;
                let Some(claim) = self.claim(client) else { return };
                self.claims.push((client, claim.clone()));
                if self.claims.len() > 4 {
                    self.claims.remove(0);
                }
                (client, Ask::Acquire(claim))
            }
        };
        self.ops += 1;
        let (op, sent, call) = (self.ops, self.time.now(), ask.call());
        self.note(What::Invoked { op, client: client as u32, call });
        let caller = self.callers[client].clone();
        self.flights.push(Flight { op, client, caller, sent, ask });
    }

    fn claim(&mut self, client: usize) -> Option<Claim> {
        let key = Key::new(format!("k/{}", self.dice.below(KEYS))).ok()?;
        let holder = Holder::new(format!("h{client}")).ok()?;
        Some(Claim::new(key, holder, Token::random(&self.mint), self.ttl()).remote())
    }

    /// One of the requests arrives, perhaps long after it was sent, and its answer is heard or not.
    fn deliver(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let at = self.dice.below(self.flights.len() as u64) as usize;
        let flight = self.flights.swap_remove(at);
        let lost = self.dice.one_in(12);
        let answer = if lost && self.dice.one_in(2) { unknown("lost") } else { self.arrive(&flight, lost) };
        self.note(What::Returned { op: flight.op, answer });
    }

    fn arrive(&mut self, flight: &Flight, lost: bool) -> Answer {
        let mut caller = flight.caller.clone();
        if !self.cluster.is_master(caller.node) {
            // READONLY: it did not happen, and its sender looks for the master.
            self.callers[flight.client].node = self.current;
            return Answer {
                outcome: Outcome::Refused,
                word: "unavailable".into(),
                generation: None,
                why: None,
            };
        }
        let answer = self.run(&mut caller, flight, lost);
        let mine = &mut self.callers[flight.client];
        if mine.node == caller.node {
            *mine = caller;
        }
        answer
    }

    fn run(&mut self, caller: &mut Caller, flight: &Flight, lost: bool) -> Answer {
        let plain =
            |outcome, word: &'static str| Answer { outcome, word: word.into(), generation: None, why: None };
        let (answer, sure) = match &flight.ask {
            Ask::Acquire(claim) => {
                let (got, sure) = self.cluster.call(caller, |data, head| data.acquire(claim, head));
                let answer = match &got {
                    Ok(got) => acquired(got),
                    Err(_) => plain(Outcome::Refused, "token_spent"),
                };
                if sure
                    && !lost
                    && let Ok(Acquired::Granted(grant)) = &got
                {
                    self.granted(flight, claim, grant.lease.generation);
                }
                (answer, sure)
            }
            Ask::Renew(renewal) => {
                let (got, sure) = self.cluster.call(caller, |data, head| data.renew(renewal, head));
                match got {
                    Renewed::Renewed { .. } if sure && !lost => self.renewed(flight, renewal),
                    Renewed::Lost(_) if sure && !lost => {
                        self.beliefs
                            .retain(|b| b.token != renewal.token || b.generation != renewal.generation);
                    }
                    _ => {}
                }
                match got {
                    Renewed::Renewed { .. } => (plain(Outcome::Ok, "renewed"), sure),
                    Renewed::Lost(end) => {
                        (Answer { why: Some(end.as_str().into()), ..plain(Outcome::Refused, "lost") }, sure)
                    }
                }
            }
            Ask::Release(release) => {
                let (got, sure) = self.cluster.call(caller, |data, head| data.release(release, head));
                match got {
                    Released::Released => (plain(Outcome::Ok, "released"), sure),
                    Released::NotHeld => (plain(Outcome::Refused, "not_held"), sure),
                }
            }
            Ask::Inspect(key) => {
                let (got, sure) = self
                    .cluster
                    .call(caller, |data, head| data.cells.get(key).map(|cell| cell.status(key, head.now)));
                let word = got.as_ref().map_or("free", |status| crate::disk::ask::phase(status.phase));
                let generation = got.and_then(|status| status.generation).map(Generation::get);
                (Answer { generation, ..plain(Outcome::Ok, word) }, sure)
            }
            _ => (unknown("not asked here"), true),
        };
        if sure && !lost { answer } else { unknown(if lost { "lost" } else { "not replicated" }) }
    }

    fn deadline(sent: u64, ttl: Ttl) -> u64 {
        let ttl = ttl.as_duration().as_nanos() as u64;
        sent + ttl - ttl / 100 - (50 * MS).max(ttl / 50)
    }

    fn granted(&mut self, flight: &Flight, claim: &Claim, generation: Generation) {
        let (now, number) = (self.time.now(), generation.get());
        let known = self.minted.insert((claim.key.clone(), number), claim.token.clone());
        if known.as_ref().is_some_and(|token| *token != claim.token) {
            self.fail(format!("{}: {number} was minted twice", claim.key));
        }
        let top = self.top.entry(claim.key.clone()).or_default();
        let fell = known.is_none() && number <= *top;
        let before = std::mem::replace(top, number.max(*top));
        if fell && self.profile != Profile::Sentinel {
            self.fail(format!("{}: {number} was granted after {before}", claim.key));
        }
        let until = Self::deadline(flight.sent, claim.ttl);
        if until <= now {
            return;
        }
        self.beliefs.retain(|b| b.until + 60_000 * MS > now);
        let rival =
            self.beliefs.iter().find(|b| b.key == claim.key && b.token != claim.token && b.until > now);
        if let Some(rival) = rival.filter(|_| self.profile != Profile::Sentinel) {
            let left = (rival.until - now) / MS;
            let words = format!(
                "{}: {number} is held while the holder of {} acts for {left} ms more",
                claim.key, rival.generation
            );
            self.fail(words);
        }
        match self.beliefs.iter_mut().find(|b| b.token == claim.token && b.generation == generation) {
            Some(belief) => belief.until = belief.until.max(until),
            None => self.beliefs.push(Belief {
                client: flight.client,
                key: claim.key.clone(),
                token: claim.token.clone(),
                generation,
                ttl: claim.ttl,
                until,
            }),
        }
    }

    fn renewed(&mut self, flight: &Flight, renewal: &Renewal) {
        for belief in self.beliefs.iter_mut() {
            if belief.token == renewal.token && belief.generation == renewal.generation {
                belief.until = belief.until.max(Self::deadline(flight.sent, belief.ttl));
            }
        }
    }
}
