//! Claims parked on a key, first in, first out.

use std::collections::VecDeque;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Claim, Digest, Grant, Holder, Refusal, Result, limits};

use crate::sync::oneshot;

/// The claims parked on one key.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiters: VecDeque<Waiter>,
}

/// One parked claim. Duplicates of a claim, recognized by their token, share its position.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) claim: Claim,
    pub(crate) senders: Vec<oneshot::Sender<Grant>>,
}

impl Waiter {
    /// Whether a caller still waits for the grant.
    fn alive(&self) -> bool {
        self.senders.iter().any(|sender| !sender.is_closed())
    }

    /// Whether this is the claim of a token. Every new claim searches the queue, so half of the digest is compared first, not
    /// in constant time: that reveals nothing of the token. A match is confirmed in constant time.
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
    pub(crate) fn park(&mut self, claim: Claim, sender: oneshot::Sender<Grant>) -> Result<()> {
        let digest = *claim.token.digest();
        if let Some(duplicate) = self.waiters.iter_mut().find(|w| w.is_of(&digest)) {
            duplicate.senders.push(sender);
            return Ok(());
        }
        if self.waiters.len() == limits::WAITERS {
            self.waiters.retain(Waiter::alive);
        }
        if self.waiters.len() == limits::WAITERS {
            return Err(Refusal::TooMany { what: "waiters on one key", limit: limits::WAITERS }.into());
        }
        self.waiters.push_back(Waiter { claim, senders: vec![sender] });
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

    /// The length of the longest texts of a waiter: its name and its metadata.
    pub(crate) fn longest_texts(&self) -> usize {
        let texts = |w: &Waiter| w.claim.holder.as_str().len() + w.claim.meta.as_str().len();
        self.waiters.iter().map(texts).max().unwrap_or(0)
    }

    /// The queue position of a token, from 1.
    pub(crate) fn position(&self, digest: &Digest) -> Option<u32> {
        self.waiters.iter().position(|w| w.is_of(digest)).map(|i| i as u32 + 1)
    }

    /// Removes a claim if no caller waits for it any more.
    pub(crate) fn remove_abandoned(&mut self, digest: &Digest) {
        self.waiters.retain_mut(|w| {
            w.senders.retain(|sender| !sender.is_closed());
            !w.is_of(digest) || !w.senders.is_empty()
        });
    }

    /// Removes a claim although callers wait for it: its token was released.
    pub(crate) fn remove(&mut self, digest: &Digest) {
        self.waiters.retain(|w| !w.is_of(digest));
    }
}
