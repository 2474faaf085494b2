//! Claims with one token that are under way at once: one that goes away gives back only what no other was told of,
//! or still waits for.

use std::sync::Arc;

use hashbrown::HashMap;
use lease::{Digest, Key, Refusal, Result};
use parking_lot::Mutex;

type Name = (Key, [u8; 32]);

/// The tokens with claims under way, and those being given up.
#[derive(Clone, Default)]
pub(super) struct Twins(Arc<Mutex<HashMap<Name, Twin>>>);

#[derive(Default)]
struct Twin {
    claims: u32,
    told: bool,
    /// Releases on their way for a claim that went away.
    leaving: u32,
}

impl Twin {
    fn is_over(&self) -> bool {
        self.claims == 0 && self.leaving == 0
    }
}

/// A claim that is under way until this is dropped.
pub(super) struct Underway {
    twins: Twins,
    name: Option<Name>,
}

/// A token that is being given up until this is dropped.
pub(super) struct Leaving {
    twins: Twins,
    name: Name,
}

impl Twins {
    /// A claim comes in. Its token is spent if it is just being given up: whichever of the two the server met
    /// first, it would not hold.
    pub(super) fn enter(&self, key: &Key, digest: &Digest) -> Result<Underway> {
        let name = (key.clone(), *digest.as_bytes());
        let mut all = self.0.lock();
        let twin = all.entry(name.clone()).or_default();
        if twin.leaving > 0 {
            return Err(Refusal::TokenSpent.into());
        }
        twin.claims += 1;
        drop(all);
        Ok(Underway { twins: self.clone(), name: Some(name) })
    }
}

impl Underway {
    /// The claim was answered; whether with a grant.
    pub(super) fn answered(mut self, granted: bool) {
        if let Some(name) = self.name.take() {
            self.twins.part(&name, granted);
        }
    }

    /// The claim went away. Its token is to be given up if this was the last that could hold it.
    pub(super) fn gone(mut self) -> Option<Leaving> {
        let name = self.name.take()?;
        let mut all = self.twins.0.lock();
        let twin = all.get_mut(&name)?;
        twin.claims -= 1;
        let last = twin.claims == 0 && !twin.told;
        twin.leaving += u32::from(last);
        if twin.is_over() {
            all.remove(&name);
        }
        drop(all);
        last.then(|| Leaving { twins: self.twins.clone(), name })
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.twins.part(&name, false);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut all = self.twins.0.lock();
        if let Some(twin) = all.get_mut(&self.name) {
            twin.leaving -= 1;
            if twin.is_over() {
                all.remove(&self.name);
            }
        }
    }
}

impl Twins {
    fn part(&self, name: &Name, granted: bool) {
        let mut all = self.0.lock();
        if let Some(twin) = all.get_mut(name) {
            twin.claims -= 1;
            twin.told |= granted;
            if twin.is_over() {
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
        (Key::new("k").unwrap(), *lease::Token::random(&OsEntropy).digest())
    }

    #[test]
    fn the_last_claim_of_a_token_that_nobody_was_told_of_gives_it_up() {
        let (twins, (key, digest)) = (Twins::default(), token());
        let [first, second] = [(); 2].map(|()| twins.enter(&key, &digest).unwrap());
        assert!(first.gone().is_none());
        let leaving = second.gone();
        assert!(leaving.is_some());
        assert!(twins.enter(&key, &digest).is_err(), "it is being given up");
        drop(leaving);
        assert!(twins.enter(&key, &digest).is_ok());
    }

    #[test]
    fn a_claim_that_goes_leaves_what_another_was_told() {
        let (twins, (key, digest)) = (Twins::default(), token());
        let [first, second] = [(); 2].map(|()| twins.enter(&key, &digest).unwrap());
        second.answered(true);
        assert!(first.gone().is_none());
    }

    #[test]
    fn one_that_was_refused_does_not_count_as_told() {
        let (twins, (key, digest)) = (Twins::default(), token());
        let [first, second] = [(); 2].map(|()| twins.enter(&key, &digest).unwrap());
        second.answered(false);
        assert!(first.gone().is_some());
    }

    #[test]
    fn nothing_is_remembered_of_what_is_over() {
        let (twins, (key, digest)) = (Twins::default(), token());
        twins.enter(&key, &digest).unwrap().answered(true);
        drop(twins.enter(&key, &digest).unwrap());
        drop(twins.enter(&key, &digest).unwrap().gone());
        assert!(twins.0.lock().is_empty());
    }
}
