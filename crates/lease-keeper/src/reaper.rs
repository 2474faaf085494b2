//! Gives back what nobody holds any more.
//!
//! A dropped future or guard cannot wait for an answer, so it leaves a debt here. The debt is paid by a
//! release that carries the token alone; once its bound has passed, the store's own TTL has paid it.

use std::sync::Arc;

use lease::breaks::{Break, broken};
use lease::{Clock, Error, Key, Release, Released, Store, Tick, Token, Ttl};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::{limits, telemetry, terms};

/// A release that is owed to the store.
#[derive(Debug)]
pub(crate) struct Debt {
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) ttl: Ttl,
    /// When the TTL has run out at the latest.
    pub(crate) until: Tick,
}

/// Where debts are left.
#[derive(Debug)]
pub(crate) struct Reaper {
    queue: mpsc::Sender<Counted>,
    open: Arc<watch::Sender<usize>>,
}

/// A debt that counts as open until it is dropped, paid or not.
#[derive(Debug)]
pub(crate) struct Counted {
    debt: Debt,
    open: Arc<watch::Sender<usize>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.send_modify(|open| *open -= 1);
    }
}

impl Reaper {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Counted>) {
        let (queue, debts) = mpsc::channel(limits::OWED);
        (Self { queue, open: Arc::new(watch::Sender::new(0)) }, debts)
    }

    /// Leaves a debt without waiting. A full queue leaves the lease to its TTL, which is the bound anyway.
    pub(crate) fn owe(&self, debt: Debt) {
        if broken(Break::NoReaper) {
            return;
        }
        self.open.send_modify(|open| *open += 1);
        let counted = Counted { debt, open: self.open.clone() };
        if let Err(refused) = self.queue.try_send(counted) {
            telemetry::reaped(&refused.into_inner().debt.key, "dropped");
        }
    }

    pub(crate) async fn settled(&self) {
        // The sender lives in self, so the wait cannot fail.
        drop(self.open.subscribe().wait_for(|open| *open == 0).await);
    }
}

/// Pays debts until the keeper is gone and all are paid or past their bound.
pub(crate) async fn run(mut debts: mpsc::Receiver<Counted>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let mut paying = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = paying.join_next(), if !paying.is_empty() => {}
            owed = debts.recv(), if paying.len() < limits::REAPING => match owed {
                Some(owed) => drop(paying.spawn(settle(owed, store.clone(), clock.clone()))),
                None => break,
            },
        }
    }
    while paying.join_next().await.is_some() {}
}

async fn settle(owed: Counted, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let result = pay(&owed.debt, &*store, &*clock).await;
    telemetry::reaped(&owed.debt.key, result);
}

async fn pay(debt: &Debt, store: &dyn Store, clock: &dyn Clock) -> &'static str {
    for failures in 1.. {
        let now = clock.now();
        if now >= debt.until {
            break;
        }
        let limit = debt.until.min(now + debt.ttl.as_duration() / 3);
        let answer = tokio::select! {
            biased;
            answer = store.release(Release::new(debt.key.clone(), debt.token.clone())) => Some(answer),
            () = clock.sleep_until(limit) => None,
        };
        match answer {
            Some(Ok(Released::Released)) => return "released",
            Some(Ok(Released::NotHeld)) => return "not_held",
            Some(Err(Error::Invalid { .. } | Error::Refused(_))) => return "refused",
            Some(Err(Error::Unavailable { .. } | Error::Unknown { .. })) | None => {}
        }
        clock.sleep_until(clock.now() + terms::back_off(debt.ttl, failures)).await;
    }
    "expired"
}
