//! Backoff between connection attempts.

use std::time::Duration;

use tenure_lease::Entropy;

use crate::limits;

/// The wait before attempt `number`, counted from 0: doubling, bounded, with jitter between half of it and all of it, so that clients that
/// lost the same controller do not reconnect at once.
pub(crate) fn wait(number: u32, entropy: &dyn Entropy) -> Duration {
    let full = limits::BACKOFF_FIRST.saturating_mul(1 << number.min(16)).min(limits::BACKOFF);
    // The first attempt may be immediate.
    let least = if number == 0 { Duration::ZERO } else { full / 2 };
    least + share(full - least, entropy)
}

/// A random fraction of a duration.
fn share(of: Duration, entropy: &dyn Entropy) -> Duration {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    of.mul_f64(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same(u8);

    impl Entropy for Same {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn waits_double_up_to_a_bound_with_jitter() {
        let longest: Vec<u128> = (0..8).map(|n| wait(n, &Same(0xff)).as_millis()).collect();
        assert_eq!(longest, [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        let shortest: Vec<u128> = (0..4).map(|n| wait(n, &Same(0)).as_millis()).collect();
        assert_eq!(shortest, [0, 200, 400, 800]);
        assert_eq!(wait(u32::MAX, &Same(0xff)), limits::BACKOFF);
    }
}
