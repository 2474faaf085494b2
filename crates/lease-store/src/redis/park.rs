//! Claims that wait in the queue.

use std::sync::Arc;
use std::time::Duration;

use lease::{Acquired, Busy, Claim, Digest, Error, Grant, Key, Lease, Reason, Result, Tick, limits};

use super::bell::{Bell, Ring, Seat};
use super::combine::Desk;
use super::fault::ENGINE;
use super::job::{Claimed, Claiming, How, Park, Releasing};
use super::twins::{Leaving, Underway};
use super::wire::Wire;

/// How long a claim waits before it looks for itself, at most.
const LOOK: Duration = Duration::from_secs(5);
/// The same, when what is in the way tells nobody that it goes.
const LOOK_FOREIGN: Duration = Duration::from_secs(1);
/// How long a claim waits before it looks again after an error.
const LOOK_AFTER_ERROR: Duration = Duration::from_millis(250);
/// How much longer than its wait a claim may stand in the queue of a process that was stopped, in milliseconds.
const GRACE_MS: u64 = 2_000;

/// Gives back what a dropped claim may have got, and its place in the queue.
pub(super) struct Undo {
    desk: Desk,
    claim: Option<(Key, Digest, Underway)>,
    entry: Option<Arc<[u8]>>,
}

impl Undo {
    /// From before the claim is sent.
    pub(super) fn new(desk: &Desk, claim: &Claim) -> Result<Self> {
        let (key, digest) = (claim.key.clone(), *claim.token.digest());
        let underway = desk.twins.enter(&key, &digest)?;
        Ok(Self { desk: desk.clone(), claim: Some((key, digest, underway)), entry: None })
    }

    /// The claim was answered, with a grant or without: nothing to undo.
    pub(super) fn forget(mut self, granted: bool) {
        if let Some((_, _, underway)) = self.claim.take() {
            underway.answered(granted);
        }
    }

    /// The claim failed: its caller knows the token, the place in the queue must go.
    fn quit(mut self) {
        if let Some((key, digest, underway)) = self.claim.take() {
            underway.answered(false);
            self.undo(key, digest, How::Quit, None);
        }
    }

