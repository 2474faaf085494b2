//! Claims with the same token that are under way at once. A dropped one releases the token only if no other claim was
//! granted with it or still waits for it.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tenure_lease::{Digest, Key, Refusal, Result};

type TokenOfKey = (Key, [u8; 32]);

/// The tokens with claims under way, and those being released for dropped claims.
#[derive(Clone, Default)]
pub(super) struct InFlightClaims(Arc<Mutex<HashMap<TokenOfKey, TokenUse>>>);

#[derive(Default)]
struct TokenUse {
    claims: u32,
    /// Whether one of them was granted.
    granted: bool,
    /// Releases under way for dropped claims.
    releases: u32,
}

impl TokenUse {
    fn is_unused(&self) -> bool {
        self.claims == 0 && self.releases == 0
    }
}

/// A claim that is under way until this is dropped.
pub(super) struct InFlightClaim {
    claims: InFlightClaims,
    name: Option<TokenOfKey>,
}

/// A token that is being released until this is dropped.
pub(super) struct TokenRelease {
    claims: InFlightClaims,
    name: TokenOfKey,
}

impl InFlightClaims {
    /// Registers a claim. It is refused while its token is being released: whichever of the two the server gets first,
    /// the claim would not hold the key.
    pub(super) fn start(&self, key: &Key, digest: &Digest) -> Result<InFlightClaim> {
        let name = (key.clone(), *digest.as_bytes());
        let mut all = self.0.lock();
        let token_use = all.entry(name.clone()).or_default();
        if token_use.releases > 0 {
            return Err(Refusal::TokenSpent.into());
        }
        token_use.claims += 1;
        drop(all);
        Ok(InFlightClaim { claims: self.clone(), name: Some(name) })
    }
}

impl InFlightClaim {
    /// The claim was answered, with a grant or without.
    pub(super) fn finish(mut self, granted: bool) {
        if let Some(name) = self.name.take() {
            self.claims.end(&name, granted);
        }
    }

    /// The claim was dropped. Its token must be released if no other claim can hold the key with it.
    pub(super) fn abandon(mut self) -> Option<TokenRelease> {
        let name = self.name.take()?;
        let mut all = self.claims.0.lock();
        let token_use = all.get_mut(&name)?;
        token_use.claims -= 1;
        let last = token_use.claims == 0 && !token_use.granted;
        token_use.releases += u32::from(last);
        if token_use.is_unused() {
            all.remove(&name);
        }
        drop(all);
        last.then(|| TokenRelease { claims: self.claims.clone(), name })
    }
}

impl Drop for InFlightClaim {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.claims.end(&name, false);
        }
    }
}

impl Drop for TokenRelease {
    fn drop(&mut self) {
        let mut all = self.claims.0.lock();
        if let Some(token_use) = all.get_mut(&self.name) {
            token_use.releases -= 1;
            if token_use.is_unused() {
                all.remove(&self.name);
            }
        }
    }
}

impl InFlightClaims {
    fn end(&self, name: &TokenOfKey, granted: bool) {
        let mut all = self.0.lock();
        if let Some(token_use) = all.get_mut(name) {
            token_use.claims -= 1;
            token_use.granted |= granted;
            if token_use.is_unused() {
                all.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsEntropy;

    fn token() -> (Key, Digest) {
        (Key::new("k").unwrap(), *tenure_lease::Token::random(&OsEntropy).digest())
    }

    #[test]
    fn the_last_dropped_claim_of_a_token_without_a_grant_releases_it() {
        let (claims, (key, digest)) = (InFlightClaims::default(), token());
        let [first, second] = [(); 2].map(|()| claims.start(&key, &digest).unwrap());
        assert!(first.abandon().is_none());
        let release = second.abandon();
        assert!(release.is_some());
        assert!(claims.start(&key, &digest).is_err(), "it is being released");
        drop(release);
        assert!(claims.start(&key, &digest).is_ok());
    }

    #[test]
    fn a_dropped_claim_does_not_release_what_another_was_granted() {
        let (claims, (key, digest)) = (InFlightClaims::default(), token());
        let [first, second] = [(); 2].map(|()| claims.start(&key, &digest).unwrap());
        second.finish(true);
        assert!(first.abandon().is_none());
    }

    #[test]
    fn a_refused_claim_does_not_count_as_granted() {
        let (claims, (key, digest)) = (InFlightClaims::default(), token());
        let [first, second] = [(); 2].map(|()| claims.start(&key, &digest).unwrap());
        second.finish(false);
        assert!(first.abandon().is_some());
    }

    #[test]
    fn finished_claims_are_forgotten() {
        let (claims, (key, digest)) = (InFlightClaims::default(), token());
        claims.start(&key, &digest).unwrap().finish(true);
        drop(claims.start(&key, &digest).unwrap());
        drop(claims.start(&key, &digest).unwrap().abandon());
        assert!(claims.0.lock().is_empty());
    }
}
