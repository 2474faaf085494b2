//! The one task that renews every lease of the process, earliest deadline first and many in a call.

use std::sync::Arc;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Error, Renewed, Result, Tick, limits};
use tokio::task::JoinSet;

use crate::entropy::Jitter;
use crate::held_lease::HeldLease;
use crate::keeper::State;
use crate::reign::{Attempt, Confirmation};
use crate::schedule::EntryId;
use crate::{Lost, telemetry};

/// One lease in a renewal call.
struct Item {
    id: EntryId,
    lease: Arc<HeldLease>,
    attempt: Attempt,
}

/// Renews until the keeper is gone.
///
/// Calls run concurrently with the loop, so that a hanging store does not delay state transitions. A call applies its
/// results to the leases itself; the loop only reads the clock and decides what to send.
pub(crate) async fn run(state: Arc<State>) {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = state.closed.cancelled() => return,
            Some(_) = calls.join_next(), if !calls.is_empty() => {}
            () = state.schedule.changed.notified() => {}
            () = until(&*state.clock, state.schedule.next_wake()) => {}
        }
        send_due(&state, &mut calls);
    }
}

async fn until(clock: &dyn Clock, wake: Option<Tick>) {
    match wake {
        Some(wake) => clock.sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Checks every lease that needs attention and sends the renewals that are due.
fn send_due(state: &Arc<State>, calls: &mut JoinSet<()>) {
    let now = state.clock.now();
    if state.schedule.next_wake().is_none_or(|wake| wake > now) {
        return;
    }
    let jitter = Jitter::draw(&*state.entropy);
    let due = state.schedule.due(now + state.window);
    let ids: Vec<EntryId> = due.iter().map(|(id, _)| *id).collect();
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for (id, lease) in due {
        if let Some(attempt) = lease.review(now, state.window, jitter) {
            let batch = if lease.renews_alone() { &mut alone } else { &mut together };
            batch.push(Item { id, lease, attempt });
        }
    }
    state.schedule.reschedule(ids, now);
    together.sort_by_key(|item| (item.lease.deadline(), item.id));
    alone.sort_by_key(|item| (item.lease.deadline(), item.id));
    for item in alone {
        calls.spawn(Call::new(state, vec![item]).perform());
    }
    while !together.is_empty() {
        let rest = together.split_off(together.len().min(limits::BATCH));
        calls.spawn(Call::new(state, together).perform());
        together = rest;
    }
}

/// One call in flight. Dropped without a response, by timeout, panic or shutdown, its outcome is unknown.
struct Call {
    state: Arc<State>,
    items: Vec<Item>,
    /// Drawn once per call, so that leases that left together stay together.
    jitter: Jitter,
    answered: bool,
}

impl Call {
    fn new(state: &Arc<State>, items: Vec<Item>) -> Self {
        let jitter = Jitter::draw(&*state.entropy);
        Self { state: state.clone(), items, jitter, answered: false }
    }

    async fn perform(mut self) {
        let renewals: Vec<_> = self.items.iter().map(|item| item.lease.renewal()).collect();
        // Every item fails at its own limit; the call itself may take until the last of them.
        let Some(limit) = self.items.iter().map(|item| item.attempt.limit).max() else { return };
        let state = self.state.clone();
        let give_up = state.clock.sleep_until(limit);
        let sent = state.clock.now();
        let answer = tokio::select! {
            biased;
            answer = state.store.renew(&renewals) => answer,
            () = give_up => Err(self.unknown("no response in time")),
        };
        match answer {
            Ok(results) if results.len() == self.items.len() => self.apply(sent, results),
            Ok(_) => self.fail(&self.unknown("unexpected response: not one result per lease")),
            Err(_) if broken(Break::UnknownIsYes) => {
                let yes = self.items.iter().map(|item| item.lease.ttl().as_duration());
                let yes = yes.map(|remaining| Ok(Renewed::Renewed { remaining })).collect();
                self.apply(sent, yes);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn unknown(&self, why: &str) -> Error {
        Error::unknown(self.state.store.capabilities().engine, why)
    }

    fn apply(&mut self, sent: Tick, results: Vec<Result<Renewed>>) {
        self.answered = true;
        let (mut renewed, mut lost) = (0, 0);
        let mut failures = Vec::new();
        for (item, answer) in self.items.iter().zip(results) {
            match answer {
                Ok(Renewed::Renewed { remaining }) => {
                    renewed += 1;
                    let confirmation = Confirmation { sent, remaining };
                    item.lease.renewed(item.attempt.number, confirmation, self.jitter);
                    if let Some(observer) = &self.state.observer {
                        observer.renewed(&item.lease.lease);
                    }
                }
                Ok(Renewed::Lost(end)) => {
                    lost += 1;
                    item.lease.lose(Lost::Ended(end));
                }
                Err(error) => {
                    item.lease.failed(item.attempt.number, self.jitter);
                    if let Some(observer) = &self.state.observer {
                        observer.failed(&item.lease.lease, &error);
                    }
                    failures.push(error);
                }
            }
        }
        telemetry::renewals_finished("renewed", renewed);
        telemetry::renewals_finished("lost", lost);
        // The items of a call that fail share their reason: one line says it for all of them.
        if let Some(error) = failures.first() {
            telemetry::renew_failed(error, failures.len());
        }
    }

    fn fail(&self, error: &Error) {
        telemetry::renew_failed(error, self.items.len());
        if let Some(observer) = &self.state.observer {
            self.items.iter().for_each(|item| observer.failed(&item.lease.lease, error));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            for item in &self.items {
                item.lease.failed(item.attempt.number, self.jitter);
            }
        }
        self.state.schedule.reschedule(self.items.iter().map(|item| item.id), self.state.clock.now());
    }
}
