//! Releases leases whose guards or futures were dropped.
//!
//! A drop cannot wait for a response, so it queues a release here, which carries the token alone. It is sent when no permit
//! of the lease is alive. Once the TTL has ended the release is no longer needed.

use std::sync::Arc;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Error, Key, Release, Released, Store, Tick, Token, Ttl};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::held_lease::HeldLease;
use crate::{limits, telemetry, terms};

/// A release that must be sent.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    /// The lease, if it may have permits, which end first.
    pub(crate) lease: Option<Arc<HeldLease>>,
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) ttl: Ttl,
    /// When the TTL has ended at the latest.
    pub(crate) expires_by: Tick,
}

/// Queues pending releases.
#[derive(Debug)]
pub(crate) struct Reaper {
    queue: mpsc::Sender<CountedRelease>,
    open: Arc<watch::Sender<usize>>,
}

/// A pending release that is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedRelease {
    release: PendingRelease,
    open: Arc<watch::Sender<usize>>,
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        self.open.send_modify(|open| *open -= 1);
    }
}

impl Reaper {
    pub(crate) fn new() -> (Self, mpsc::Receiver<CountedRelease>) {
        let (queue, releases) = mpsc::channel(limits::PENDING_RELEASES);
        (Self { queue, open: Arc::new(watch::Sender::new(0)) }, releases)
    }

    /// Queues a release without waiting. If the queue is full, the lease ends with its TTL.
    pub(crate) fn enqueue(&self, release: PendingRelease) {
        if broken(Break::NoReaper) {
            return;
        }
        self.open.send_modify(|open| *open += 1);
        let counted = CountedRelease { release, open: self.open.clone() };
        if let Err(refused) = self.queue.try_send(counted) {
            telemetry::reaped(&refused.into_inner().release.key, "dropped");
        }
    }

    pub(crate) async fn settled(&self) {
        // Cannot fail: self owns the sender.
        drop(self.open.subscribe().wait_for(|open| *open == 0).await);
    }
}

/// Sends releases until the keeper is gone and all were sent or have expired.
pub(crate) async fn run(
    mut releases: mpsc::Receiver<CountedRelease>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) {
    let (mut waiting, mut sending) = (JoinSet::new(), JoinSet::new());
    let mut open = true;
    while open || !waiting.is_empty() || !sending.is_empty() {
        let has_room = sending.len() < limits::CONCURRENT_RELEASES;
        let counted = tokio::select! {
            biased;
            Some(_) = sending.join_next(), if !sending.is_empty() => continue,
            Some(ended) = waiting.join_next(), if has_room && !waiting.is_empty() => ended.ok(),
            counted = releases.recv(), if open && has_room && waiting.len() < limits::PENDING_RELEASES => {
                open = counted.is_some();
                counted
            }
        };
        let Some(counted) = counted else { continue };
        match counted.release.lease.clone().filter(|lease| lease.has_permits()) {
            Some(lease) => drop(waiting.spawn(async move {
                lease.permits_ended().await;
                counted
            })),
            None => drop(sending.spawn(process(counted, store.clone(), clock.clone()))),
        }
    }
}

async fn process(counted: CountedRelease, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let label = send_release(&counted.release, &*store, &*clock).await;
    telemetry::reaped(&counted.release.key, label);
}

async fn send_release(pending: &PendingRelease, store: &dyn Store, clock: &dyn Clock) -> &'static str {
    for failures in 1.. {
        let now = clock.now();
        if now >= pending.expires_by {
            break;
        }
        let limit = pending.expires_by.min(now + pending.ttl.as_duration() / 3);
        let result = tokio::select! {
            biased;
            result = store.release(Release::new(pending.key.clone(), pending.token.clone())) => Some(result),
            () = clock.sleep_until(limit) => None,
        };
        match result {
            Some(Ok(Released::Released)) => return "released",
            Some(Ok(Released::NotHeld)) => return "not_held",
            Some(Err(Error::Invalid { .. } | Error::Refused(_))) => return "refused",
            Some(Err(Error::Unavailable { .. } | Error::Unknown { .. })) | None => {}
        }
        clock.sleep_until(clock.now() + terms::back_off(pending.ttl, failures)).await;
    }
    "expired"
}
