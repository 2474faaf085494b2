//! Which of the operations after a first one have their place.

/// A row of marks. The first is never set: it stands for the first operation without a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Mask([u64; 8]);

impl Mask {
    /// How many there are.
    pub(super) const BITS: usize = 512;

    pub(super) fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// With one more set. If that fills the beginning, the row moves on to the next that is not set, and the number
    /// says by how many.
    pub(super) fn with(mut self, i: usize) -> (Self, usize) {
        self.0[i / 64] |= 1 << (i % 64);
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.0.get(full).map_or(0, |word| word.trailing_ones() as usize);
        let mut moved = Self::default();
        for (n, word) in moved.0.iter_mut().enumerate() {
            let at = |n: usize| self.0.get(n + full).copied().unwrap_or(0);
            *word = at(n) >> rest | at(n + 1).checked_shl(64 - rest as u32).unwrap_or(0);
        }
        (moved, full * 64 + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_on_when_its_beginning_is_full() {
        let mut mask = Mask::default();
        for i in (1..130).chain([131, 200, 511]) {
            let done;
            (mask, done) = mask.with(i);
            assert_eq!(done, 0);
        }
        assert_eq!(mask.count(), 132);
        let (moved, done) = mask.with(0);
        assert_eq!(done, 130);
        let set: Vec<usize> = (0..Mask::BITS).filter(|i| moved.has(*i)).collect();
        assert_eq!(set, [1, 70, 381]);
        let (moved, done) = moved.with(0);
        assert_eq!((done, moved.has(68), moved.count()), (2, true, 2));
    }
}
