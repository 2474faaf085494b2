//! Claims that wait for their key.

use std::time::Duration;

use tenure_lease::{
    Acquired, Busy, BusyReason, Claim, Digest, Error, Grant, Key, Lease, Result, Tick, limits,
};

use super::batcher::RequestBatcher;
use super::client::Client;
use super::fault::ENGINE;
use super::in_flight::{InFlightClaim, TokenRelease};
use super::protocol::WaiterId;
use super::protocol::acquire::{ClaimReply, ClaimRequest, Queue};
use super::protocol::release::{ReleaseRequest, ReleaseScope};
use super::wake_ups::{Waiter, WakeUp, WakeUps};

/// How long a claim waits for a message, at most, before it checks by itself.
const RECHECK: Duration = Duration::from_secs(5);
/// The same for a key that another program has set: no message comes when it is deleted.
const RECHECK_FOREIGN: Duration = Duration::from_secs(1);
/// How long a claim waits after an error before it checks again.
const RECHECK_AFTER_ERROR: Duration = Duration::from_millis(250);
/// How much longer than its wait a claim of a stopped process may stay queued, in milliseconds.
const GRACE_MS: u64 = 2_000;

/// Releases what a dropped claim may have been granted, and its place in the queue.
pub(super) struct ReleaseOnDrop {
    batcher: RequestBatcher,
    claim: Option<(Key, Digest, InFlightClaim)>,
    waiter: Option<WaiterId>,
}

impl ReleaseOnDrop {
    /// Created before the claim is sent.
    pub(super) fn new(batcher: &RequestBatcher, claim: &Claim) -> Result<Self> {
        let (key, digest) = (claim.key.clone(), *claim.token.digest());
        let in_flight = batcher.in_flight.start(&key, &digest)?;
        Ok(Self { batcher: batcher.clone(), claim: Some((key, digest, in_flight)), waiter: None })
    }

    /// The claim was answered: there is nothing to release.
    pub(super) fn disarm(mut self, granted: bool) {
        if let Some((_, _, in_flight)) = self.claim.take() {
            in_flight.finish(granted);
        }
    }

    /// The claim failed: its caller knows the token, so only the place in the queue is released.
    fn leave_queue(mut self) {
        if let Some((key, digest, in_flight)) = self.claim.take() {
            in_flight.finish(false);
            self.release(key, digest, None);
        }
    }

    fn release(&mut self, key: Key, token: Digest, guard: Option<TokenRelease>) {
        let scope = if guard.is_some() { ReleaseScope::Lease } else { ReleaseScope::QueueOnly };
        let waiter = self.waiter.take();
        if scope == ReleaseScope::Lease || waiter.is_some() {
            let (generation, successor) = (None, None);
            let request = ReleaseRequest { key, token, generation, successor, scope, waiter };
            self.batcher.abandon(request, guard);
        }
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        if let Some((key, digest, in_flight)) = self.claim.take() {
            let guard = in_flight.abandon();
            self.release(key, digest, guard);
        }
    }
}

/// The result of a claim.
pub(super) fn acquired(claim: &Claim, reply: ClaimReply, parked: bool) -> Acquired {
    let (generation, ttl, holder) = match reply {
        ClaimReply::Granted(generation) => (generation, claim.ttl, claim.holder.clone()),
        ClaimReply::Kept(generation, ttl, holder) => (generation, ttl, holder),
        ClaimReply::Busy(busy) => return Acquired::Busy(busy),
    };
    let lease = Lease { key: claim.key.clone(), holder, generation, ttl };
    Acquired::Granted(Grant { lease, parked })
}

