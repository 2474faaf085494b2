//! The event loop of a node: receive changes, refresh, plan, acquire and release. The loop itself decides nothing:
//! [`ClusterView`](crate::cluster_view::ClusterView) holds what is known and the plan decides. Everything that waits
//! for the store runs in separate tasks.

mod actions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Keeper, Terms};
use tenure_lease::{Clock, Revision, Tick};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster_view::Heartbeat;
use crate::discovery::{self, NodeInfo};
use crate::events;
use crate::limits;
use crate::node::{NodeState, OwnershipEvent};
use crate::owned::OwnedTarget;
use crate::plan::{ReleaseReason, Rules};
use crate::tasks::{self, Completion, TargetRefresh};
use crate::watch::{Change, watch_changes};
use crate::worker::random_unit;

/// Minimum number of targets that may move away per refill interval.
const MOVES_MIN: usize = 8;
/// Minimum delay between two plans, so that one plan covers many events.
const PLAN_DELAY_MIN: Duration = Duration::from_millis(20);
/// Planning may use at most one part in this many of the loop's time, however many targets there are.
const PLAN_TIME_RATIO: u32 = 10;
/// Upper bound of the delay between two plans.
const PLAN_DELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum number of concurrent reads of single targets. Beyond it, all targets are read at once.
const TARGET_READS_MAX: usize = 64;
/// Capacity of the queue of changes.
const CHANGES: usize = 4_096;

/// The event loop and the state that only it uses.
pub(crate) struct Runner {
    state: Arc<NodeState>,
    clock: Arc<dyn Clock>,
    keeper: Keeper,
    terms: Terms,
    owned: HashMap<String, OwnedTarget>,
    tasks: TaskTracker,
    claims: Arc<Semaphore>,
    done: mpsc::Sender<Completion>,
    about: NodeInfo,
    due: Due,
    /// Targets that may still move away before the next refill.
    moves: usize,
    /// No target is acquired before this time.
    acquire_from: Tick,
    loaded: ReadFlags,
    in_flight: ReadFlags,
    /// Consecutive target reads replaced by the survey.
    surveys_used: u32,
    /// Reads of single targets in flight.
    target_reads: usize,
    /// How long events are collected before the next plan.
    plan_delay: Duration,
}

/// When each periodic task is due.
struct Due {
    beat: Tick,
    discover: Tick,
    sync: Tick,
    plan: Tick,
    refill: Tick,
}

/// One flag for each kind of store call.
#[derive(Default)]
struct ReadFlags {
    owners: bool,
    nodes: bool,
    targets: bool,
    beat: bool,
}

impl Runner {
    pub(crate) fn new(
        state: Arc<NodeState>,
        keeper: Keeper,
        terms: Terms,
        done: mpsc::Sender<Completion>,
    ) -> Self {
        let clock = state.store.clock();
        let now = clock.now();
        let settings = &state.settings;
        let about = NodeInfo {
            name: settings.node_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: clock.wall().as_millis(),
            ..NodeInfo::default()
        };
        // Jitter spreads nodes that start at the same time.
        let acquire_from = now + settings.settle_time().mul_f64(1.0 + random_unit() / 4.0);
        Self {
            clock,
            keeper,
            terms,
            owned: HashMap::new(),
            tasks: TaskTracker::new(),
            claims: Arc::new(Semaphore::new(limits::CLAIMS)),
            done,
            about,
            due: Due { beat: now, discover: now, sync: now, plan: acquire_from, refill: now },
            moves: MOVES_MIN,
            acquire_from,
            loaded: ReadFlags::default(),
            in_flight: ReadFlags::default(),
            surveys_used: 0,
            target_reads: 0,
            plan_delay: PLAN_DELAY_MIN,
            state,
        }
    }

