//! [`Entropy`] from the operating system.

use tenure_lease::Entropy;

/// Random bytes from a generator that the operating system seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        use rand::Rng;
        rand::rng().fill_bytes(bytes);
    }
}
