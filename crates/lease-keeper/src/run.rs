//! Work that lives and dies with its lease.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::{Guard, Held, Lost, State};

/// How work under a lease ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// It returned; the lease was given back after it.
    Returned(T),
    /// It was cut off, and dropped before anybody else could own the key.
    Cut(Cut),
}

/// Why work was cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The deadline came before a renewal was confirmed.
    Deadline,
    /// The lease was lost.
    Lost(Lost),
}

impl<T> Ended<T> {
    /// What the work returned, if it did.
    pub fn returned(self) -> Option<T> {
        match self {
            Self::Returned(value) => Some(value),
            Self::Cut(_) => None,
        }
    }
}

impl Guard {
    /// Runs `work` under this lease: cuts it off (drops it) at the deadline unless a renewal came, and when
    /// the lease is lost; gives the lease back only after the work is gone.
    ///
    /// The work gets a [`Held`] for permits, and for [`Held::stopping`], which tells it to end in time by
    /// itself.
    pub async fn run<T, F>(self, work: impl FnOnce(Held) -> F) -> Ended<T>
    where
        F: Future<Output = T>,
    {
        let ended = self.supervise(work(self.share())).await;
        // The reaper goes on where this fails, so there is nothing to tell the caller.
        drop(self.release().await);
        ended
    }

    async fn supervise<T>(&self, work: impl Future<Output = T>) -> Ended<T> {
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
            // The clock is read before every poll of the work: after a suspend no timer may have fired yet,
            // and still the work must not move.
            let step = poll_fn(|cx| {
                if let Some(cut) = cut(self.state()) {
                    return Poll::Ready(Some(Ended::Cut(cut)));
                }
                if let Poll::Ready(value) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(Ended::Returned(value)));
                }
                alarm.as_mut().poll(cx).map(|()| None)
            });
            if let Some(ended) = step.await {
                return ended;
            }
        }
    }
}

fn cut(state: State) -> Option<Cut> {
    match state {
        State::Held | State::Jeopardy => None,
        State::Suspended => Some(Cut::Deadline),
        State::Lost(lost) => Some(Cut::Lost(lost)),
    }
}
