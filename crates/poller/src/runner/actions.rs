//! The actions of the event loop: claim, own, release and lose targets, and shut down.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Error, Guard, Lost};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Error as StoreError, Holder, Tick};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::events::{self, LeaseEvent};
use crate::owned::{OwnedTarget, TargetStatus};
use crate::plan::{Release, ReleaseReason};
use crate::tasks::{self, Completion};
use crate::worker::Worker;
use crate::{Target, discovery, keys};

impl Runner {
    pub(super) fn claim(&mut self, id: String) {
        let instance = if broken(Break::KeyPerNode) { &*self.state.instance } else { "" };
        let Ok(key) = keys::lease(&format!("{id}{instance}")) else { return };
        if !self.state.cluster.lock().in_transition.insert(id.clone()) {
            return;
        }
        let (keeper, terms, claims) = (self.keeper.clone(), self.terms.clone(), self.claims.clone());
        self.spawn(async move {
            let _slot = claims.acquire().await;
            Completion::Claimed(id, keeper.try_acquire(key, terms).await)
        });
    }

    pub(super) fn finish_claim(&mut self, id: String, answer: Result<Guard, Error>, now: Tick) {
        let event = |generation| LeaseEvent { instance: &self.state.instance, endpoint: &id, generation };
        match answer {
            Ok(guard) => {
                event(Some(guard.generation())).acquired();
                let target = {
                    let mut cluster = self.state.cluster.lock();
                    let target = cluster.targets.get(&id).cloned().filter(|_| cluster.is_active(&id));
                    if target.is_none() {
                        cluster.finish_transition(&id);
                    }
                    target
                };
                match target {
                    Some(target) => self.start_worker(id, guard, target, now),
                    // Paused or deleted meanwhile: dropping the guard releases the lease.
                    None => events::target_left(),
                }
            }
            Err(Error::Busy { busy, .. }) => {
                event(busy.generation).acquire_failed(busy.reason.as_str());
                self.state.cluster.lock().on_busy(&id, &busy, now, self.state.settings.sync_interval);
            }
            Err(error) => {
                event(None).acquire_failed(&error.to_string());
                let wait = match error {
                    Error::Store(StoreError::Invalid { .. } | StoreError::Refused(_)) => 10,
                    _ => 1,
                };
                let rest = self.state.settings.sync_interval.min(self.terms.ttl().as_duration() / 10) * wait;
                self.state.cluster.lock().defer(&id, now + rest);
            }
        }
        self.replan();
    }

    fn start_worker(&mut self, id: String, guard: Guard, target: Arc<Target>, now: Tick) {
        let status = Arc::new(TargetStatus::default());
        let (sender, receiver) = watch::channel(target);
        let stop = CancellationToken::new();
        let worker = Worker {
            context: self.state.context.clone(),
            held: guard.share(),
            target: receiver,
            stop: stop.clone(),
            status: status.clone(),
        };
        let (done, ended) = (self.done.clone(), id.clone());
        let worker = self.tasks.spawn(async move {
            if let Some(lost) = worker.run().await {
                // The loop may have stopped.
                let _ = done.send(Completion::Lost(ended, lost)).await;
            }
        });
        self.state.cluster.lock().on_acquired(&id, status, now);
        self.publish_ownership(id.clone(), "granted", self.state.instance.clone());
        self.owned.insert(id, OwnedTarget { guard, target: sender, stop, worker });
    }

    pub(super) fn start_release(&mut self, release: Release) {
        let Some(owned) = self.owned.remove(&release.id) else {
            self.state.cluster.lock().on_released(&release.id, None, self.clock.now(), Duration::ZERO);
            return;
        };
        self.state.cluster.lock().in_transition.insert(release.id.clone());
        let clock = self.clock.clone();
        self.spawn(async move {
            let generation = owned.guard.generation();
            let successor = release.successor.as_deref().and_then(|successor| Holder::new(successor).ok());
            let answer = owned.stop_and_release(successor, &*clock).await;
            Completion::Released(release, Some(generation), answer)
        });
    }

