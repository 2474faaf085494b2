//! One machine with one store on one disk, its callers, and what goes wrong.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_lease::{
    Claim, Fence, Generation, Holder, Key, Mode, Op, Release, Renewal, Revoke, Store, Token, Transfer, Ttl,
};
use tenure_store::{Local, Lockstep, Options};

use super::breaks::{self, Break};
use super::clock::{Machine, Time};
use super::judge::{Commit, Judge, Sent};
use super::operation::{Operation, PendingAnswer, id, unknown};
use super::seeded_rng::{SeededEntropy, SeededRng};
use super::simulated_disk::SimulatedDisk;
use crate::history::{Answer, Event, History, Outcome, Setting, What};

/// The size of a journal segment: small, so that they take turns often, and large enough for the timer.
const SEGMENT: u64 = 384 * 1024;
const MS: u64 = 1_000_000;
/// The most operations under way.
const CROWD: usize = 8;
const KEYS: u64 = 3;

/// A lease that a caller knows of.
#[derive(Clone, Debug)]
struct Known {
    key: Key,
    token: Token,
    generation: Generation,
}

struct Pending {
    op: u64,
    sent: Sent,
    coming: PendingAnswer,
}

/// A run.
pub(crate) struct DiskSimulation {
    pub(crate) rng: SeededRng,
    pub(crate) time: Time,
    pub(crate) judge: Judge,
    pub(crate) history: History,
    pub(crate) disk: SimulatedDisk,
    pub(crate) store: Option<Lockstep>,
    pub(crate) crashes: u32,
    entropy: SeededEntropy,
    clock: Machine,
    boot: u32,
    how: Option<Break>,
    pending: Vec<Pending>,
    known: Vec<Known>,
    claims: Vec<Claim>,
    ops: u64,
    /// Whether values are large, so that segments fill up.
    fat: bool,
}

impl DiskSimulation {
    pub(crate) fn new(seed: u64, how: Option<Break>) -> Self {
        let mut rng = SeededRng::new(seed);
        let (time, entropy) = (Time::default(), SeededEntropy::new(rng.next()));
        let clock = Machine::boot(&time, 1_700_000_000_000_000);
        let disk = SimulatedDisk::new(SeededRng::new(rng.next()), super::is_direct(seed));
        let setting = Setting { seed, engine: "embedded".into(), keeper: false, ..Setting::default() };
        let fat = rng.one_in(2);
        Self {
            rng,
            time,
            judge: Judge::default(),
            history: History { setting, events: Vec::new() },
            disk,
            store: None,
            crashes: 0,
            entropy,
            clock,
            boot: 0,
            how,
            pending: Vec::new(),
            known: Vec::new(),
            claims: Vec::new(),
            ops: 0,
            fat,
        }
    }

    pub(crate) fn note(&mut self, what: What) {
        self.history.events.push(Event { at: self.time.now(), what });
    }

    fn fault(&mut self, name: &'static str) {
        let until = self.time.now();
        self.note(What::Fault { name: name.into(), host: None, until });
    }

    /// Opens the store, however often the opening itself is cut short.
    pub(crate) fn open(&mut self) {
        for attempt in 0..5 {
            if attempt < 3 && self.rng.one_in(8) {
                let fuse = self.rng.below(12) as u32;
                self.disk.faults(|faults| faults.fuse = Some(fuse));
            }
            let options = Options {
                clock: Arc::new(self.clock.clone()),
                segment: SEGMENT,
                boot: Some(format!("boot-{}", self.boot)),
            };
            match Lockstep::open(breaks::disk(&self.disk, self.how), options) {
                Ok(store) if !self.disk.died() => {
                    self.disk.faults(|faults| faults.fuse = None);
                    self.store = Some(store);
                    return;
                }
                Err(error) if !self.disk.died() && self.disk.seen().base_failed => {
                    // It must say so; the operator reboots the machine.
                    if !error.to_string().contains("reboot the machine") {
                        self.judge.fail(format!("a base that failed to sync is refused with: {error}"));
                        return;
                    }
                    self.fault("reboot");
                    self.end_life(true);
                }
                Err(error) if !self.disk.died() => {
                    self.judge.fail(format!("the store cannot be opened: {error}"));
                    return;
                }
                _ => {
                    self.fault("crash while opening");
                    self.next_life();
                }
            }
        }
    }

    /// The process dies, alone or with its machine, and another takes its place.
    pub(crate) fn crash(&mut self) {
        self.crashes += 1;
        let now = self.time.now();
        self.judge.crashed(now);
        self.fault("crash");
        for gone in std::mem::take(&mut self.pending) {
            self.note(What::Returned { op: gone.op, answer: unknown("crash") });
        }
        self.next_life();
        self.open();
        self.settled();
    }

