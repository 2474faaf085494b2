//! The owner of a lease in this process.

use std::fmt;
use std::ops::Deref;

use tenure_lease::{End, Holder, Lease, Outcome, Release, Released, Renewed, Token, Transfer, Transferred};

use crate::handle::LeaseHandle;
use crate::held_lease::HeldLease;
use crate::keeper::Keeper;
use crate::reaper::PendingRelease;
use crate::reign::ReignState;
use crate::schedule::EntryId;
use crate::{Lost, Result, limits, telemetry};

/// Owns a lease: the keeper renews it while the guard lives, and releases it when the guard is dropped.
///
/// Permits and states are on [`LeaseHandle`], to which a guard dereferences.
#[must_use = "a dropped guard releases its lease"]
pub struct Guard {
    handle: LeaseHandle,
    keeper: Keeper,
    id: EntryId,
    /// The store may consider the lease live.
    needs_release: bool,
    /// A transfer may still take effect: dropping the guard does not release the lease.
    in_doubt: bool,
}

/// The outcome of a transfer.
#[derive(Debug)]
pub enum TransferOutcome {
    /// The successor owns the key.
    Transferred(Lease),
    /// The successor does not wait for the key; the guard still holds it.
    NoSuccessor(Guard),
    /// The lease had already ended.
    NotHeld(Lost),
    /// The store did not answer in time: the transfer may have taken effect, or may do so later. The guard gives no more
    /// permits, and dropping it does not release the lease. [`Keeper::replace`] with its generation decides: it either
    /// gets the key back, or finds that the successor has it.
    InDoubt {
        /// The guard.
        guard: Guard,
        /// The last failure.
        error: tenure_lease::Error,
    },
}

impl Guard {
    pub(crate) fn new(keeper: &Keeper, lease: Lease, token: Token, reign: ReignState) -> Self {
        let state = keeper.state();
        let lease = HeldLease::new(lease, token, state.clock.clone(), reign);
        let id = state.schedule.insert(lease.clone(), state.clock.now());
        Self {
            handle: LeaseHandle::new(lease),
            keeper: keeper.clone(),
            id,
            needs_release: true,
            in_doubt: false,
        }
    }

    /// Releases the key to the next waiter. If this fails, the reaper retries.
    ///
    /// No new permit is given from now on. The release is sent when those of shared handles were dropped, or at their
    /// deadline.
    pub async fn release(self) -> Result<Released> {
        self.release_with(None).await
    }

    /// Releases the key for `successor`: granted at once if it waits, else reserved for two seconds. Waits for permits as
    /// [`Guard::release`] does.
    pub async fn release_to(self, successor: Holder) -> Result<Released> {
        self.release_with(Some(successor)).await
    }

    async fn release_with(mut self, to: Option<Holder>) -> Result<Released> {
        self.in_doubt = false;
        // Permits are refused before the store is called.
        if !self.withdraw() {
            self.needs_release = false;
            return Ok(Released::NotHeld);
        }
        self.held_lease().permits_ended().await;
        let release =
            Release { to, generation: None, key: self.key().clone(), token: self.held_lease().token.clone() };
        let result = self.bounded(self.keeper.store().release(release)).await;
        telemetry::release_finished(match &result {
            Ok(Released::Released) => "released",
            Ok(Released::NotHeld) => "not_held",
            Err(error) if error.outcome() == Outcome::Indeterminate => "unknown",
            Err(_) => "failed",
        });
        self.needs_release = result.is_err();
        Ok(result?)
    }

