//! Rate limits for each principal: requests and wrong lease tokens.

use std::collections::HashMap;
use std::time::Duration;

use tenure_lease::Tick;

/// Maximum number of tracked principals. API tokens are fewer, so this is a safeguard.
const MAX_PRINCIPALS: usize = 4_096;

/// Wrong tokens per minute before a principal has to wait.
const MAX_WRONG_TOKENS: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// How long the principal has to wait.
const PENALTY: Duration = Duration::from_secs(5);

/// A fixed window of time and its count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateWindow {
    start: Tick,
    count: u32,
}

impl RateWindow {
    pub(crate) const fn new(start: Tick) -> Self {
        Self { start, count: 0 }
    }

    /// Counts one event. Returns whether the count is within `most` per `length`.
    pub(crate) fn admit(&mut self, most: u32, length: Duration, now: Tick) -> bool {
        if now.since(self.start) >= length {
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}

/// Requests per second and principal.
#[derive(Default)]
pub(crate) struct RequestRates(HashMap<String, RateWindow>);

impl RequestRates {
    pub(crate) fn admit(&mut self, principal: &str, most: u32, now: Tick) -> bool {
        if let Some(window) = self.0.get_mut(principal) {
            return window.admit(most, Duration::from_secs(1), now);
        }
        if self.0.len() >= MAX_PRINCIPALS {
            self.0.retain(|_, window| now.since(window.start) < Duration::from_secs(1));
        }
        let mut window = RateWindow::new(now);
        let admitted = self.0.len() < MAX_PRINCIPALS && window.admit(most, Duration::from_secs(1), now);
        self.0.insert(principal.to_owned(), window);
        admitted
    }
}

/// Wrong tokens by principal.
#[derive(Default)]
pub(crate) struct WrongTokens(HashMap<String, WrongTokenCount>);

struct WrongTokenCount {
    window: RateWindow,
    until: Tick,
}

impl WrongTokens {
    /// How long the principal still has to wait before another token is checked.
    pub(crate) fn retry_after(&self, principal: &str, now: Tick) -> Option<Duration> {
        let left = self.0.get(principal)?.until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Records a wrong token.
    pub(crate) fn record(&mut self, principal: &str, now: Tick) {
        metrics::counter!("tenure_control_invalid_tokens_total").increment(1);
        if self.0.len() >= MAX_PRINCIPALS {
            self.0.retain(|_, entry| now.since(entry.window.start) < MINUTE || entry.until > now);
        }
        if self.0.len() >= MAX_PRINCIPALS && !self.0.contains_key(principal) {
            return;
        }
        let entry = self
            .0
            .entry(principal.to_owned())
            .or_insert_with(|| WrongTokenCount { window: RateWindow::new(now), until: Tick::default() });
        if !entry.window.admit(MAX_WRONG_TOKENS - 1, MINUTE, now) {
            entry.until = now + PENALTY;
            entry.window = RateWindow::new(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(3_600_000_000_000) + Duration::from_millis(ms)
    }

    #[test]
    fn ten_wrong_tokens_in_a_minute_cost_five_seconds() {
        let mut wrong_tokens = WrongTokens::default();
        for i in 0..9 {
            wrong_tokens.record("a", at(i * 100));
            assert_eq!(wrong_tokens.retry_after("a", at(i * 100)), None, "{i}");
        }
        wrong_tokens.record("b", at(900));
        assert_eq!(wrong_tokens.retry_after("b", at(900)), None, "each principal has its own count");
        wrong_tokens.record("a", at(1_000));
        assert_eq!(wrong_tokens.retry_after("a", at(1_000)), Some(PENALTY));
        assert_eq!(wrong_tokens.retry_after("a", at(5_999)), Some(Duration::from_millis(1)));
        assert_eq!(wrong_tokens.retry_after("a", at(6_000)), None);
    }

    #[test]
    fn infrequent_wrong_tokens_have_no_penalty() {
        let mut wrong_tokens = WrongTokens::default();
        for i in 0..100 {
            wrong_tokens.record("a", at(i * 7_000));
            assert_eq!(wrong_tokens.retry_after("a", at(i * 7_000)), None, "{i}");
        }
    }

    #[test]
    fn a_new_window_resets_the_count() {
        let mut rates = RequestRates::default();
        let counted =
            |rates: &mut RequestRates, ms| (0..300).filter(|_| rates.admit("a", 200, at(ms))).count();
        assert_eq!(counted(&mut rates, 0), 200);
        assert_eq!(counted(&mut rates, 999), 0);
        assert_eq!(counted(&mut rates, 1_000), 200);
    }
}
