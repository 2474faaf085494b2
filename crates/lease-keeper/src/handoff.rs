//! Moving ownership on purpose.

use std::future::{Future, Ready, ready};
use std::time::Duration;

use lease::{End, Generation, Holder, Lease, Released, Tick};

use crate::guard::Moved;
use crate::{Guard, Lost, Result, telemetry, terms};

/// A planned move: from its start nobody gets a permit, the drain lets running work end, then the heir gets
/// the key in one step.
#[must_use = "a handoff does nothing until `within` is awaited"]
#[derive(Debug)]
pub struct Handoff<D = Ready<()>> {
    guard: Guard,
    heir: Holder,
    drain: D,
}

/// What became of a handoff.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Handed {
    /// The heir owns the key.
    Transferred {
        /// Its lease.
        lease: Lease,
        /// Whether the drain had ended by itself.
        drained: bool,
    },
    /// The heir was not there in time: the key is free, and reserved for it for two seconds.
    Released {
        /// The generation given up; the heir's will be greater.
        last: Generation,
        /// Whether the drain had ended by itself.
        drained: bool,
    },
    /// The lease ended on the way.
    Lost(Lost),
}

impl Handoff {
    /// Begins to hand `guard` to `heir`: from now on every permit is refused.
    pub fn new(guard: Guard, heir: Holder) -> Self {
        guard.core().drain(true);
        Self { guard, heir, drain: ready(()) }
    }
}

impl<D: Future> Handoff<D> {
    /// Waits for `drain` before the key moves. It is dropped when the time is up.
    pub fn drain<F: Future>(self, drain: F) -> Handoff<F> {
        Handoff { guard: self.guard, heir: self.heir, drain }
    }

    /// Hands over within `bound`: drains, transfers as soon as the heir is parked on the key, and gives the
    /// key back for the heir when it is not there in time.
    pub async fn within(self, bound: Duration) -> Result<Handed> {
        let Self { mut guard, heir, drain } = self;
        let clock = guard.keeper().clock().clone();
        let start = clock.now();
        let end = start + bound;
        let drained = tokio::select! {
            biased;
            lost = guard.lost() => return Ok(Handed::Lost(lost)),
            _ = drain => true,
            () = clock.sleep_until(end) => false,
        };
        let (last, held) = (guard.generation(), guard.share());
        for tries in 1.. {
            guard = match guard.transfer(heir.clone()).await? {
                Moved::To(lease) => {
                    telemetry::handed_over(clock.now().since(start), "transferred");
                    return Ok(Handed::Transferred { lease, drained });
                }
                Moved::NotHeld(lost) => return Ok(Handed::Lost(lost)),
                Moved::NoSuccessor(guard) => guard,
            };
            if !again(&guard, tries, end).await {
                break;
            }
        }
        match guard.release_to(heir).await? {
            Released::Released => {
                telemetry::handed_over(clock.now().since(start), "released");
                Ok(Handed::Released { last, drained })
            }
            Released::NotHeld => {
                let lost = held.state().lost().filter(|lost| !lost.is_voluntary());
                Ok(Handed::Lost(lost.unwrap_or(Lost::Ended(End::Gone))))
            }
        }
    }
}

/// Waits before the next try; false when there is no time for one.
async fn again(guard: &Guard, tries: u32, end: Tick) -> bool {
    let clock = guard.keeper().clock();
    let next = clock.now() + terms::back_off(guard.lease().ttl, tries);
    if next >= end {
        return false;
    }
    clock.sleep_until(next).await;
    true
}

impl Handed {
    /// The heir's generation, when it is known.
    pub fn generation(&self) -> Option<Generation> {
        match self {
            Self::Transferred { lease, .. } => Some(lease.generation),
            Self::Released { .. } | Self::Lost(_) => None,
        }
    }
}