    /// Runs until `stop` is cancelled, then releases every lease.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Completion>, stop: CancellationToken) {
        let (_, mut changes) = mpsc::channel(1);
        let mut watcher = JoinSet::new();
        loop {
            self.start_due_tasks();
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completion) = inbox.recv() => {
                    if let Some(from) = self.handle_completion(completion) {
                        let (sender, receiver) = mpsc::channel(CHANGES);
                        // The previous watch's changes are part of the read that this watch starts from.
                        (watcher, changes) = (JoinSet::new(), receiver);
                        watcher.spawn(watch_changes(self.state.store.clone(), from, sender));
                    }
                }
                Some(change) = changes.recv() => self.handle_change(change),
                () = self.clock.sleep_until(wake) => {}
            }
        }
        drop(watcher);
        self.shut_down(inbox).await;
    }

    fn next_wake(&self) -> Tick {
        let due = &self.due;
        // Nodes are not read before the first heartbeat, so that deadline must not wake the loop.
        let discover = if self.loaded.beat { due.discover } else { due.beat };
        due.beat.min(discover).min(due.sync).min(due.plan)
    }

    fn start_due_tasks(&mut self) {
        let (now, settings) = (self.clock.now(), self.state.settings.clone());
        if now >= self.due.beat {
            self.due.beat = now + settings.heartbeat_interval;
            if !std::mem::replace(&mut self.in_flight.beat, true) {
                self.about.uncertain = tasks::uncertain_targets(&self.state);
                let (state, about) = (self.state.clone(), self.about.clone());
                self.spawn(
                    async move { Completion::Heartbeat(tasks::write_heartbeat(&state, &about).await) },
                );
            }
        }
        // The first read follows the first heartbeat, so that nodes that start together see each other.
        if now >= self.due.discover && self.loaded.beat {
            self.due.discover = now + settings.discovery_interval;
            self.refresh_nodes();
        }
        if now >= self.due.sync {
            self.due.sync = now + settings.sync_interval;
            if !self.loaded.owners {
                self.refresh_owners();
            }
            self.refresh_targets();
        }
        if now >= self.due.plan {
            self.plan(now);
        }
    }

    fn spawn(&self, work: impl Future<Output = Completion> + Send + 'static) {
        let done = self.done.clone();
        self.tasks.spawn(async move {
            // The loop may have stopped.
            let _ = done.send(work.await).await;
        });
    }

    fn refresh_nodes(&mut self) {
        if !std::mem::replace(&mut self.in_flight.nodes, true) {
            let state = self.state.clone();
            self.spawn(async move { Completion::Nodes(tasks::read_nodes(&state).await) });
        }
    }

    fn refresh_targets(&mut self) {
        if !std::mem::replace(&mut self.in_flight.targets, true) {
            let (state, surveys_used) = (self.state.clone(), self.surveys_used);
            self.spawn(async move { Completion::Targets(tasks::read_targets(&state, surveys_used).await) });
        }
    }

    fn refresh_owners(&mut self) {
        if !std::mem::replace(&mut self.in_flight.owners, true) {
            let state = self.state.clone();
            self.spawn(async move {
                Completion::Owners(
                    discovery::with_timeout(&*state.store, discovery::read_owners(&*state.store)).await,
                )
            });
        }
    }

    /// Schedules a plan. One plan covers everything that happens before it.
    fn replan(&mut self) {
        self.due.plan = self.due.plan.min(self.clock.now() + self.plan_delay);
    }

    fn handle_change(&mut self, change: Change) {
        let now = self.clock.now();
        match change {
            Change::Granted { id, holder } => {
                self.state.cluster.lock().on_granted(&id, &holder);
                self.publish_ownership(id, "granted", holder);
            }
            Change::Ended { id, holder, end } => {
                let mine = self.state.cluster.lock().on_ended(&id, &holder, end, now);
                if mine && self.may_acquire(now) {
                    self.claim(id.clone());
                }
                self.publish_ownership(id, end.as_str(), holder);
            }
            Change::Heartbeat(node) => {
                let heartbeat = self.state.cluster.lock().on_heartbeat(&node);
                match heartbeat {
                    Heartbeat::Known => return,
                    Heartbeat::Resumed => {}
                    Heartbeat::New => self.refresh_nodes(),
                }
            }
            Change::NodeLeft(node) => {
                self.state.cluster.lock().on_node_left(&node, now);
                self.publish_ownership(String::new(), "left", node);
            }
            Change::Target(_) if self.target_reads >= TARGET_READS_MAX => {
                // Many targets change at once: read all of them together.
                self.surveys_used = u32::MAX;
                self.due.sync = self.due.sync.min(now + PLAN_DELAY_MIN * 10);
                return;
            }
            Change::Target(id) => {
                self.target_reads += 1;
                let state = self.state.clone();
                self.spawn(async move {
                    let found =
                        discovery::with_timeout(&*state.store, discovery::read_target(&*state.store, &id))
                            .await;
                    Completion::Target(id, found)
                });
                return;
            }
            Change::Survey => {
                self.handle_survey(now);
                return;
            }
            Change::WatchLost => {
                self.surveys_used = u32::MAX;
                self.loaded.owners = false;
                self.refresh_owners();
                self.refresh_nodes();
                self.refresh_targets();
            }
        }
        self.replan();
    }

    /// Reads the targets as soon as the survey changes. The node's own interval applies only without a survey.
    fn handle_survey(&mut self, now: Tick) {
        let sync = self.state.settings.sync_interval;
        if tasks::is_surveyor(&self.state) {
            return;
        }
        if self.in_flight.targets {
            // The read in flight may be of the previous survey.
            self.due.sync = self.due.sync.min(now + PLAN_DELAY_MIN * 10);
        } else {
            self.due.sync = now + sync + sync / 4;
            self.refresh_targets();
        }
    }

    fn publish_ownership(&self, id: String, verb: &'static str, holder: String) {
        // There may be no subscriber.
        let _ = self.state.ownership_events.send(OwnershipEvent { id, verb, holder });
    }

    /// Applies the result of a task. After a read of all owners, returns the revision to watch from.
    fn handle_completion(&mut self, completion: Completion) -> Option<Revision> {
        let now = self.clock.now();
        match completion {
            Completion::Heartbeat(answer) => {
                self.in_flight.beat = false;
                match answer {
                    Ok(()) => self.loaded.beat = true,
                    Err(error) => {
                        events::read_failed("heartbeat", &error);
                        self.due.beat = self.due.beat.min(now + self.state.settings.heartbeat_interval / 4);
                    }
                }
            }
            Completion::Owners(answer) => {
                self.in_flight.owners = false;
                match answer {
                    Ok((owners, revision)) => {
                        self.loaded.owners = true;
                        self.state.cluster.lock().set_owners(owners, now);
                        self.replan();
                        return Some(revision);
                    }
                    Err(error) => events::read_failed("owners", &error),
                }
            }
            Completion::Nodes(answer) => {
                self.in_flight.nodes = false;
                match answer {
                    Ok(nodes) => {
                        self.loaded.nodes = true;
                        let mut cluster = self.state.cluster.lock();
                        cluster.set_nodes(nodes, now);
                        cluster.record_counts();
                    }
                    Err(error) => events::read_failed("nodes", &error),
                }
                self.replan();
            }
            Completion::Targets(answer) => {
                self.in_flight.targets = false;
                self.apply_targets(answer, now);
            }
            Completion::Target(id, answer) => {
                self.target_reads -= 1;
                match answer {
                    Ok(found) => {
                        self.state.cluster.lock().set_target(&id, found, now);
                        self.update_workers(std::iter::once(id));
                        self.replan();
                    }
                    Err(error) => events::read_failed("target", &error),
                }
            }
            Completion::Claimed(id, answer) => self.finish_claim(id, answer, now),
            Completion::Released(release, generation, answer) => {
                self.finish_release(&release, generation, &answer, now)
            }
            Completion::Lost(id, lost) => self.handle_loss(id, lost),
            Completion::Inspected(id, generation, lost, answer) => {
                self.finish_inspection(&id, generation, lost, answer, now)
            }
        }
        None
    }

    fn apply_targets(&mut self, answer: tenure_lease::Result<TargetRefresh>, now: Tick) {
        match answer {
            Ok(TargetRefresh::SurveyUnchanged) => self.surveys_used = self.surveys_used.saturating_add(1),
            Ok(TargetRefresh::Unchanged) => self.surveys_used = 0,
            Ok(TargetRefresh::Changed(found)) => {
                self.surveys_used = 0;
                self.loaded.targets = true;
                let mut cluster = self.state.cluster.lock();
                for (id, error) in &found.invalid {
                    if cluster.invalid.get(id) != Some(error) {
                        events::invalid_target(id, &error.to_string());
                    }
                }
                cluster.set_targets(found, now);
                cluster.record_counts();
                drop(cluster);
                let held: Vec<String> = self.owned.keys().cloned().collect();
                self.update_workers(held.into_iter());
                self.replan();
            }
            Err(error) => events::read_failed("targets", &error),
        }
    }

    /// Sends changed targets to their workers.
    fn update_workers(&self, ids: impl Iterator<Item = String>) {
        let cluster = self.state.cluster.lock();
        for id in ids {
            if let (Some(holding), Some(target)) = (self.owned.get(&id), cluster.targets.get(&id)) {
                holding.target.send_if_modified(|current| {
                    let changed = **current != **target;
                    if changed {
                        *current = target.clone();
                    }
                    changed
                });
            }
        }
    }

    /// Whether this node may acquire targets yet.
    fn may_acquire(&self, now: Tick) -> bool {
        let loaded = &self.loaded;
        now >= self.acquire_from && loaded.owners && loaded.nodes && loaded.targets
    }

    fn plan(&mut self, now: Tick) {
        let settings = self.state.settings.clone();
        if now >= self.due.refill {
            self.due.refill = now + settings.refill_interval();
            self.moves = MOVES_MIN.max(self.owned.len().div_ceil(4));
        }
        let rules = Rules {
            fallback: settings.fallback(),
            settle: settings.settle_time(),
            moves: self.moves,
            may_acquire: self.may_acquire(now),
        };
        let plan = self.state.cluster.lock().plan(now, rules);
        self.plan_delay =
            (self.clock.now().since(now) * PLAN_TIME_RATIO).clamp(PLAN_DELAY_MIN, PLAN_DELAY_MAX);
        let moved = plan.release.iter().filter(|release| release.reason == ReleaseReason::Rebalance).count();
        self.moves = self.moves.saturating_sub(moved);
        let idle = now + settings.discovery_interval;
        self.due.plan = plan.wake.map_or(idle, |wake| wake.max(now + self.plan_delay));
        if self.moves == 0 || moved > 0 {
            self.due.plan = self.due.plan.min(self.due.refill.max(now + self.plan_delay));
        }
        if !rules.may_acquire {
            self.due.plan = self.due.plan.min(self.acquire_from.max(now + PLAN_DELAY_MIN * 5));
        }
        for id in plan.acquire {
            self.claim(id);
        }
        for release in plan.release {
            self.start_release(release);
        }
    }
}
