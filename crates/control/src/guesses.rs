//! Counting what one principal does in a time: wrong tokens, requests.

use std::collections::HashMap;
use std::time::Duration;

use lease::Tick;

/// Principals remembered at most. There are no more than there are API tokens, so this is a backstop.
const MOST: usize = 4_096;

/// Wrong tokens in a minute before a principal has to wait.
const WRONG: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// How long it has to wait then.
const PAUSE: Duration = Duration::from_secs(5);

/// A window of time and what was counted in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    begun: Tick,
    count: u32,
}

impl Window {
    pub(crate) const fn new(begun: Tick) -> Self {
        Self { begun, count: 0 }
    }

    /// Counts one more; whether that is within `most` per `length`.
    pub(crate) fn admit(&mut self, most: u32, length: Duration, now: Tick) -> bool {
        if now.since(self.begun) >= length {
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }
}

/// Requests per second and principal.
#[derive(Default)]
pub(crate) struct Rates(HashMap<String, Window>);

impl Rates {
    pub(crate) fn admit(&mut self, principal: &str, most: u32, now: Tick) -> bool {
        if let Some(window) = self.0.get_mut(principal) {
            return window.admit(most, Duration::from_secs(1), now);
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, window| now.since(window.begun) < Duration::from_secs(1));
        }
        let mut window = Window::new(now);
        let admitted = self.0.len() < MOST && window.admit(most, Duration::from_secs(1), now);
        self.0.insert(principal.to_owned(), window);
        admitted
    }
}

/// Wrong tokens by principal.
#[derive(Default)]
pub(crate) struct Guesses(HashMap<String, Guesser>);

struct Guesser {
    window: Window,
    until: Tick,
}

impl Guesses {
    /// How long the principal still has to wait before a token of it is looked at.
    pub(crate) fn wait(&self, principal: &str, now: Tick) -> Option<Duration> {
        let left = self.0.get(principal)?.until.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes a wrong token.
    pub(crate) fn note(&mut self, principal: &str, now: Tick) {
        metrics::counter!("control_wrong_tokens_total").increment(1);
        if self.0.len() >= MOST {
            self.0.retain(|_, guesser| now.since(guesser.window.begun) < MINUTE || guesser.until > now);
        }
        if self.0.len() >= MOST && !self.0.contains_key(principal) {
            return;
        }
        let guesser = self
            .0
            .entry(principal.to_owned())
            .or_insert_with(|| Guesser { window: Window::new(now), until: Tick::default() });
        if !guesser.window.admit(WRONG - 1, MINUTE, now) {
            guesser.until = now + PAUSE;
            guesser.window = Window::new(now);
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
        let mut guesses = Guesses::default();
        for i in 0..9 {
            guesses.note("a", at(i * 100));
            assert_eq!(guesses.wait("a", at(i * 100)), None, "{i}");
        }
        guesses.note("b", at(900));
        assert_eq!(guesses.wait("b", at(900)), None, "each has its own count");
        guesses.note("a", at(1_000));
        assert_eq!(guesses.wait("a", at(1_000)), Some(PAUSE));
        assert_eq!(guesses.wait("a", at(5_999)), Some(Duration::from_millis(1)));
        assert_eq!(guesses.wait("a", at(6_000)), None);
    }

    #[test]
    fn slow_mistakes_cost_nothing() {
        let mut guesses = Guesses::default();
        for i in 0..100 {
            guesses.note("a", at(i * 7_000));
            assert_eq!(guesses.wait("a", at(i * 7_000)), None, "{i}");
        }
    }

    #[test]
    fn a_window_opens_anew_each_time() {
        let mut rates = Rates::default();
        let counted = |rates: &mut Rates, ms| (0..300).filter(|_| rates.admit("a", 200, at(ms))).count();
        assert_eq!(counted(&mut rates, 0), 200);
        assert_eq!(counted(&mut rates, 999), 0);
        assert_eq!(counted(&mut rates, 1_000), 200);
    }
}
