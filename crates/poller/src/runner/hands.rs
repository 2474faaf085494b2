//! What the loop does with targets: takes them, holds them, gives them up, loses them, and leaves with none.

use std::sync::Arc;
use std::time::Duration;

use lease::{Error as StoreError, Holder, Tick};
use lease_keeper::{Error, Guard, Lost};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::events::{self, Who};
use crate::holding::{Holding, Status};
use crate::plan::{Move, Why};
use crate::tasks::{self, Done};
use crate::worker::Worker;
use crate::{Target, keys, look};

impl Runner {
    pub(super) fn claim(&mut self, id: String) {
        let Ok(key) = keys::lease(&id) else { return };
        if !self.desk.book.lock().moving.insert(id.clone()) {
            return;
        }
        let (keeper, terms, claims) = (self.keeper.clone(), self.terms.clone(), self.claims.clone());
        self.spawn(async move {
            let _slot = claims.acquire().await;
            Done::Claimed(id, keeper.try_acquire(key, terms).await)
        });
    }

    pub(super) fn claimed(&mut self, id: String, answer: Result<Guard, Error>, now: Tick) {
        let who = |generation| Who { instance: &self.desk.instance, endpoint: &id, generation };
        match answer {
            Ok(guard) => {
                who(Some(guard.generation())).acquired();
                let target = {
                    let mut book = self.desk.book.lock();
                    let target = book.targets.get(&id).cloned().filter(|_| book.is_wanted(&id));
                    if target.is_none() {
                        book.arrived(&id);
                    }
                    target
                };
                match target {
                    Some(target) => self.hold(id, guard, target, now),
                    // Paused or deleted on the way: it goes back with the guard.
                    None => events::gone(),
                }
            }
            Err(Error::Busy { busy, .. }) => {
                who(busy.generation).acquire_failed(busy.reason.as_str());
                self.desk.book.lock().busy(&id, &busy, now, self.desk.settings.sync_interval);
            }
            Err(error) => {
                who(None).acquire_failed(&error.to_string());
                let wait = match error {
                    Error::Store(StoreError::Invalid { .. } | StoreError::Refused(_)) => 10,
                    _ => 1,
                };
                let rest = self.desk.settings.sync_interval.min(self.terms.ttl().as_duration() / 10) * wait;
                self.desk.book.lock().rest(&id, now + rest);
            }
        }
        self.replan();
    }

    fn hold(&mut self, id: String, guard: Guard, target: Arc<Target>, now: Tick) {
        let status = Arc::new(Status::default());
        let (sender, receiver) = watch::channel(target);
        let stop = CancellationToken::new();
        let worker = Worker {
            kit: self.desk.kit.clone(),
            held: guard.share(),
            target: receiver,
            stop: stop.clone(),
            status: status.clone(),
        };
        let (done, ended) = (self.done.clone(), id.clone());
        let worker = self.tasks.spawn(async move {
            if let Some(lost) = worker.run().await {
                // A loop that is gone needs no answer.
                let _ = done.send(Done::Ended(ended, lost)).await;
            }
        });
        self.desk.book.lock().took(&id, status, now);
        self.tell(id.clone(), "granted", self.desk.instance.clone());
        self.holdings.insert(id, Holding { guard, target: sender, stop, worker });
    }

    pub(super) fn give_up(&mut self, step: Move) {
        let Some(holding) = self.holdings.remove(&step.id) else {
            self.desk.book.lock().gave(&step.id, None, self.clock.now(), Duration::ZERO);
            return;
        };
        self.desk.book.lock().moving.insert(step.id.clone());
        let clock = self.clock.clone();
        self.spawn(async move {
            let generation = holding.guard.generation();
            let heir = step.heir.as_deref().and_then(|heir| Holder::new(heir).ok());
            let answer = holding.give_up(heir, &*clock).await;
            Done::Left(step, Some(generation), answer)
        });
    }

    pub(super) fn left(
        &mut self,
        step: &Move,
        generation: Option<lease::Generation>,
        answer: &Result<lease::Released, Error>,
        now: Tick,
    ) {
        events::gone();
        let who = Who { instance: &self.desk.instance, endpoint: &step.id, generation };
        match answer {
            Ok(_) => who.released(step.why, step.heir.as_deref()),
            Err(error) => who.expired(&format!("not given back: {error}")),
        }
        let rest = self.desk.settings.fallback();
        self.desk.book.lock().gave(&step.id, step.heir.as_deref(), now, rest);
        self.replan();
    }

    /// A worker's lease is lost: find out to whom.
    pub(super) fn lost(&mut self, id: String, lost: Lost) {
        let Some(holding) = self.holdings.remove(&id) else { return };
        events::gone();
        let (generation, key) = (holding.guard.generation(), holding.guard.key().clone());
        drop(holding);
        let mut book = self.desk.book.lock();
        book.gave(&id, None, self.clock.now(), Duration::ZERO);
        book.moving.insert(id.clone());
        drop(book);
        let desk = self.desk.clone();
        self.spawn(async move {
            let status = look::bounded(&*desk.store, desk.store.inspect(&key)).await;
            Done::Looked(id, generation, lost, status)
        });
    }

    pub(super) fn looked(
        &mut self,
        id: &str,
        generation: lease::Generation,
        lost: Lost,
        answer: lease::Result<lease::Status>,
        now: Tick,
    ) {
        let who = Who { instance: &self.desk.instance, endpoint: id, generation: Some(generation) };
        let mut book = self.desk.book.lock();
        book.arrived(id);
        let status = answer.ok().filter(|status| status.phase == lease::Phase::Held);
        let holder = status.as_ref().and_then(|status| status.holder.clone());
        match (status, holder) {
            (Some(status), Some(holder)) if holder.as_str() != self.desk.instance => {
                who.taken_over(holder.as_str(), status.generation);
                let (holder, foreign) = (holder.as_str().to_owned(), status.since.is_none());
                let (reserved, remaining) = (false, status.remaining);
                book.set_owner(look::Owner { id: id.to_owned(), holder, reserved, foreign, remaining }, now);
            }
            _ => who.expired(lost.as_str()),
        }
        drop(book);
        self.replan();
    }

    /// Stops every poll, takes the heartbeat away, and hands everything to its heirs.
    pub(super) async fn leave(mut self, mut inbox: mpsc::Receiver<Done>) {
        let heirs = self.desk.book.lock().heirs();
        self.holdings.values().for_each(|holding| holding.stop.cancel());
        // First, so that nobody places anything on this node any more.
        if let Err(error) = tasks::farewell(&self.desk).await {
            events::blind("farewell", &error);
        }
        let ids: Vec<String> = self.holdings.keys().cloned().collect();
        for id in ids {
            let heir = heirs.get(&id).cloned().flatten();
            self.give_up(Move { id, heir, why: Why::Shutdown });
        }
        self.tasks.close();
        let tracker = self.tasks.clone();
        let mut all = std::pin::pin!(tracker.wait());
        loop {
            let done = tokio::select! {
                biased;
                Some(done) = inbox.recv() => done,
                () = &mut all => break,
            };
            match done {
                // Granted too late: it goes back with the guard.
                Done::Claimed(_, Ok(guard)) => drop(guard),
                Done::Left(step, generation, answer) => {
                    self.left(&step, generation, &answer, self.clock.now());
                }
                _ => {}
            }
        }
        while let Ok(done) = inbox.try_recv() {
            if let Done::Left(step, generation, answer) = done {
                self.left(&step, generation, &answer, self.clock.now());
            }
        }
        self.keeper.settled().await;
    }
}
