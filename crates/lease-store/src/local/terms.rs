//! The terms of every running reign: all that a renewal reads and writes, in one cache line each.

use lease::{Digest, Generation, Renewal, Tick, Ttl};

/// The terms of one reign, and the hash of its key.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Terms {
    /// The hash of the key, under this table's own secret.
    pub(crate) hash: u64,
    /// None while nobody reigns.
    pub(crate) generation: Option<Generation>,
    pub(crate) digest: Digest,
    pub(crate) expires: Tick,
    /// The TTL that a renewal restores.
    pub(crate) ttl: Ttl,
    /// The longest TTL that is on disk for this reign, in milliseconds; none is zero.
    durable: u32,
}

const _: () = assert!(size_of::<Terms>() == 64, "a renewal touches one cache line");

impl Terms {
    /// Nobody reigns.
    pub(crate) fn free(hash: u64) -> Self {
        let digest = Digest::from_bytes([0; 32]);
        Self { hash, generation: None, digest, expires: Tick::default(), ttl: Ttl::MAX, durable: 0 }
    }

    /// Whether this TTL is longer than what is on disk.
    pub(crate) fn outlasts_disk(&self, ttl: Ttl) -> bool {
        ttl.as_millis() > u64::from(self.durable)
    }

    /// Notes that the TTL goes to disk.
    pub(crate) fn set_durable(&mut self) {
        self.durable = self.ttl.as_millis() as u32;
    }

    /// Prolongs the reign if [`lease::rules::renew`] says so and nothing else is to be done: no longer TTL to
    /// be written, no earlier end to be watched. Gives the TTL; none says to look more closely.
    ///
    /// The key is known by its hash alone. What is renewed is the reign that the token proves, and of which
    /// the generation was named as well; a caller that names another key with it would have to hit 64 bits
    /// that it cannot know, and could then renew what it may renew anyway.
    #[inline]
    pub(crate) fn prolong(&mut self, hash: u64, item: &Renewal, now: Tick) -> Option<Ttl> {
        let ttl = item.ttl.unwrap_or(self.ttl);
        let same = self.hash == hash
            && self.generation == Some(item.generation)
            && self.digest == *item.token.digest();
        if !same || now >= self.expires || ttl < self.ttl || self.outlasts_disk(ttl) {
            return None;
        }
        self.ttl = ttl;
        self.expires = now + ttl.as_duration();
        Some(ttl)
    }
}

/// The terms at each place. Each part is as large as all before it, so that growing never copies; the larger
/// ones lie on huge pages.
#[derive(Debug, Default)]
pub(crate) struct AllTerms {
    parts: Vec<Vec<Terms>>,
}

/// The size of the first part is two to this.
const FIRST: u32 = 10;

/// The part of a place, and where in it.
fn locate(at: u32) -> (usize, usize) {
    let shifted = u64::from(at) + (1 << FIRST);
    let top = shifted.ilog2();
    ((top - FIRST) as usize, (shifted - (1 << top)) as usize)
}

impl AllTerms {
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &Terms {
        let (part, place) = locate(at);
        &self.parts[part][place]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Terms {
        let (part, place) = locate(at);
        &mut self.parts[part][place]
    }

    /// Sets the terms at a place that was used before, or at the first that was not.
    pub(crate) fn set(&mut self, at: u32, terms: Terms) {
        let (part, place) = locate(at);
        if self.parts.len() == part {
            let mut memory = Vec::with_capacity(1 << (FIRST as usize + part));
            hints::huge(&mut memory);
            self.parts.push(memory);
        }
        match self.parts[part].get_mut(place) {
            Some(old) => *old = terms,
            None => self.parts[part].push(terms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_its_own_terms() {
        let mut all = AllTerms::default();
        (0..10_000).for_each(|at| all.set(at, Terms::free(u64::from(at))));
        (0..10_000).step_by(3).for_each(|at| all.set(at, Terms::free(0)));
        for at in 0..10_000 {
            assert_eq!(all.get(at).hash, if at % 3 == 0 { 0 } else { u64::from(at) }, "{at}");
        }
        assert!(all.parts.iter().all(|part| part.len() <= part.capacity()));
        assert_eq!(locate(u32::MAX), (22, 1_023));
    }
}
