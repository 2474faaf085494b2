//! Work that runs under a lease.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::{Guard, GuardState, LeaseHandle, Lost};

/// How work under a lease outcome.
#[derive(Debug, PartialEq, Eq)]
pub enum RunOutcome<T> {
    /// It returned; the lease was released after it.
    Returned(T),
    /// It was interrupted, and dropped before another holder could own the key.
    Interrupted(Interruption),
}

/// Why work was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// The deadline came before a renewal was confirmed.
    Deadline,
    /// The lease was lost.
    Lost(Lost),
}

impl<T> RunOutcome<T> {
    /// The value that the work returned, if it did.
    pub fn returned(self) -> Option<T> {
        match self {
            Self::Returned(value) => Some(value),
            Self::Interrupted(_) => None,
        }
    }
}

impl Guard {
    /// Runs `work` under this lease. Interrupts (drops) it at the deadline unless a renewal moved it, and when the lease is
    /// lost; releases the lease only after the work has outcome.
    ///
    /// The work gets a [`LeaseHandle`] for permits, and for [`LeaseHandle::stopping`], which tells it to end in
    /// time.
    pub async fn run<T, F>(self, work: impl FnOnce(LeaseHandle) -> F) -> RunOutcome<T>
    where
        F: Future<Output = T>,
    {
        let outcome = self.supervise(work(self.share())).await;
        // The reaper retries if this fails.
        drop(self.release().await);
        outcome
    }

    async fn supervise<T>(&self, work: impl Future<Output = T>) -> RunOutcome<T> {
        let mut work = pin!(work);
        loop {
            let mut states = self.states();
            states.borrow_and_update();
            let mut alarm = pin!(async {
                tokio::select! {
                    biased;
                    _ = states.changed() => {}
                    () = self.keeper().clock().sleep_until(self.deadline().tick()) => {}
                }
            });
            // The clock is read before every poll of the work: after a suspend the work must not continue, even if no
            // timer has fired yet.
            let step = poll_fn(|cx| {
                if let Some(why) = interruption(self.state()) {
                    return Poll::Ready(Some(RunOutcome::Interrupted(why)));
                }
                if let Poll::Ready(value) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(RunOutcome::Returned(value)));
                }
                alarm.as_mut().poll(cx).map(|()| None)
            });
            if let Some(outcome) = step.await {
                return outcome;
            }
        }
    }
}

fn interruption(state: GuardState) -> Option<Interruption> {
    match state {
        GuardState::Held | GuardState::Jeopardy => None,
        GuardState::Suspended => Some(Interruption::Deadline),
        GuardState::Lost(lost) => Some(Interruption::Lost(lost)),
    }
}
