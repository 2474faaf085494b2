//! The one loop of a node: hear, look, plan, take and hand on. It decides nothing itself: the book knows and the
//! plan decides. Everything that waits for the store runs beside it.

mod hands;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Revision, Tick};
use lease_keeper::{Keeper, Terms};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::book::Beat;
use crate::events;
use crate::holding::Holding;
use crate::limits;
use crate::listen::{Signal, listen};
use crate::look::{self, About};
use crate::node::{Desk, Moved};
use crate::plan::{Rules, Why};
use crate::tasks::{self, Done, Looked};
use crate::worker::chance;

/// How many moves may begin at once at least.
const MOVES: usize = 8;
/// The least time between two plans: many events make one.
const CALM: Duration = Duration::from_millis(20);
/// Planning takes at most one part in so many of the loop's time, however many targets there are.
const LEISURE: u32 = 10;
/// The most that this makes of the time between two plans.
const CALMEST: Duration = Duration::from_secs(1);
/// Most single targets read at once; beyond, all are.
const READING: usize = 64;
/// Signals that wait for the loop.
const SIGNALS: usize = 4_096;

/// The loop's own.
pub(crate) struct Runner {
    desk: Arc<Desk>,
    clock: Arc<dyn Clock>,
    keeper: Keeper,
    terms: Terms,
    holdings: HashMap<String, Holding>,
    tasks: TaskTracker,
    claims: Arc<Semaphore>,
    done: mpsc::Sender<Done>,
    about: About,
    due: Due,
    /// Moves that may begin until the next refill.
    moves: usize,
    /// From when on something is taken.
    take_from: Tick,
    known: Marks,
    looking: Marks,
    /// Whole looks left to the surveyor.
    trusted: u32,
    /// Single targets that are being read.
    reading: usize,
    /// How long events are gathered before the next plan.
    calm: Duration,
}

/// When to do each thing again.
struct Due {
    beat: Tick,
    discover: Tick,
    sync: Tick,
    plan: Tick,
    refill: Tick,
}

/// Things that were found, or are being looked for.
#[derive(Default)]
struct Marks {
    owners: bool,
    nodes: bool,
    targets: bool,
    beat: bool,
}

impl Runner {
    pub(crate) fn new(desk: Arc<Desk>, keeper: Keeper, terms: Terms, done: mpsc::Sender<Done>) -> Self {
        let clock = desk.store.clock();
        let now = clock.now();
        let settings = &desk.settings;
        let about = About {
            name: settings.node_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: clock.wall().as_millis(),
            ..About::default()
        };
        // A little later than others that start at the same time, or a little earlier.
        let take_from = now + settings.settle().mul_f64(1.0 + chance() / 4.0);
        Self {
            clock,
            keeper,
            terms,
            holdings: HashMap::new(),
            tasks: TaskTracker::new(),
            claims: Arc::new(Semaphore::new(limits::CLAIMS)),
            done,
            about,
            due: Due { beat: now, discover: now, sync: now, plan: take_from, refill: now },
            moves: MOVES,
            take_from,
            known: Marks::default(),
            looking: Marks::default(),
            trusted: 0,
            reading: 0,
            calm: CALM,
            desk,
        }
    }

