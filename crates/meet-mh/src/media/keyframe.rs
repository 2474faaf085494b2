//! How often key frames are requested, whatever the number of subscribers that want one.

use std::time::Duration;

use tenure_lease::Tick;

/// Between two requests to a publisher, per rendition.
const TRACK: Duration = Duration::from_secs(1);
/// The same for subscribers that have no picture yet.
const JOINER: Duration = Duration::from_millis(500);
/// Between two requests of one subscriber, at first.
const SUBSCRIBER: Duration = Duration::from_secs(2);
/// The longest such time.
const SUBSCRIBER_MAX: Duration = Duration::from_secs(16);

/// Requests for key frames of one rendition.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct TrackRequests {
    sent: Option<Tick>,
    /// When the next request is due.
    due: Option<Tick>,
}

impl TrackRequests {
    /// A subscriber needs a key frame.
    pub(crate) fn want(&mut self, joiner: bool, now: Tick) {
        let pause = if joiner { JOINER } else { TRACK };
        let due = self.sent.map_or(now, |sent| now.max(sent + pause));
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// A key frame arrived: what was wanted is there.
    pub(crate) fn arrived(&mut self) {
        self.due = None;
    }

    /// Whether a request is to be sent now. It counts as sent.
    pub(crate) fn take_due(&mut self, now: Tick) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            self.due = None;
            self.sent = Some(now);
        }
        due
    }
}

/// Requests of one subscriber for one track.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SubscriberRequests {
    last: Option<(Tick, Duration)>,
}

impl SubscriberRequests {
    /// Whether a request is accepted now. Each one doubles the time to the next; a quiet time resets it.
    pub(crate) fn accept(&mut self, now: Tick) -> bool {
        let Some((last, pause)) = self.last else {
            self.last = Some((now, SUBSCRIBER));
            return true;
        };
        let since = now.since(last);
        if since < pause {
            return false;
        }
        let next = if since >= pause * 4 { SUBSCRIBER } else { (pause * 2).min(SUBSCRIBER_MAX) };
        self.last = Some((now, next));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn many_requests_become_one_a_second() {
        let mut requests = TrackRequests::default();
        for _ in 0..100 {
            requests.want(false, at(0));
        }
        assert!(requests.take_due(at(0)) && !requests.take_due(at(0)));
        requests.want(false, at(10));
        assert!(!requests.take_due(at(999)) && requests.take_due(at(1_000)));
        requests.want(false, at(1_100));
        requests.want(true, at(1_200));
        assert!(!requests.take_due(at(1_499)) && requests.take_due(at(1_500)), "a joiner waits half as long");
    }

    #[test]
    fn a_key_frame_that_arrives_settles_what_was_wanted() {
        let mut requests = TrackRequests::default();
        requests.want(true, at(0));
        requests.arrived();
        assert!(!requests.take_due(at(0)));
    }

    #[test]
    fn a_subscriber_that_repeats_itself_waits_longer_each_time() {
        let mut requests = SubscriberRequests::default();
        let mut now = 0;
        assert!(requests.accept(at(now)));
        for pause in [2_000, 4_000, 8_000, 16_000, 16_000] {
            assert!(!requests.accept(at(now + pause - 1)), "{pause}");
            now += pause;
            assert!(requests.accept(at(now)), "{pause}");
        }
        now += 64_000;
        assert!(requests.accept(at(now)) && requests.accept(at(now + 2_000)), "reset after a quiet time");
    }
}