    fn next_life(&mut self) {
        let power = self.rng.one_in(2);
        self.end_life(power);
    }

    /// Ends the process, with its machine if `power`, and starts what comes after it.
    fn end_life(&mut self, power: bool) {
        self.disk = self.disk.next_life(power);
        self.store = None;
        let away = match self.rng.below(4) {
            0 => self.rng.within(1, 20),
            1 => self.rng.within(20, 900),
            2 => self.rng.within(900, 3_000),
            _ => self.rng.within(3_000, 12_000),
        };
        self.time.advance(away * MS);
        if power {
            self.boot += 1;
            let hour = 3_600_000_000;
            let wall = 1_700_000_000_000_000 + self.time.now() / 1_000;
            let wall = match self.rng.below(6) {
                0 => wall - hour,
                1 => wall + hour,
                _ => wall,
            };
            self.clock = Machine::boot(&self.time, wall);
        }
    }

    /// One thing happens.
    pub(crate) fn step(&mut self) {
        let choice = self.rng.weighted(&[34, 12, 16, 7, 5, 8, 16, 2, 2, 3, 1, 1]);
        match choice {
            0 => self.ask(),
            1 => drop(self.with(Lockstep::take)),
            2 => drop(self.with(|store| store.take() && store.put())),
            3 => drop(self.with(Lockstep::checkpoint)),
            4 => self.with(Lockstep::expire),
            5 => self.with(Lockstep::write_heartbeat),
            6 => {
                let by = self.rng.within(1, 60);
                self.time.advance(by * MS);
            }
            7 => {
                let by = self.rng.within(300, 2_500);
                self.time.advance(by * MS);
            }
            8 => self.drop_one(),
            9 => self.go_wrong(),
            10 => return self.crash(),
            _ => {
                let fuse = self.rng.below(10) as u32;
                self.disk.faults(|faults| faults.fuse = Some(fuse));
            }
        }
        if self.disk.died() {
            self.crash();
        }
        self.poll();
    }

    fn with<T: Default>(&mut self, act: impl FnOnce(&mut Lockstep) -> T) -> T {
        self.store.as_mut().map(act).unwrap_or_default()
    }

    fn go_wrong(&mut self) {
        let (which, on) = (self.rng.below(6), self.rng.one_in(2));
        self.disk.faults(|faults| match which {
            0 => faults.journal_sync = on,
            1 => faults.base_sync = on,
            2 => faults.journal_write = on && faults.journal_sync,
            3 => faults.full = on,
            4 => faults.mute = on,
            _ => faults.full = false,
        });
        self.fault(
            ["journal sync", "base sync", "journal write", "disk full", "mute", "room"][which as usize],
        );
    }

    /// Lets everything that was decided become durable, and every request be answered.
    pub(crate) fn drain(&mut self) {
        for _ in 0..64 {
            let moved = self.with(|store| {
                let checkpointed = store.checkpoint();
                (store.take() && store.put()) || checkpointed
            });
            if self.disk.died() {
                return self.crash();
            }
            self.poll();
            if !moved {
                return;
            }
        }
    }

    fn poll(&mut self) {
        let mut at = 0;
        while at < self.pending.len() {
            let mut context = Context::from_waker(Waker::noop());
            match self.pending[at].coming.as_mut().poll(&mut context) {
                Poll::Ready(answer) => {
                    let done = self.pending.remove(at);
                    self.answered(&done, answer);
                }
                Poll::Pending => at += 1,
            }
        }
    }

    fn answered(&mut self, done: &Pending, answer: Answer) {
        let now = self.time.now();
        self.judge.answered(&done.sent, &answer, now);
        if let (Operation::Acquire(claim), Outcome::Ok) = (&done.sent.ask, answer.outcome)
            && let Some(Ok(generation)) = answer.generation.map(Generation::new)
        {
            self.known.push(Known { key: claim.key.clone(), token: claim.token.clone(), generation });
            if self.known.len() > 12 {
                self.known.remove(0);
            }
        }
        self.note(What::Returned { op: done.op, answer });
    }

    fn drop_one(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let at = self.rng.below(self.pending.len() as u64) as usize;
        let gone = self.pending.remove(at);
        self.judge.dropped(&gone.sent);
        self.note(What::Returned { op: gone.op, answer: unknown("dropped") });
    }

    fn ask(&mut self) {
        if self.pending.len() >= CROWD {
            return;
        }
        let Some(store) = self.store.as_ref().map(|store| store.store().clone()) else { return };
        let Some((ask, commit)) = self.choose() else { return };
        self.time.advance(1);
        let (at, failed) = (self.time.now(), self.disk.seen().journal_failed);
        self.ops += 1;
        let (op, call) = (self.ops, ask.call());
        let client = match &ask {
            Operation::Acquire(claim) => (id(&claim.token) % 1_000) as u32,
            _ => 0,
        };
        self.note(What::Invoked { op, client, call });
        let sent = self.judge.asked(ask.clone(), at, commit, failed);
        let store: Arc<dyn Store> = store;
        self.pending.push(Pending { op, sent, coming: ask.start(store) });
    }

