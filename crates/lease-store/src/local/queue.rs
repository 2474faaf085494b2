//! Claims parked on a key, first come first served.

use std::collections::VecDeque;

use lease::breaks::{Break, broken};
use lease::{Claim, Digest, Grant, Holder, Refusal, Result, limits};

use crate::sync::oneshot;

/// The claims parked on one key.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiters: VecDeque<Waiter>,
}

/// One parked claim. Duplicates of a claim, known by their token, share its place.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) claim: Claim,
    pub(crate) told: Vec<oneshot::Sender<Grant>>,
}

impl Waiter {
    /// Whether anybody still waits for the answer.
    fn alive(&self) -> bool {
        self.told.iter().any(|told| !told.is_closed())
    }

    /// Whether this is the claim of a token. A line is searched for whoever joins it, so half of the digest is looked at
    /// first, in the time it takes: what that tells of a digest tells nothing of the token. Constant time is for a match.
    fn is_of(&self, digest: &Digest) -> bool {
        let own = self.claim.token.digest();
        own.short() == digest.short() && own == digest
    }
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Parks a claim at the end, or beside its duplicate.
    pub(crate) fn park(&mut self, claim: Claim, told: oneshot::Sender<Grant>) -> Result<()> {
        let digest = *claim.token.digest();
        if let Some(twin) = self.waiters.iter_mut().find(|w| w.is_of(&digest)) {
            twin.told.push(told);
            return Ok(());
        }
        if self.waiters.len() == limits::WAITERS {
            self.waiters.retain(Waiter::alive);
        }
        if self.waiters.len() == limits::WAITERS {
            return Err(Refusal::TooMany { what: "waiters on one key", limit: limits::WAITERS }.into());
        }
        self.waiters.push_back(Waiter { claim, told: vec![told] });
        Ok(())
    }

    /// The first waiter that still waits.
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        let mut next = || match broken(Break::LastInFirstOut) {
            true => self.waiters.pop_back(),
            false => self.waiters.pop_front(),
        };
        std::iter::from_fn(&mut next).find(Waiter::alive)
    }

    /// The first waiter of this name that still waits.
    pub(crate) fn pop_holder(&mut self, holder: &Holder) -> Option<Waiter> {
        let at = self.waiters.iter().position(|w| w.claim.holder == *holder && w.alive())?;
        self.waiters.remove(at)
    }

    /// The place of a token in the queue; the first is 1.
    pub(crate) fn position(&self, digest: &Digest) -> Option<u32> {
        self.waiters.iter().position(|w| w.is_of(digest)).map(|i| i as u32 + 1)
    }

    /// Takes a claim out of the queue once nobody waits for it any more.
    pub(crate) fn cancel(&mut self, digest: &Digest) {
        self.waiters.retain_mut(|w| {
            w.told.retain(|told| !told.is_closed());
            !w.is_of(digest) || !w.told.is_empty()
        });
    }

    /// Takes a claim out of the queue whoever waits for it: its token was given up.
    pub(crate) fn expel(&mut self, digest: &Digest) {
        self.waiters.retain(|w| !w.is_of(digest));
    }
}