    pub(super) fn finish_release(
        &mut self,
        release: &Release,
        generation: Option<tenure_lease::Generation>,
        answer: &Result<tenure_lease::Released, Error>,
        now: Tick,
    ) {
        events::target_left();
        let event = LeaseEvent { instance: &self.state.instance, endpoint: &release.id, generation };
        match answer {
            Ok(_) => event.released(release.reason, release.successor.as_deref()),
            Err(error) => event.expired(&format!("release failed: {error}")),
        }
        let rest = self.state.settings.fallback();
        self.state.cluster.lock().on_released(&release.id, release.successor.as_deref(), now, rest);
        self.replan();
    }

    /// Handles a lost lease: removes the target and inspects the lease to find its new owner.
    pub(super) fn handle_loss(&mut self, id: String, lost: Lost) {
        let Some(owned) = self.owned.remove(&id) else { return };
        events::target_left();
        let (generation, key) = (owned.guard.generation(), owned.guard.key().clone());
        drop(owned);
        let mut cluster = self.state.cluster.lock();
        cluster.on_released(&id, None, self.clock.now(), Duration::ZERO);
        cluster.in_transition.insert(id.clone());
        drop(cluster);
        let state = self.state.clone();
        self.spawn(async move {
            let status = discovery::with_timeout(&*state.store, state.store.inspect(&key)).await;
            Completion::Inspected(id, generation, lost, status)
        });
    }

    pub(super) fn finish_inspection(
        &mut self,
        id: &str,
        generation: tenure_lease::Generation,
        lost: Lost,
        answer: tenure_lease::Result<tenure_lease::Status>,
        now: Tick,
    ) {
        let event = LeaseEvent { instance: &self.state.instance, endpoint: id, generation: Some(generation) };
        let mut cluster = self.state.cluster.lock();
        cluster.finish_transition(id);
        let status = answer.ok().filter(|status| status.phase == tenure_lease::Phase::Held);
        let holder = status.as_ref().and_then(|status| status.holder.clone());
        match (status, holder) {
            (Some(status), Some(holder)) if holder.as_str() != self.state.instance => {
                event.taken_over(holder.as_str(), status.generation);
                let (holder, foreign) = (holder.as_str().to_owned(), status.since.is_none());
                let (reserved, remaining) = (false, status.remaining);
                cluster.set_owner(
                    discovery::LeaseOwner { id: id.to_owned(), holder, reserved, foreign, remaining },
                    now,
                );
            }
            _ => event.expired(lost.as_str()),
        }
        drop(cluster);
        self.replan();
    }

    /// Stops every poll, removes the heartbeat and hands every target to its successor.
    pub(super) async fn shut_down(mut self, mut inbox: mpsc::Receiver<Completion>) {
        let successors = self.state.cluster.lock().plan_successors();
        self.owned.values().for_each(|owned| owned.stop.cancel());
        // Before the releases, so that no node places a target here again.
        if let Err(error) = tasks::remove_heartbeat(&self.state).await {
            events::read_failed("remove_heartbeat", &error);
        }
        let ids: Vec<String> = self.owned.keys().cloned().collect();
        for id in ids {
            let successor = successors.get(&id).cloned().flatten();
            self.start_release(Release { id, successor, reason: ReleaseReason::Shutdown });
        }
        self.tasks.close();
        let tracker = self.tasks.clone();
        let mut all = std::pin::pin!(tracker.wait());
        loop {
            let completion = tokio::select! {
                biased;
                Some(completion) = inbox.recv() => completion,
                () = &mut all => break,
            };
            match completion {
                // Granted too late: dropping the guard releases the lease.
                Completion::Claimed(_, Ok(guard)) => drop(guard),
                Completion::Released(release, generation, answer) => {
                    self.finish_release(&release, generation, &answer, self.clock.now());
                }
                _ => {}
            }
        }
        while let Ok(completion) = inbox.try_recv() {
            if let Completion::Released(release, generation, answer) = completion {
                self.finish_release(&release, generation, &answer, self.clock.now());
            }
        }
        self.keeper.settled().await;
    }
}
