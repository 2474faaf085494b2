//! The terms of a held lease.

use std::time::Duration;

use tenure_lease::{Capabilities, Error, Holder, Margins, Meta, Token, Ttl};

/// How long a lease is held, how it is renewed, and what happens when it is lost.
#[derive(Clone, Debug)]
pub struct Terms {
    pub(crate) ttl: Ttl,
    pub(crate) heartbeat: Duration,
    pub(crate) policy: Policy,
    pub(crate) grace: Duration,
    pub(crate) meta: Meta,
    pub(crate) liveness: Liveness,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) renew_early: Option<Duration>,
    pub(crate) holder: Option<Holder>,
    pub(crate) token: Option<Token>,
}

/// What a guard does when renewals fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Suspend at the deadline, keep renewing during the grace period, resume if the store confirms.
    #[default]
    Pause,
    /// Lost at the deadline.
    Abort,
    /// Lost at the first failed renewal: no jeopardy, no retry. Used by [`Gate`](crate::Gate).
    FailClosed,
}

/// What must be alive for renewals to continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Liveness {
    /// The process.
    #[default]
    Process,
    /// The worker: it calls `tick` at least this often, or renewals stop and the lease expires.
    Progress {
        /// The longest time between two ticks.
        max_silence: Duration,
    },
}

impl Terms {
    /// Terms with a heartbeat of a third of the TTL, the policy pause and a grace period of one TTL.
    pub fn new(ttl: Ttl) -> Self {
        Self {
            ttl,
            heartbeat: ttl.as_duration() / 3,
            policy: Policy::default(),
            grace: ttl.as_duration(),
            meta: Meta::default(),
            liveness: Liveness::default(),
            max_hold: None,
            renew_early: None,
            holder: None,
            token: None,
        }
    }

    /// Renews this often; at most a third of the TTL. Jitter shortens the first interval, and the first after a
    /// failure, by up to a tenth.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    /// Sets what happens when renewals fail.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Keeps renewing this long after the deadline (policy pause only).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Describes the holder to other callers.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Sets what must be alive for renewals to continue.
    pub fn liveness(mut self, liveness: Liveness) -> Self {
        self.liveness = liveness;
        self
    }

    /// Holds for at most this long, even if renewals succeed.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sends a renewal up to this much before it is due in order to share a call; by default a tenth of the heartbeat. The
    /// keeper's window must be as long. With half a heartbeat, all leases of a keeper soon share one call.
    pub fn renew_early(mut self, early: Duration) -> Self {
        self.renew_early = Some(early);
        self
    }

    /// Holds under this name instead of the keeper's, so that one keeper can serve several holders.
    pub fn holder(mut self, holder: Holder) -> Self {
        self.holder = Some(holder);
        self
    }

    /// Uses a token that was granted before instead of a new one: a lease that it still holds is kept. A token serves one
    /// reign, so such terms are for one acquire. If that fails, the token is released.
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The TTL.
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// Refuses terms that the engine or the margins do not support, or that contradict each other.
    pub(crate) fn check(&self, engine: &Capabilities, margins: &Margins) -> Result<(), Error> {
        engine.check(self.ttl)?;
        margins.check(self.ttl)?;
        if self.heartbeat.is_zero() || self.heartbeat > self.ttl.as_duration() / 3 {
            let why = format!("{:?} is not within 0 and a third of the ttl of {}", self.heartbeat, self.ttl);
            return Err(Error::invalid("heartbeat", why));
        }
        if self.max_hold.is_some_and(|most| most.is_zero()) {
            return Err(Error::invalid("max_hold", "must not be zero"));
        }
        if self.liveness == (Liveness::Progress { max_silence: Duration::ZERO }) {
            return Err(Error::invalid("max_silence", "must not be zero"));
        }
        Ok(())
    }

    /// The time limit of one renewal.
    pub(crate) fn renewal_timeout(&self) -> Duration {
        self.ttl.as_duration() / 6
    }

    /// The time limit of any other call: those write, and wait for the disk.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.ttl.as_duration() / 3
    }

    /// The wait after `failures` in a row: a fiftieth of the TTL, doubling, at most a tenth.
    pub(crate) fn back_off(&self, failures: u32) -> Duration {
        back_off(self.ttl, failures)
    }

    /// The time between two renewals when the store reported `remaining`: the heartbeat, or sooner if that is less than the
    /// TTL.
    pub(crate) fn renewal_interval(&self, remaining: Duration) -> Duration {
        self.heartbeat.min((remaining / 3).max(self.back_off(1)))
    }

    /// How much before it is due a renewal may be sent to share a call.
    pub(crate) fn early(&self, window: Duration) -> Duration {
        window.min(self.renew_early.unwrap_or(self.heartbeat / 10))
    }
}

pub(crate) fn back_off(ttl: Ttl, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    (ttl.as_duration() / 50 * (1 << doublings)).min(ttl.as_duration() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Capabilities {
        Capabilities::in_process("test")
    }

    #[test]
    fn unsupported_terms_are_refused() {
        let ttl = |ms| Ttl::from_millis(ms).unwrap();
        let ms = Duration::from_millis;
        let table = [
            (Terms::new(ttl(15_000)), true),
            (Terms::new(ttl(250)), true),
            (Terms::new(ttl(249)), false),
            (Terms::new(ttl(15_000)).heartbeat(ms(5_000)), true),
            (Terms::new(ttl(15_000)).heartbeat(ms(5_001)), false),
            (Terms::new(ttl(15_000)).heartbeat(ms(0)), false),
            (Terms::new(ttl(15_000)).max_hold(ms(0)), false),
            (Terms::new(ttl(15_000)).liveness(Liveness::Progress { max_silence: ms(0) }), false),
        ];
        for (i, (terms, good)) in table.into_iter().enumerate() {
            assert_eq!(terms.check(&engine(), &Margins::default()).is_ok(), good, "row {i}");
        }
    }

    #[test]
    fn renewals_share_calls_within_a_tenth_of_the_heartbeat_by_default() {
        let (terms, ms) = (Terms::new(Ttl::from_secs(30).unwrap()), Duration::from_millis);
        assert_eq!(terms.early(ms(100)), ms(100));
        assert_eq!(terms.early(ms(5_000)), ms(1_000));
        assert_eq!(terms.renew_early(ms(5_000)).early(ms(5_000)), ms(5_000));
    }

    #[test]
    fn back_off_rises_from_a_fiftieth_to_a_tenth_of_the_ttl() {
        let terms = Terms::new(Ttl::from_secs(10).unwrap());
        let waits: Vec<_> = (1..6).map(|n| terms.back_off(n).as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1_000, 1_000]);
        assert_eq!(terms.back_off(u32::MAX).as_millis(), 1_000);
    }
}
