//! How long a grant lasts.

use std::fmt;
use std::time::Duration;

use crate::Error;

/// How long a grant lasts: 1 ms to 24 h, in whole milliseconds. Engines state a higher minimum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The longest TTL of any engine.
    pub const MAX: Self = Self(86_400_000);

    /// The shortest TTL of the engines in process.
    pub(crate) const MIN_IN_PROCESS: Self = Self(250);

    /// A TTL in milliseconds.
    pub fn from_millis(ms: u64) -> Result<Self, Error> {
        match u32::try_from(ms) {
            Ok(ms) if ms > 0 && ms <= Self::MAX.0 => Ok(Self(ms)),
            _ => Err(Error::invalid("ttl", format!("{ms} ms is not between 1 ms and 24 h"))),
        }
    }

    /// A TTL in seconds.
    pub fn from_secs(secs: u64) -> Result<Self, Error> {
        Self::from_millis(secs.saturating_mul(1_000))
    }

    /// The TTL in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 as u64
    }

    /// The TTL as a duration.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_between_a_millisecond_and_a_day() {
        assert!(Ttl::from_millis(0).is_err());
        assert_eq!(Ttl::from_secs(86_400).unwrap(), Ttl::MAX);
        assert!(Ttl::from_secs(86_401).is_err());
        assert!(Ttl::from_millis(u64::MAX).is_err());
    }
}