    fn choose(&mut self) -> Option<(Operation, Option<usize>)> {
        let known = self.rng.pick(&self.known).cloned();
        let ask = match (self.rng.weighted(&[26, 18, 10, 4, 4, 6, 4, 16, 6, 3]), known) {
            (0, _) | (_, None) => Operation::Acquire(self.claim().ok()?),
            (1, Some(k)) => {
                let ttl = if self.rng.one_in(4) { None } else { Some(self.ttl()) };
                Operation::Renew(Renewal { key: k.key, token: k.token, generation: k.generation, ttl })
            }
            (2, Some(k)) => {
                let to = if self.rng.one_in(4) { Some(self.holder().ok()?) } else { None };
                let generation = self.rng.one_in(2).then_some(k.generation);
                Operation::Release(Release { key: k.key, token: k.token, generation, to })
            }
            (3, Some(k)) => {
                let to = self.holder().ok()?;
                Operation::Transfer(Transfer { key: k.key, token: k.token, generation: k.generation, to })
            }
            (4, Some(k)) => {
                let delay = Some(Duration::from_millis(self.rng.below(4) * 700));
                Operation::Revoke(Revoke {
                    key: k.key,
                    generation: k.generation,
                    delay,
                    reason: tenure_lease::RevokeReason::default(),
                })
            }
            (5, Some(k)) => Operation::Verify(k.key, k.token),
            (6, Some(k)) => Operation::Inspect(k.key),
            (7, Some(k)) => return self.commit(&k).map(|(ask, n)| (ask, Some(n))),
            (8, Some(_)) => Operation::Acquire(self.rng.pick(&self.claims)?.clone()),
            (_, Some(k)) => Operation::Acquire(self.claim().ok()?.instead_of(k.generation)),
        };
        Some((ask, None))
    }

    fn ttl(&mut self) -> Ttl {
        let ms = [300, 700, 1_500, 4_000, 9_000][self.rng.below(5) as usize];
        Ttl::from_millis(ms).unwrap_or(Ttl::MAX)
    }

    fn holder(&mut self) -> tenure_lease::Result<Holder> {
        Holder::new(format!("h{}", self.rng.below(3)))
    }

    fn claim(&mut self) -> tenure_lease::Result<Claim> {
        let key = Key::new(format!("k/{}", self.rng.below(KEYS)))?;
        let mut claim = Claim::new(key, self.holder()?, Token::random(&self.entropy), self.ttl());
        if self.rng.one_in(3) {
            claim = claim.waiting(Duration::from_millis(self.rng.within(50, 3_000)));
        }
        if !self.rng.one_in(3) {
            claim = claim.remote();
        }
        self.claims.push(claim.clone());
        if self.claims.len() > 6 {
            self.claims.remove(0);
        }
        Ok(claim)
    }

    /// Records that name the commit that wrote them, and its number in a log.
    fn commit(&mut self, under: &Known) -> Option<(Operation, usize)> {
        let n = self.judge.commits.len();
        let size = if self.fat { self.rng.within(1_000, 50_000) as usize } else { 24 };
        let mut value = (n as u64).to_be_bytes().to_vec();
        value.resize(size, n as u8);
        let value: Arc<[u8]> = value.into();
        let mut ops = vec![Op::Append {
            log: Key::new("log").ok()?,
            value: value[..8].into(),
            max_len: tenure_lease::limits::LOG,
        }];
        for r in 0..self.rng.within(1, 3) {
            let key = Key::new(format!("r/{r}")).ok()?;
            ops.push(match self.rng.one_in(5) {
                true => Op::Delete { key },
                false => Op::Put { key, value: value.clone(), ttl: None },
            });
        }
        let mode = if self.rng.one_in(2) { Mode::Strict } else { Mode::Monotonic };
        let fenced = self.rng.one_in(2);
        let (sent, answered, refused) = (self.time.now() + 1, None, false);
        let fence = fenced.then(|| (under.key.to_string(), under.generation.get(), mode));
        self.judge.commits.push(Commit { ops: ops.clone(), fence, sent, answered, refused });
        let (key, token, generation) = (under.key.clone(), under.token.clone(), under.generation);
        match fenced {
            true => Some((Operation::Fenced(Fence { key, token, generation, mode }, ops), n)),
            false => Some((Operation::Commit(ops), n)),
        }
    }

    /// The store, for looking at it while nothing is under way.
    pub(crate) fn local(&self) -> Option<Arc<Local>> {
        self.store.as_ref().map(|store| store.store().clone())
    }
}
