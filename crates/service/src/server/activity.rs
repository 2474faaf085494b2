//! What a connection is doing, and until when it may go on like that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::Clock;

/// How an HTTP/2 client begins; no method of HTTP/1.1 is called so.
const PREFACE: &[u8] = b"PRI ";
/// No time noted.
const NEVER: u64 = u64::MAX;

/// Times of one connection, in nanoseconds since it was opened.
#[derive(Debug)]
pub(super) struct Activity {
    clock: Clock,
    opened: Duration,
    requests: AtomicUsize,
    /// When the last request ended, or the connection was opened.
    quiet_since: AtomicU64,
    /// When the first byte of a request that is not yet complete arrived.
    head_since: AtomicU64,
    /// Since when the client has not read what was written.
    stuck_since: AtomicU64,
    /// Frames of HTTP/2 arrive between requests too, so there a byte does not begin a request.
    framed: AtomicBool,
}

/// How long each state may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// What to do with a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Look again after this time.
    Later(Duration),
    /// It has done nothing for too long: end it politely.
    Idle,
    /// It sends its headers, or reads its answers, too slowly: drop it.
    Slow,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        let opened = clock.now();
        Arc::new(Self {
            clock,
            opened,
            requests: AtomicUsize::new(0),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            stuck_since: AtomicU64::new(NEVER),
            framed: AtomicBool::new(false),
        })
    }

    /// A request's headers are complete; it is being answered until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, framed: bool) -> Busy {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.head_since.store(NEVER, Ordering::Release);
        self.framed.store(framed, Ordering::Release);
        Busy(self.clone())
    }

    /// The TLS handshake is over; waiting for a request begins now.
    pub(super) fn greeted(&self, framed: bool) {
        self.framed.store(framed, Ordering::Release);
        self.head_since.store(NEVER, Ordering::Release);
        self.quiet_since.store(self.now(), Ordering::Release);
    }

    /// Bytes arrived.
    pub(super) fn read(&self, bytes: &[u8]) {
        if bytes.starts_with(PREFACE) {
            self.framed.store(true, Ordering::Release);
        }
        if self.requests.load(Ordering::Acquire) == 0
            && !self.framed.load(Ordering::Acquire)
            && self.head_since.load(Ordering::Acquire) == NEVER
        {
            self.head_since.store(self.now(), Ordering::Release);
        }
    }

    /// A write went through, or the client does not take it.
    pub(super) fn wrote(&self, stuck: bool) {
        let noted = self.stuck_since.load(Ordering::Acquire) != NEVER;
        if stuck != noted {
            self.stuck_since.store(if stuck { self.now() } else { NEVER }, Ordering::Release);
        }
    }

    pub(super) fn look(&self, patience: Patience) -> Look {
        let now = self.now();
        let left = |since: u64, limit: Duration| {
            (since != NEVER).then(|| limit.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
        };
        let stuck = left(self.stuck_since.load(Ordering::Acquire), patience.idle);
        let mut next = patience.head.min(patience.idle);
        if let Some(left) = stuck {
            if left.is_zero() {
                return Look::Slow;
            }
            next = next.min(left);
        }
        if self.requests.load(Ordering::Acquire) > 0 {
            return Look::Later(next);
        }
        if let Some(left) = left(self.head_since.load(Ordering::Acquire), patience.head) {
            return if left.is_zero() { Look::Slow } else { Look::Later(next.min(left)) };
        }
        match left(self.quiet_since.load(Ordering::Acquire), patience.idle) {
            Some(left) if left.is_zero() => Look::Idle,
            Some(left) => Look::Later(next.min(left)),
            None => Look::Later(next),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from((self.clock.now() - self.opened).as_nanos()).unwrap_or(NEVER - 1)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.quiet_since.store(self.0.now(), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { head: Duration::from_secs(10), idle: Duration::from_secs(60) };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_connection_is_idle_after_a_while() {
        let (clock, hand) = Clock::manual();
        let activity = Activity::new(clock);
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(10)));
        hand.advance(seconds(55));
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(5)));
        hand.advance(seconds(5));
        assert_eq!(activity.look(PATIENCE), Look::Idle);
    }

    #[test]
    fn slow_headers_count_from_their_first_byte() {
        let (clock, hand) = Clock::manual();
        let activity = Activity::new(clock);
        hand.advance(seconds(30));
        activity.read(b"G");
        for _ in 0..9 {
            hand.advance(seconds(1));
            activity.read(b"G");
        }
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(1)));
        hand.advance(seconds(1));
        assert_eq!(activity.look(PATIENCE), Look::Slow);
    }

    #[test]
    fn a_request_may_take_its_time_and_the_rest_counts_from_its_end() {
        let (clock, hand) = Clock::manual();
        let activity = Activity::new(clock);
        activity.read(b"G");
        let busy = activity.begin(false);
        activity.read(b"G");
        hand.advance(seconds(3_600));
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(10)));
        drop(busy);
        hand.advance(seconds(59));
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(1)));
        hand.advance(seconds(1));
        assert_eq!(activity.look(PATIENCE), Look::Idle);
    }

    #[test]
    fn frames_between_requests_of_http_2_begin_no_headers() {
        let (clock, hand) = Clock::manual();
        let activity = Activity::new(clock);
        drop(activity.begin(true));
        activity.read(b"G");
        hand.advance(seconds(30));
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(10)));
    }

    #[test]
    fn a_client_of_http_2_may_connect_ahead_of_its_first_request() {
        let (clock, hand) = Clock::manual();
        let (plain, tls) = (Activity::new(clock.clone()), Activity::new(clock));
        plain.read(b"PRI * HTTP/2.0\r\n");
        tls.read(b"a handshake");
        tls.greeted(true);
        tls.read(b"settings");
        hand.advance(seconds(30));
        assert_eq!(plain.look(PATIENCE), Look::Later(seconds(10)));
        assert_eq!(tls.look(PATIENCE), Look::Later(seconds(10)));
        hand.advance(seconds(30));
        assert_eq!(plain.look(PATIENCE), Look::Idle);
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_even_during_a_request() {
        let (clock, hand) = Clock::manual();
        let activity = Activity::new(clock);
        let _busy = activity.begin(false);
        activity.wrote(true);
        hand.advance(seconds(59));
        activity.wrote(true);
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(1)));
        activity.wrote(false);
        hand.advance(seconds(59));
        assert_eq!(activity.look(PATIENCE), Look::Later(seconds(10)));
        activity.wrote(true);
        hand.advance(seconds(60));
        assert_eq!(activity.look(PATIENCE), Look::Slow);
    }
}
