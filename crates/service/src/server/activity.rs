//! The activity of a connection, and whether it has exceeded a timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::Clock;

/// The start of the HTTP/2 connection preface. It is not a method of HTTP/1.1.
const PREFACE: &[u8] = b"PRI ";
/// No time recorded.
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
    blocked_since: AtomicU64,
    /// Whether the connection is HTTP/2, where frames arrive between requests too: a byte does not begin a request.
    is_http2: AtomicBool,
}

/// How long headers may take and a connection may be idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionCheck {
    /// Check again after this time.
    Later(Duration),
    /// It was idle for too long: close it gracefully.
    Idle,
    /// It sends headers or reads responses too slowly: drop it.
    Slow,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Activity>);

impl Activity {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        let opened = clock.now();
        Arc::new(Self {
            clock,
            opened,
            requests: AtomicUsize::new(0),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            blocked_since: AtomicU64::new(NEVER),
            is_http2: AtomicBool::new(false),
        })
    }

    /// The headers of a request are complete. The request is active until the guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>, is_http2: bool) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.head_since.store(NEVER, Ordering::Release);
        self.is_http2.store(is_http2, Ordering::Release);
        ActiveRequest(self.clone())
    }

    /// The TLS handshake is complete; the idle time starts now.
    pub(super) fn handshake_done(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Ordering::Release);
        self.head_since.store(NEVER, Ordering::Release);
        self.quiet_since.store(self.now(), Ordering::Release);
    }

    /// Bytes arrived.
    pub(super) fn record_read(&self, bytes: &[u8]) {
        if bytes.starts_with(PREFACE) {
            self.is_http2.store(true, Ordering::Release);
        }
        if self.requests.load(Ordering::Acquire) == 0
            && !self.is_http2.load(Ordering::Acquire)
            && self.head_since.load(Ordering::Acquire) == NEVER
        {
            self.head_since.store(self.now(), Ordering::Release);
        }
    }

    /// A write completed, or is blocked because the client does not read.
    pub(super) fn wrote(&self, blocked: bool) {
        let was_blocked = self.blocked_since.load(Ordering::Acquire) != NEVER;
        if blocked != was_blocked {
            self.blocked_since.store(if blocked { self.now() } else { NEVER }, Ordering::Release);
        }
    }

    pub(super) fn check(&self, timeouts: Timeouts) -> ConnectionCheck {
        let now = self.now();
        let left = |since: u64, limit: Duration| {
            (since != NEVER).then(|| limit.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
        };
        let blocked = left(self.blocked_since.load(Ordering::Acquire), timeouts.idle);
        let mut next = timeouts.head.min(timeouts.idle);
        if let Some(left) = blocked {
            if left.is_zero() {
                return ConnectionCheck::Slow;
            }
            next = next.min(left);
        }
        if self.requests.load(Ordering::Acquire) > 0 {
            return ConnectionCheck::Later(next);
        }
        if let Some(left) = left(self.head_since.load(Ordering::Acquire), timeouts.head) {
            return if left.is_zero() {
                ConnectionCheck::Slow
            } else {
                ConnectionCheck::Later(next.min(left))
            };
        }
        match left(self.quiet_since.load(Ordering::Acquire), timeouts.idle) {
            Some(left) if left.is_zero() => ConnectionCheck::Idle,
            Some(left) => ConnectionCheck::Later(next.min(left)),
            None => ConnectionCheck::Later(next),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from((self.clock.now() - self.opened).as_nanos()).unwrap_or(NEVER - 1)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.quiet_since.store(self.0.now(), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(60) };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_connection_becomes_idle() {
        let (clock, control) = Clock::manual();
        let activity = Activity::new(clock);
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
        control.advance(seconds(55));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(5)));
        control.advance(seconds(5));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Idle);
    }

    #[test]
    fn the_header_timeout_starts_with_the_first_byte() {
        let (clock, control) = Clock::manual();
        let activity = Activity::new(clock);
        control.advance(seconds(30));
        activity.record_read(b"G");
        for _ in 0..9 {
            control.advance(seconds(1));
            activity.record_read(b"G");
        }
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(1)));
        control.advance(seconds(1));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Slow);
    }

    #[test]
    fn idle_time_counts_from_the_end_of_the_last_request() {
        let (clock, control) = Clock::manual();
        let activity = Activity::new(clock);
        activity.record_read(b"G");
        let request = activity.begin_request(false);
        activity.record_read(b"G");
        control.advance(seconds(3_600));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
        drop(request);
        control.advance(seconds(59));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(1)));
        control.advance(seconds(1));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Idle);
    }

    #[test]
    fn http_2_frames_between_requests_do_not_start_a_header_timeout() {
        let (clock, control) = Clock::manual();
        let activity = Activity::new(clock);
        drop(activity.begin_request(true));
        activity.record_read(b"G");
        control.advance(seconds(30));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
    }

    #[test]
    fn an_http_2_client_may_connect_before_its_first_request() {
        let (clock, control) = Clock::manual();
        let (plain, tls) = (Activity::new(clock.clone()), Activity::new(clock));
        plain.record_read(b"PRI * HTTP/2.0\r\n");
        tls.record_read(b"a handshake");
        tls.handshake_done(true);
        tls.record_read(b"settings");
        control.advance(seconds(30));
        assert_eq!(plain.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
        assert_eq!(tls.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
        control.advance(seconds(30));
        assert_eq!(plain.check(TIMEOUTS), ConnectionCheck::Idle);
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_even_during_a_request() {
        let (clock, control) = Clock::manual();
        let activity = Activity::new(clock);
        let _request = activity.begin_request(false);
        activity.wrote(true);
        control.advance(seconds(59));
        activity.wrote(true);
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(1)));
        activity.wrote(false);
        control.advance(seconds(59));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Later(seconds(10)));
        activity.wrote(true);
        control.advance(seconds(60));
        assert_eq!(activity.check(TIMEOUTS), ConnectionCheck::Slow);
    }
}
