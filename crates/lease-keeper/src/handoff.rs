//! Planned transfers of ownership.

use std::future::{Future, Ready, ready};
use std::time::Duration;

use tenure_lease::{End, Generation, Holder, Lease, Released, Tick};

use crate::guard::TransferOutcome;
use crate::{Guard, Lost, Result, telemetry, terms};

/// A planned transfer: permits are refused from its start, the drain lets running work end, then the successor gets the
/// key in one step.
#[must_use = "a handoff does nothing until `within` is awaited"]
#[derive(Debug)]
pub struct Handoff<D = Ready<()>> {
    guard: Guard,
    successor: Holder,
    drain: D,
}

/// The outcome of a handoff.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandoffOutcome {
    /// The successor owns the key.
    Transferred {
        /// Its lease.
        lease: Lease,
        /// Whether the drain completed in time.
        drained: bool,
    },
    /// The successor did not wait for the key in time: the key is reserved for it for two seconds.
    Released {
        /// The released generation; the successor's will be greater.
        last: Generation,
        /// Whether the drain completed in time.
        drained: bool,
    },
    /// The lease ended meanwhile.
    Lost(Lost),
}

impl Handoff {
    /// Starts the handoff of `guard` to `successor`: permits are refused from now on.
    pub fn new(guard: Guard, successor: Holder) -> Self {
        guard.held_lease().drain(true);
        Self { guard, successor, drain: ready(()) }
    }
}

impl<D: Future> Handoff<D> {
    /// Waits for `drain` before the transfer. It is dropped when the time is up.
    pub fn drain<F: Future>(self, drain: F) -> Handoff<F> {
        Handoff { guard: self.guard, successor: self.successor, drain }
    }

    /// Hands over within `limit`: drains, transfers as soon as the successor waits for the key, and releases the key for
    /// the successor if it does not do so in time. Permits that were given before end first, at the latest at their
    /// deadline, also after `limit`.
    pub async fn within(self, limit: Duration) -> Result<HandoffOutcome> {
        let Self { mut guard, successor, drain } = self;
        let clock = guard.keeper().clock().clone();
        let start = clock.now();
        let end = start + limit;
        let drained = tokio::select! {
            biased;
            lost = guard.lost() => return Ok(HandoffOutcome::Lost(lost)),
            _ = drain => true,
            () = clock.sleep_until(end) => false,
        };
        let (last, held) = (guard.generation(), guard.share());
        for attempts in 1.. {
            guard = match guard.transfer(successor.clone()).await {
                TransferOutcome::Transferred(lease) => {
                    telemetry::handed_over(clock.now().since(start), "transferred");
                    return Ok(HandoffOutcome::Transferred { lease, drained });
                }
                TransferOutcome::NotHeld(lost) => return Ok(HandoffOutcome::Lost(lost)),
                TransferOutcome::NoSuccessor(guard) => guard,
                // The caller gives the key up in any case. A release of a lease that was transferred does nothing.
                TransferOutcome::InDoubt { guard, error } => {
                    guard.abandon();
                    return Err(error.into());
                }
            };
            if !wait_to_retry(&guard, attempts, end).await {
                break;
            }
        }
        match guard.release_to(successor).await? {
            Released::Released => {
                telemetry::handed_over(clock.now().since(start), "released");
                Ok(HandoffOutcome::Released { last, drained })
            }
            Released::NotHeld => {
                let lost = held.state().lost().filter(|lost| !lost.is_voluntary());
                Ok(HandoffOutcome::Lost(lost.unwrap_or(Lost::Ended(End::Gone))))
            }
        }
    }
}

/// Waits before the next attempt; returns false if there is no time for one.
async fn wait_to_retry(guard: &Guard, attempts: u32, end: Tick) -> bool {
    let clock = guard.keeper().clock();
    let next = clock.now() + terms::back_off(guard.lease().ttl, attempts);
    if next >= end {
        return false;
    }
    clock.sleep_until(next).await;
    true
}

impl HandoffOutcome {
    /// The successor's generation, if known.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Self::Transferred { lease, .. } => Some(lease.generation),
            Self::Released { .. } | Self::Lost(_) => None,
        }
    }
}
