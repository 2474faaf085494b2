//! Time types and the clock trait. Nothing here reads a clock.

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::time::Duration;

use crate::{Error, Ttl};

/// A point on a clock that counts suspend, in nanoseconds from an arbitrary start. Comparable only with
/// ticks of the same clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

/// Microseconds since the Unix epoch, for display and for the generation floor; never for deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(u64);

/// A future that ends at a tick.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time. Implementations count the time a machine was suspended.
pub trait Clock: Send + Sync + 'static {
    /// Now, for deadlines.
    fn now(&self) -> Tick;

    /// Now, for display.
    fn wall(&self) -> Wall;

    /// Ends when [`Clock::now`] has reached `at`. May end late after a suspend, never early.
    fn sleep_until(&self, at: Tick) -> Sleep;
}

/// The source of randomness for tokens, names and jitter.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with unpredictable numbers.
    fn fill(&self, bytes: &mut [u8]);
}

/// The part of a TTL that a holder does not use, for safety.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Margins {
    drift_ppm: u32,
    slack: Option<Duration>,
}

/// The instant on the holder's clock after which it must not act.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Tick);

impl Tick {
    /// A tick from nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The tick in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this tick is; zero when it is before.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Wall {
    /// A wall time from microseconds since the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }
}

impl Default for Margins {
    /// 1 % of drift and max(50 ms, 2 % of the TTL) of slack.
    fn default() -> Self {
        Self { drift_ppm: 10_000, slack: None }
    }
}

impl Margins {
    /// Margins for another bound on clock drift (parts per million, below 25 %) or a fixed stop slack.
    pub fn new(drift_ppm: u32, slack: Option<Duration>) -> Result<Self, Error> {
        if drift_ppm >= 250_000 {
            return Err(Error::invalid("drift", "must be below 25 %"));
        }
        Ok(Self { drift_ppm, slack })
    }

    /// δ: the time kept back for stopping.
    pub fn slack(&self, ttl: Ttl) -> Duration {
        self.slack.unwrap_or_else(|| Duration::from_millis(50).max(ttl.as_duration() / 50))
    }

    /// ρ·ttl + δ: the whole margin.
    pub fn given_away(&self, ttl: Ttl) -> Duration {
        ttl.as_duration() * self.drift_ppm / 1_000_000 + self.slack(ttl)
    }

    /// Refuses a TTL if the margins take a quarter of it or more.
    pub fn check(&self, ttl: Ttl) -> Result<(), Error> {
        if self.given_away(ttl) < ttl.as_duration() / 4 {
            return Ok(());
        }
        let why = format!(
            "{ttl} is too short: drift and stop slack take {:?} of it, at most a quarter is allowed",
            { self.given_away(ttl) }
        );
        Err(Error::invalid("ttl", why))
    }
}

impl Deadline {
    /// t_send + ttl(1−ρ) − δ, where `sent` was read before the request left.
    ///
    /// The store starts its own TTL after that moment, so a slow reply only shortens the holder's time.
    pub fn from_send(sent: Tick, ttl: Ttl, margins: &Margins) -> Self {
        Self(sent + ttl.as_duration().saturating_sub(margins.given_away(ttl)))
    }

    /// A deadline at a known tick.
    pub const fn at(tick: Tick) -> Self {
        Self(tick)
    }

    /// The tick.
    pub const fn tick(self) -> Tick {
        self.0
    }

    /// The remaining time at `now`.
    pub const fn left(self, now: Tick) -> Duration {
        self.0.since(now)
    }

    /// Whether `now` is at or past the deadline.
    pub fn passed(self, now: Tick) -> bool {
        now >= self.0
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{:06}", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}", self.0)
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_counts_from_before_the_send() {
        let ttl = Ttl::from_secs(15).unwrap();
        let sent = Tick::from_nanos(1_000_000_000);
        let deadline = Deadline::from_send(sent, ttl, &Margins::default());
        // 15 s less 1 % (150 ms) less 2 % (300 ms).
        assert_eq!(deadline.left(sent), Duration::from_millis(14_550));
        assert!(!deadline.passed(sent + Duration::from_millis(14_549)));
        assert!(deadline.passed(sent + Duration::from_millis(14_550)));
    }

    #[test]
    fn a_ttl_that_is_mostly_margin_is_refused() {
        let margins = Margins::default();
        assert!(margins.check(Ttl::from_millis(250).unwrap()).is_ok());
        assert!(margins.check(Ttl::from_millis(200).unwrap()).is_err());
        assert!(Margins::new(250_000, None).is_err());
    }

    #[test]
    fn ticks_saturate_instead_of_wrapping() {
        assert_eq!(Tick::from_nanos(5).since(Tick::from_nanos(9)), Duration::ZERO);
        assert_eq!(Tick::from_nanos(u64::MAX) + Duration::from_secs(1), Tick::from_nanos(u64::MAX));
        assert_eq!(Tick::from_nanos(1) - Duration::from_secs(1), Tick::from_nanos(0));
    }
}