    fn undo(&mut self, key: Key, digest: Digest, how: How, leaving: Option<Leaving>) {
        let entry = self.entry.take();
        if how == How::Back || entry.is_some() {
            let (generation, to, until) = (None, None, None);
            self.desk.abandon(Releasing { key, digest, generation, to, how, entry, until, leaving });
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some((key, digest, underway)) = self.claim.take() {
            let leaving = underway.gone();
            let how = if leaving.is_some() { How::Back } else { How::Quit };
            self.undo(key, digest, how, leaving);
        }
    }
}

/// A claim that was granted.
pub(super) fn granted(claim: &Claim, claimed: Claimed, parked: bool) -> Acquired {
    let (generation, ttl, holder) = match claimed {
        Claimed::New(generation) => (generation, claim.ttl, claim.holder.clone()),
        Claimed::Kept(generation, ttl, holder) => (generation, ttl, holder),
        Claimed::Busy(busy) => return Acquired::Busy(busy),
    };
    let lease = Lease { key: claim.key.clone(), holder, generation, ttl };
    Acquired::Granted(Grant { lease, parked })
}

/// Claims a key and waits in its queue for up to `wait`.
pub(super) async fn park(
    wire: &Wire,
    desk: &Desk,
    bell: &Arc<Bell>,
    claim: &Claim,
    wait: Duration,
) -> Result<Acquired> {
    if wait > Duration::from_millis(limits::WAIT_MS) {
        return Err(Error::invalid("wait", format!("at most {} ms are allowed", limits::WAIT_MS)));
    }
    let give_up = wire.clock.now() + wait;
    let mut undo = Undo::new(desk, claim)?;
    bell.ready(wire, wire.budget()).await?;
    let link = wire.link().await?;
    let mut seat = bell.seat();
    let entry = entry(claim, &seat, bell, link.server_ms() + wait.as_millis() as u64 + GRACE_MS);
    undo.entry = Some(Arc::clone(&entry));
    let ask = |park| desk.claim(Claiming { park, entry: Some(Arc::clone(&entry)), ..Claiming::new(claim) });
    let mut busy = match ask(Park::Stay).await {
        Ok(Claimed::Busy(busy)) if busy.reason != Reason::NotThatGeneration => busy,
        Ok(answer) => {
            let answer = granted(claim, answer, false);
            undo.forget(matches!(answer, Acquired::Granted(_)));
            return Ok(answer);
        }
        Err(error) => {
            undo.quit();
            return Err(error);
        }
    };
    loop {
        let look = wire.clock.now() + nap(&busy, &seat);
        let ring = wire.before(look.min(give_up), seat.rings.recv()).await;
        if let Some(Some(Ring::Granted(generation))) = ring {
            undo.forget(true);
            return Ok(granted(claim, Claimed::New(generation), true));
        }
        let last = wire.clock.now() >= give_up;
        match ask(if last { Park::Leave } else { Park::Stay }).await {
            Ok(Claimed::Busy(now)) if !last => busy = now,
            Ok(answer) => {
                let answer = granted(claim, answer, true);
                undo.forget(matches!(answer, Acquired::Granted(_)));
                return Ok(answer);
            }
            Err(Error::Unavailable { .. } | Error::Unknown { .. }) if !last => {
                let again = wire.clock.now() + LOOK_AFTER_ERROR;
                wire.clock.sleep_until(again.min(give_up)).await;
            }
            Err(error) => {
                undo.quit();
                return Err(error);
            }
        }
    }
}

/// How long to wait for a message: until what is in the way should be gone, and a little longer for all but the
/// first, which takes the key without a crowd.
fn nap(busy: &Busy, seat: &Seat) -> Duration {
    let most = if busy.reason == Reason::Foreign { LOOK_FOREIGN } else { LOOK };
    let jitter = match busy.position {
        1 => 1,
        _ => u64::from(seat.id[15] ^ seat.id[14].rotate_left(3)) % 50 + 1,
    };
    busy.remaining.unwrap_or(most).min(most) + Duration::from_millis(jitter)
}

/// `id(16) digest(32) ttl(8) deadline(16) instance(16) length(3) holder meta`, as the scripts read it.
fn entry(claim: &Claim, seat: &Seat, bell: &Bell, deadline_ms: u64) -> Arc<[u8]> {
    let mut entry = Vec::with_capacity(96 + claim.holder.as_str().len() + claim.meta.as_str().len());
    entry.extend_from_slice(&seat.id);
    entry.extend_from_slice(claim.token.digest().as_bytes());
    entry.extend_from_slice(format!("{:08}{deadline_ms:016}", claim.ttl.as_millis()).as_bytes());
    entry.extend_from_slice(&bell.instance);
    entry.extend_from_slice(format!("{:03}", claim.holder.as_str().len()).as_bytes());
    entry.extend_from_slice(claim.holder.as_str().as_bytes());
    entry.extend_from_slice(claim.meta.as_str().as_bytes());
    entry.into()
}

/// Says once per quarantine, in words for whoever started a fresh Redis, why nothing is granted.
pub(super) struct Notice(parking_lot::Mutex<Tick>);

impl Notice {
    pub(super) fn new() -> Self {
        Self(parking_lot::Mutex::new(Tick::default()))
    }

    pub(super) fn look(&self, wire: &Wire, answer: &Acquired) {
        let Acquired::Busy(Busy { reason: Reason::Quarantine, remaining: Some(left), .. }) = answer else {
            return;
        };
        let now = wire.clock.now();
        let mut until = self.0.lock();
        if *until <= now {
            *until = now + *left;
            tracing::warn!(
                engine = ENGINE,
                wait_ms = left.as_millis() as u64,
                "redis was just started or replaced: someone it forgot may still hold a lease, so free keys are \
                 granted only after the longest ttl has passed; for a redis known to be new add ?quarantine_ms=0"
            );
        }
    }
}
