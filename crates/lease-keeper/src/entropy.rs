//! Jitter and random numbers.

use std::time::Duration;

use tenure_lease::Entropy;

/// How much of a wait to cut off: 0 to 10 %. Jitter only ever shortens, so that it never costs a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter(u32);

impl Jitter {
    const PER_TENTH: u32 = 1_000;

    pub(crate) fn draw(entropy: &dyn Entropy) -> Self {
        Self(number(entropy) as u32 % (Self::PER_TENTH + 1))
    }

    pub(crate) fn shorten(self, wait: Duration) -> Duration {
        wait - wait / 10 * self.0 / Self::PER_TENTH
    }
}

/// A random number.
pub(crate) fn number(entropy: &dyn Entropy) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use tenure_host::OsEntropy;

    use super::*;

    #[test]
    fn jitter_shortens_by_at_most_a_tenth_and_never_lengthens() {
        let wait = Duration::from_secs(5);
        assert_eq!(Jitter(0).shorten(wait), wait);
        assert_eq!(Jitter(Jitter::PER_TENTH).shorten(wait), Duration::from_millis(4_500));
        for _ in 0..1_000 {
            let short = Jitter::draw(&OsEntropy).shorten(wait);
            assert!(short <= wait && short >= Duration::from_millis(4_500), "{short:?}");
        }
    }
}