    /// Runs until told to stop, then gives everything back.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Done>, stop: CancellationToken) {
        let (_, mut signals) = mpsc::channel(1);
        let mut listener = JoinSet::new();
        loop {
            self.begin_what_is_due();
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = inbox.recv() => {
                    if let Some(from) = self.finish(done) {
                        let (sender, receiver) = mpsc::channel(SIGNALS);
                        // What the one before heard is in the look that this one begins at.
                        (listener, signals) = (JoinSet::new(), receiver);
                        listener.spawn(listen(self.desk.store.clone(), from, sender));
                    }
                }
                Some(signal) = signals.recv() => self.hear(signal),
                () = self.clock.sleep_until(wake) => {}
            }
        }
        drop(listener);
        self.leave(inbox).await;
    }

    fn next_wake(&self) -> Tick {
        let due = &self.due;
        // Before the first beat nobody is looked for, so that must not wake.
        let discover = if self.known.beat { due.discover } else { due.beat };
        due.beat.min(discover).min(due.sync).min(due.plan)
    }

    fn begin_what_is_due(&mut self) {
        let (now, settings) = (self.clock.now(), self.desk.settings.clone());
        if now >= self.due.beat {
            self.due.beat = now + settings.heartbeat_interval;
            if !std::mem::replace(&mut self.looking.beat, true) {
                self.about.uncertain = tasks::uncertain(&self.desk);
                let (desk, about) = (self.desk.clone(), self.about.clone());
                self.spawn(async move { Done::Beat(tasks::beat(&desk, &about).await) });
            }
        }
        // The first look comes after the first beat, so that nodes that start together see each other.
        if now >= self.due.discover && self.known.beat {
            self.due.discover = now + settings.discovery_interval;
            self.look_for_nodes();
        }
        if now >= self.due.sync {
            self.due.sync = now + settings.sync_interval;
            if !self.known.owners {
                self.look_for_owners();
            }
            self.look_for_targets();
        }
        if now >= self.due.plan {
            self.plan(now);
        }
    }

    fn spawn(&self, work: impl Future<Output = Done> + Send + 'static) {
        let done = self.done.clone();
        self.tasks.spawn(async move {
            // A loop that is gone needs no answer.
            let _ = done.send(work.await).await;
        });
    }

    fn look_for_nodes(&mut self) {
        if !std::mem::replace(&mut self.looking.nodes, true) {
            let desk = self.desk.clone();
            self.spawn(async move { Done::Nodes(tasks::nodes(&desk).await) });
        }
    }

    fn look_for_targets(&mut self) {
        if !std::mem::replace(&mut self.looking.targets, true) {
            let (desk, trusted) = (self.desk.clone(), self.trusted);
            self.spawn(async move { Done::Targets(tasks::targets(&desk, trusted).await) });
        }
    }

    fn look_for_owners(&mut self) {
        if !std::mem::replace(&mut self.looking.owners, true) {
            let desk = self.desk.clone();
            self.spawn(
                async move { Done::Owners(look::bounded(&*desk.store, look::owners(&*desk.store)).await) },
            );
        }
    }

    /// Plans soon, once for all that happens until then.
    fn replan(&mut self) {
        self.due.plan = self.due.plan.min(self.clock.now() + self.calm);
    }

    fn hear(&mut self, signal: Signal) {
        let now = self.clock.now();
        match signal {
            Signal::Granted { id, holder } => {
                self.desk.book.lock().granted(&id, &holder);
                self.tell(id, "granted", holder);
            }
            Signal::Ended { id, holder, end } => {
                let mine = self.desk.book.lock().ended(&id, &holder, end, now);
                if mine && self.ready(now) {
                    self.claim(id.clone());
                }
                self.tell(id, end.as_str(), holder);
            }
            Signal::Beat(node) => {
                let beat = self.desk.book.lock().beat(&node);
                match beat {
                    Beat::Known => return,
                    Beat::Again => {}
                    Beat::New => self.look_for_nodes(),
                }
            }
            Signal::Left(node) => {
                self.desk.book.lock().left(&node, now);
                self.tell(String::new(), "left", node);
            }
            Signal::Target(_) if self.reading >= READING => {
                // Many change at once: one look at all of them.
                self.trusted = u32::MAX;
                self.due.sync = self.due.sync.min(now + CALM * 10);
                return;
            }
            Signal::Target(id) => {
                self.reading += 1;
                let desk = self.desk.clone();
                self.spawn(async move {
                    let found = look::bounded(&*desk.store, look::target(&*desk.store, &id)).await;
                    Done::Target(id, found)
                });
                return;
            }
            Signal::Survey => {
                self.surveyed(now);
                return;
            }
            Signal::Lost => {
                self.trusted = u32::MAX;
                self.known.owners = false;
                self.look_for_owners();
                self.look_for_nodes();
                self.look_for_targets();
            }
        }
        self.replan();
    }

    /// What the surveyor found is read as soon as it is there; by this node's own time only if nothing comes.
    fn surveyed(&mut self, now: Tick) {
        let sync = self.desk.settings.sync_interval;
        if tasks::is_surveyor(&self.desk) {
            return;
        }
        if self.looking.targets {
            // What is being read may be the one before.
            self.due.sync = self.due.sync.min(now + CALM * 10);
        } else {
            self.due.sync = now + sync + sync / 4;
            self.look_for_targets();
        }
    }

    fn tell(&self, id: String, verb: &'static str, holder: String) {
        // Nobody looking is no failure.
        let _ = self.desk.moves.send(Moved { id, verb, holder });
    }

    /// Takes in what a task found. Some: from where a watch misses nothing.
    fn finish(&mut self, done: Done) -> Option<Revision> {
        let now = self.clock.now();
        match done {
            Done::Beat(answer) => {
                self.looking.beat = false;
                match answer {
                    Ok(()) => self.known.beat = true,
                    Err(error) => {
                        events::blind("heartbeat", &error);
                        self.due.beat = self.due.beat.min(now + self.desk.settings.heartbeat_interval / 4);
                    }
                }
            }
            Done::Owners(answer) => {
                self.looking.owners = false;
                match answer {
                    Ok((owners, revision)) => {
                        self.known.owners = true;
                        self.desk.book.lock().set_owners(owners, now);
                        self.replan();
                        return Some(revision);
                    }
                    Err(error) => events::blind("owners", &error),
                }
            }
            Done::Nodes(answer) => {
                self.looking.nodes = false;
                match answer {
                    Ok(seen) => {
                        self.known.nodes = true;
                        let mut book = self.desk.book.lock();
                        book.set_nodes(seen, now);
                        book.tell_size();
                    }
                    Err(error) => events::blind("nodes", &error),
                }
                self.replan();
            }
            Done::Targets(answer) => {
                self.looking.targets = false;
                self.found_targets(answer, now);
            }
            Done::Target(id, answer) => {
                self.reading -= 1;
                match answer {
                    Ok(found) => {
                        self.desk.book.lock().set_target(&id, found, now);
                        self.pass_targets_on(std::iter::once(id));
                        self.replan();
                    }
                    Err(error) => events::blind("target", &error),
                }
            }
            Done::Claimed(id, answer) => self.claimed(id, answer, now),
            Done::Left(step, generation, answer) => self.left(&step, generation, &answer, now),
            Done::Ended(id, lost) => self.lost(id, lost),
            Done::Looked(id, generation, lost, answer) => self.looked(&id, generation, lost, answer, now),
        }
        None
    }

    fn found_targets(&mut self, answer: lease::Result<Looked>, now: Tick) {
        match answer {
            Ok(Looked::Told) => self.trusted = self.trusted.saturating_add(1),
            Ok(Looked::Same) => self.trusted = 0,
            Ok(Looked::All(found)) => {
                self.trusted = 0;
                self.known.targets = true;
                let mut book = self.desk.book.lock();
                for (id, error) in &found.invalid {
                    if book.invalid.get(id) != Some(error) {
                        events::invalid(id, &error.to_string());
                    }
                }
                book.set_targets(found, now);
                book.tell_size();
                drop(book);
                let held: Vec<String> = self.holdings.keys().cloned().collect();
                self.pass_targets_on(held.into_iter());
                self.replan();
            }
            Err(error) => events::blind("targets", &error),
        }
    }

    /// Tells workers what changed about their targets.
    fn pass_targets_on(&self, ids: impl Iterator<Item = String>) {
        let book = self.desk.book.lock();
        for id in ids {
            if let (Some(holding), Some(target)) = (self.holdings.get(&id), book.targets.get(&id)) {
                holding.target.send_if_modified(|current| {
                    let other = **current != **target;
                    if other {
                        *current = target.clone();
                    }
                    other
                });
            }
        }
    }

    /// Whether this node takes anything yet.
    fn ready(&self, now: Tick) -> bool {
        let known = &self.known;
        now >= self.take_from && known.owners && known.nodes && known.targets
    }

    fn plan(&mut self, now: Tick) {
        let settings = self.desk.settings.clone();
        if now >= self.due.refill {
            self.due.refill = now + settings.pace();
            self.moves = MOVES.max(self.holdings.len().div_ceil(4));
        }
        let rules = Rules {
            fallback: settings.fallback(),
            settle: settings.settle(),
            moves: self.moves,
            may_take: self.ready(now),
        };
        let plan = self.desk.book.lock().plan(now, rules);
        self.calm = (self.clock.now().since(now) * LEISURE).clamp(CALM, CALMEST);
        let more = plan.release.iter().filter(|step| step.why == Why::Rebalance).count();
        self.moves = self.moves.saturating_sub(more);
        let idle = now + settings.discovery_interval;
        self.due.plan = plan.wake.map_or(idle, |wake| wake.max(now + self.calm));
        if self.moves == 0 || more > 0 {
            self.due.plan = self.due.plan.min(self.due.refill.max(now + self.calm));
        }
        if !rules.may_take {
            self.due.plan = self.due.plan.min(self.take_from.max(now + CALM * 5));
        }
        for id in plan.acquire {
            self.claim(id);
        }
        for step in plan.release {
            self.give_up(step);
        }
    }
}