    /// Transfers the key to `to`, which must wait for it. Permits are refused meanwhile; those of shared handles end
    /// first, as in [`Guard::release`]. A failed call is retried for at most [`limits::TRANSFER`].
    pub async fn transfer(mut self, to: Holder) -> TransferOutcome {
        let drained = self.held_lease().draining();
        self.held_lease().drain(true);
        self.held_lease().permits_ended().await;
        let clock = self.keeper.clock().clone();
        let end = clock.now() + limits::TRANSFER.min(self.held_lease().ttl().as_duration() / 3);
        let mut failures = 0;
        loop {
            let request = Transfer {
                key: self.key().clone(),
                token: self.held_lease().token.clone(),
                generation: self.generation(),
                to: to.clone(),
            };
            let left = end.since(clock.now());
            match self.keeper.bounded(left, self.keeper.store().transfer(request)).await {
                Ok(Transferred::Transferred(lease)) => return self.transferred(lease),
                // A call without an answer may still arrive and find the successor: only one that was first counts.
                Ok(Transferred::NoSuccessor) if failures == 0 => {
                    self.held_lease().drain(drained);
                    return TransferOutcome::NoSuccessor(self);
                }
                Ok(Transferred::NotHeld) => return self.resolve_transfer(&to).await,
                Ok(Transferred::NoSuccessor) => {
                    let engine = self.keeper.store().capabilities().engine;
                    return self
                        .in_doubt(tenure_lease::Error::unknown(engine, "an earlier transfer may land"));
                }
                // Retrying is safe: after a successful transfer the store returns `NotHeld`.
                Err(error) => {
                    failures += 1;
                    let next = clock.now() + crate::terms::back_off(self.held_lease().ttl(), failures);
                    if next >= end {
                        return self.in_doubt(error);
                    }
                    clock.sleep_until(next).await;
                }
            }
        }
    }

    fn in_doubt(mut self, error: tenure_lease::Error) -> TransferOutcome {
        self.in_doubt = true;
        TransferOutcome::InDoubt { guard: self, error }
    }

    fn transferred(&mut self, lease: Lease) -> TransferOutcome {
        self.held_lease().lose(Lost::Ended(End::Transferred));
        self.keeper.state().schedule.remove(self.id);
        self.needs_release = false;
        TransferOutcome::Transferred(lease)
    }

    /// The store knows no such reign: perhaps because an earlier attempt succeeded without a response.
    async fn resolve_transfer(mut self, to: &Holder) -> TransferOutcome {
        let resolved = async {
            let renewal = [self.held_lease().renewal()];
            let renewed = async { self.keeper.store().renew(&renewal).await?.pop().transpose() };
            let end = match self.bounded(renewed).await? {
                Some(Renewed::Lost(end)) => end,
                _ => End::Gone,
            };
            let status = match end {
                End::Transferred => Some(self.bounded(self.keeper.store().inspect(self.key())).await?),
                _ => None,
            };
            Ok((end, status))
        };
        let (end, status) = match resolved.await {
            Ok(resolved) => resolved,
            Err(error) => return self.in_doubt(error),
        };
        if let Some(status) = status
            && let (Some(holder), Some(generation)) = (status.holder, status.generation)
            && holder == *to
            && generation > self.generation()
        {
            let ttl = self.held_lease().ttl();
            return self.transferred(Lease { key: status.key, holder, generation, ttl });
        }
        TransferOutcome::NotHeld(self.held_lease().lose(Lost::Ended(end)))
    }

    /// Leaves the release of a lease in doubt to the reaper.
    pub(crate) fn abandon(mut self) {
        self.in_doubt = false;
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Ends the lease in this process. Returns whether the store may still consider it live.
    fn withdraw(&self) -> bool {
        let lost = self.held_lease().lose(Lost::Ended(End::Released));
        self.keeper.state().schedule.remove(self.id);
        lost.needs_release() || lost == Lost::Ended(End::Released)
    }

    /// A store call that takes at most a third of the TTL.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = tenure_lease::Result<T>>,
    ) -> tenure_lease::Result<T> {
        self.keeper.bounded(self.held_lease().ttl().as_duration() / 3, call).await
    }
}

/// Stops renewing and leaves the release to the reaper, without waiting.
impl Drop for Guard {
    fn drop(&mut self) {
        if !self.needs_release || !self.withdraw() || self.in_doubt {
            return;
        }
        let lease = self.held_lease();
        let ttl = lease.ttl();
        // A renewal in flight may extend it by one TTL from now.
        let expires_by = lease.clock.now() + ttl.as_duration();
        let (key, token) = (lease.lease.key.clone(), lease.token.clone());
        let release = PendingRelease { lease: Some(lease.clone()), key, token, ttl, expires_by };
        self.keeper.state().reaper.enqueue(release);
    }
}

impl Deref for Guard {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.handle
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.handle).finish()
    }
}
