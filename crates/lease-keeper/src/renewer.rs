//! The one task that renews every lease of the process, earliest deadline first and many in a call.

use std::sync::Arc;

use lease::breaks::{Break, broken};
use lease::{Clock, Error, Renewed, Tick, limits};
use tokio::task::JoinSet;

use crate::core::Core;
use crate::entropy::Jitter;
use crate::keeper::Shared;
use crate::reign::Attempt;
use crate::roll::Number;
use crate::{Lost, telemetry};

/// One lease in a call that is about to leave.
struct Item {
    number: Number,
    core: Arc<Core>,
    attempt: Attempt,
}

/// Renews until the keeper is gone.
///
/// Calls run beside the loop, so that a store that hangs delays nobody's transitions. What a call learns it
/// writes to the leases itself; the loop only looks at the clock and decides what leaves.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            Some(_) = calls.join_next(), if !calls.is_empty() => {}
            () = shared.roll.changed.notified() => {}
            () = until(&*shared.clock, shared.roll.next_wake()) => {}
        }
        pass(&shared, &mut calls);
    }
}

async fn until(clock: &dyn Clock, wake: Option<Tick>) {
    match wake {
        Some(wake) => clock.sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Looks at every lease whose time has come and sends what is due.
fn pass(shared: &Arc<Shared>, calls: &mut JoinSet<()>) {
    let now = shared.clock.now();
    if shared.roll.next_wake().is_none_or(|wake| wake > now) {
        return;
    }
    let jitter = Jitter::draw(&*shared.entropy);
    let looked = shared.roll.due(now + shared.window);
    let numbers: Vec<Number> = looked.iter().map(|(number, _)| *number).collect();
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for (number, core) in looked {
        if let Some(attempt) = core.review(now, shared.window, jitter) {
            let pile = if core.alone() { &mut alone } else { &mut together };
            pile.push(Item { number, core, attempt });
        }
    }
    shared.roll.reschedule(numbers, now);
    together.sort_by_key(|item| (item.core.deadline(), item.number));
    alone.sort_by_key(|item| (item.core.deadline(), item.number));
    for item in alone {
        calls.spawn(Call::new(shared, vec![item]).perform());
    }
    while !together.is_empty() {
        let rest = together.split_off(together.len().min(limits::BATCH));
        calls.spawn(Call::new(shared, together).perform());
        together = rest;
    }
}

/// One call on its way. Dropped without an answer, by time, panic or shutdown, it counts as unknown.
struct Call {
    shared: Arc<Shared>,
    items: Vec<Item>,
    /// Drawn once per call, so that leases that left together stay together.
    jitter: Jitter,
    answered: bool,
}

impl Call {
    fn new(shared: &Arc<Shared>, items: Vec<Item>) -> Self {
        let jitter = Jitter::draw(&*shared.entropy);
        Self { shared: shared.clone(), items, jitter, answered: false }
    }

    async fn perform(mut self) {
        let renewals: Vec<_> = self.items.iter().map(|item| item.core.renewal()).collect();
        // Every item counts as failed at its own limit; the call itself may answer until the last of them.
        let Some(limit) = self.items.iter().map(|item| item.attempt.limit).max() else { return };
        let shared = self.shared.clone();
        let give_up = shared.clock.sleep_until(limit);
        let sent = shared.clock.now();
        let answer = tokio::select! {
            biased;
            answer = shared.store.renew(&renewals) => answer,
            () = give_up => Err(self.unknown("no answer in time")),
        };
        match answer {
            Ok(answers) if answers.len() == self.items.len() => self.apply(sent, &answers),
            Ok(_) => self.fail(&self.unknown("the answer does not fit the request")),
            Err(_) if broken(Break::UnknownIsYes) => {
                let yes = self.items.iter().map(|item| item.core.ttl().as_duration());
                let yes: Vec<_> = yes.map(|remaining| Renewed::Renewed { remaining }).collect();
                self.apply(sent, &yes);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn unknown(&self, why: &str) -> Error {
        Error::unknown(self.shared.store.capabilities().engine, why)
    }

    fn apply(&mut self, sent: Tick, answers: &[Renewed]) {
        self.answered = true;
        let mut lost = 0;
        for (item, answer) in self.items.iter().zip(answers) {
            match answer {
                Renewed::Renewed { remaining } => {
                    item.core.renewed(item.attempt.number, sent, *remaining, self.jitter);
                    if let Some(observer) = &self.shared.observer {
                        observer.renewed(&item.core.lease);
                    }
                }
                Renewed::Lost(end) => {
                    lost += 1;
                    item.core.lose(Lost::Ended(*end));
                }
            }
        }
        telemetry::renew_answered("renewed", answers.len() - lost);
        telemetry::renew_answered("lost", lost);
    }

    fn fail(&self, error: &Error) {
        telemetry::renew_failed(error, self.items.len());
        if let Some(observer) = &self.shared.observer {
            self.items.iter().for_each(|item| observer.failed(&item.core.lease, error));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            for item in &self.items {
                item.core.failed(item.attempt.number, self.jitter);
            }
        }
        self.shared.roll.reschedule(self.items.iter().map(|item| item.number), self.shared.clock.now());
    }
}
