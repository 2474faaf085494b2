//! The owner of a lease in this process.

use std::fmt;
use std::ops::Deref;

use lease::{End, Happened, Holder, Lease, Release, Released, Renewed, Token, Transfer, Transferred};

use crate::core::Core;
use crate::held::Held;
use crate::keeper::Keeper;
use crate::reaper::Debt;
use crate::reign::Reign;
use crate::roll::Number;
use crate::{Lost, Result, telemetry};

/// Owns a lease: while it lives the keeper renews, and when it is dropped the lease is given back.
///
/// Everything that a worker may ask is on [`Held`], to which a guard dereferences.
#[must_use = "a dropped guard gives its lease back"]
pub struct Guard {
    held: Held,
    keeper: Keeper,
    number: Number,
    /// The store may count the lease as live: somebody must give it back.
    owed: bool,
}

/// What became of a transfer.
#[derive(Debug)]
pub enum Moved {
    /// The successor owns the key.
    To(Lease),
    /// The successor is not parked on the key; the guard holds as before.
    NoSuccessor(Guard),
    /// The lease was over before.
    NotHeld(Lost),
}

impl Guard {
    pub(crate) fn new(keeper: &Keeper, lease: Lease, token: Token, reign: Reign) -> Self {
        let shared = keeper.shared();
        let core = Core::new(lease, token, shared.clock.clone(), reign);
        let number = shared.roll.enlist(core.clone(), shared.clock.now());
        Self { held: Held::new(core), keeper: keeper.clone(), number, owed: true }
    }

    /// Gives the key back; the next in line is woken. When this fails the reaper goes on trying.
    pub async fn release(self) -> Result<Released> {
        self.give_back(None).await
    }

    /// Gives the key back for `heir`: granted at once if it is parked, else reserved for two seconds.
    pub async fn release_to(self, heir: Holder) -> Result<Released> {
        self.give_back(Some(heir)).await
    }

    async fn give_back(mut self, to: Option<Holder>) -> Result<Released> {
        // First nobody in this process may act any more, then the store may know.
        if !self.withdraw() {
            self.owed = false;
            return Ok(Released::NotHeld);
        }
        let release =
            Release { to, generation: None, key: self.key().clone(), token: self.core().token.clone() };
        let answer = self.bounded(self.keeper.store().release(release)).await;
        telemetry::release_answered(match &answer {
            Ok(Released::Released) => "released",
            Ok(Released::NotHeld) => "not_held",
            Err(error) if error.happened() == Happened::Maybe => "unknown",
            Err(_) => "failed",
        });
        self.owed = answer.is_err();
        Ok(answer?)
    }

    /// Hands the key to `to`, which must be parked on it. Nobody gets a permit while this runs.
    pub async fn transfer(mut self, to: Holder) -> Result<Moved> {
        let drained = self.core().draining();
        self.core().drain(true);
        let end = self.keeper.clock().now() + self.core().ttl().as_duration() / 3;
        let mut failures = 0;
        loop {
            let request = Transfer {
                key: self.key().clone(),
                token: self.core().token.clone(),
                generation: self.generation(),
                to: to.clone(),
            };
            match self.bounded(self.keeper.store().transfer(request)).await {
                Ok(Transferred::Transferred(lease)) => return Ok(self.moved(lease)),
                Ok(Transferred::NoSuccessor) => {
                    self.core().drain(drained);
                    return Ok(Moved::NoSuccessor(self));
                }
                Ok(Transferred::NotHeld) => return self.find_out(&to).await,
                // The same question again is safe: a transfer that happened answers that nothing is held.
                Err(error) => {
                    failures += 1;
                    let next =
                        self.keeper.clock().now() + crate::terms::back_off(self.core().ttl(), failures);
                    if next >= end {
                        return Err(error.into());
                    }
                    self.keeper.clock().sleep_until(next).await;
                }
            }
        }
    }

    fn moved(&mut self, lease: Lease) -> Moved {
        self.core().lose(Lost::Ended(End::Transferred));
        self.keeper.shared().roll.strike(self.number);
        self.owed = false;
        Moved::To(lease)
    }

    /// A transfer met no reign: perhaps because an earlier try of it had succeeded unheard.
    async fn find_out(mut self, to: &Holder) -> Result<Moved> {
        let answers = self.bounded(self.keeper.store().renew(&[self.core().renewal()])).await?;
        let end = match answers.first() {
            Some(Renewed::Lost(end)) => *end,
            _ => End::Gone,
        };
        if end == End::Transferred {
            let status = self.bounded(self.keeper.store().inspect(self.key())).await?;
            if let (Some(holder), Some(generation)) = (status.holder, status.generation)
                && holder == *to
                && generation > self.generation()
            {
                let ttl = self.core().ttl();
                return Ok(self.moved(Lease { key: status.key, holder, generation, ttl }));
            }
        }
        Ok(Moved::NotHeld(self.core().lose(Lost::Ended(end))))
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Ends the lease in this process. Answers whether the store may still have it.
    fn withdraw(&self) -> bool {
        let lost = self.core().lose(Lost::Ended(End::Released));
        self.keeper.shared().roll.strike(self.number);
        lost.is_owed() || lost == Lost::Ended(End::Released)
    }

    /// A store call that takes at most a third of the TTL.
    async fn bounded<T>(&self, call: impl Future<Output = lease::Result<T>>) -> lease::Result<T> {
        self.keeper.bounded(self.core().ttl().as_duration() / 3, call).await
    }
}

/// Stops renewing and leaves the release to the reaper; never waits.
impl Drop for Guard {
    fn drop(&mut self) {
        if !self.owed || !self.withdraw() {
            return;
        }
        let core = self.core();
        let ttl = core.ttl();
        // A renewal on its way may give the store one more TTL from now.
        let until = core.clock.now() + ttl.as_duration();
        let debt = Debt { key: core.lease.key.clone(), token: core.token.clone(), ttl, until };
        self.keeper.shared().reaper.owe(debt);
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.held).finish()
    }
}