/// Claims a key and waits for it for up to `wait`.
pub(super) async fn acquire_or_wait(
    client: &Client,
    batcher: &RequestBatcher,
    wake_ups: &std::sync::Arc<WakeUps>,
    claim: &Claim,
    wait: Duration,
) -> Result<Acquired> {
    if wait > Duration::from_millis(limits::WAIT_MS) {
        return Err(Error::invalid("wait", format!("at most {} ms are allowed", limits::WAIT_MS)));
    }
    let give_up = client.clock.now() + wait;
    let mut guard = ReleaseOnDrop::new(batcher, claim)?;
    wake_ups.wait_until_listening(client, client.deadline()).await?;
    let mut waiter = wake_ups.register();
    guard.waiter = Some(waiter.id);
    let (id, instance) = (waiter.id, wake_ups.instance);
    let join = || {
        let left = give_up.since(client.clock.now()).as_millis() as u64;
        Queue::Join { waiter: id, instance, wait_ms: left + GRACE_MS }
    };
    let send = |queue| batcher.claim(ClaimRequest { queue, ..ClaimRequest::new(claim) });
    let mut busy = match send(join()).await {
        Ok(ClaimReply::Busy(busy)) if busy.reason != BusyReason::NotThatGeneration => busy,
        Ok(reply) => return Ok(finish(guard, claim, reply, false)),
        Err(error) => {
            guard.leave_queue();
            return Err(error);
        }
    };
    loop {
        let recheck = client.clock.now() + time_to_recheck(&busy, &waiter);
        let message = client.before(recheck.min(give_up), waiter.messages.recv()).await;
        if let Some(Some(WakeUp::Granted(generation))) = message {
            return Ok(finish(guard, claim, ClaimReply::Granted(generation), true));
        }
        let last = client.clock.now() >= give_up;
        match send(if last { Queue::Leave { waiter: id } } else { join() }).await {
            Ok(ClaimReply::Busy(now)) if !last => busy = now,
            Ok(reply) => return Ok(finish(guard, claim, reply, true)),
            Err(Error::Unavailable { .. } | Error::Unknown { .. }) if !last => {
                let again = client.clock.now() + RECHECK_AFTER_ERROR;
                client.clock.sleep_until(again.min(give_up)).await;
            }
            Err(error) => {
                guard.leave_queue();
                return Err(error);
            }
        }
    }
}

fn finish(guard: ReleaseOnDrop, claim: &Claim, reply: ClaimReply, parked: bool) -> Acquired {
    let acquired = acquired(claim, reply, parked);
    guard.disarm(matches!(acquired, Acquired::Granted(_)));
    acquired
}

/// How long to wait for a message: until the key should be free. All claims but the first wait a little longer, so
/// that they do not check at the same time.
fn time_to_recheck(busy: &Busy, waiter: &Waiter) -> Duration {
    let most = if busy.reason == BusyReason::Foreign { RECHECK_FOREIGN } else { RECHECK };
    let jitter = match busy.position {
        1 => 1,
        _ => u64::from(waiter.id[15] ^ waiter.id[14].rotate_left(3)) % 50 + 1,
    };
    busy.remaining.unwrap_or(most).min(most) + Duration::from_millis(jitter)
}

/// Warns once per quarantine, for an operator with a fresh Redis, that nothing is granted yet.
pub(super) struct QuarantineWarning(parking_lot::Mutex<Tick>);

impl QuarantineWarning {
    pub(super) fn new() -> Self {
        Self(parking_lot::Mutex::new(Tick::default()))
    }

    /// Warns if the claim met a quarantine that was not warned of yet.
    pub(super) fn check(&self, client: &Client, acquired: &Acquired) {
        let Acquired::Busy(Busy { reason: BusyReason::Quarantine, remaining: Some(left), .. }) = acquired
        else {
            return;
        };
        let now = client.clock.now();
        let mut until = self.0.lock();
        if *until <= now {
            *until = now + *left;
            tracing::warn!(
                engine = ENGINE,
                wait_ms = left.as_millis() as u64,
                "redis was just started or replaced, and a holder that it forgot may still be active: free keys are \
                 granted only after the longest ttl has passed; for a redis known to be new add ?quarantine_ms=0"
            );
        }
    }
}
