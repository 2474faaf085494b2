//! How much a subscriber can be sent: a target from what its path delivered, every 100 ms.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::transport::PathStats;

/// The interval of samples.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Samples over which rates are measured.
const WINDOW: usize = 5;
/// The target before the first congestion, in bits per second: a path is not slow until it shows it.
const FIRST: f64 = 30_000_000.0;
/// The least target: audio goes on whatever happens.
const LEAST: f64 = 100_000.0;
/// The greatest target.
const GREATEST: f64 = 200_000_000.0;
/// What is left of the delivered rate at congestion.
const BACK_OFF: f64 = 0.85;
/// The rise per second while the target is used.
const RISE: f64 = 1.08;
/// The part of the target that counts as used.
const USED: f64 = 0.8;
/// Loss above this part is congestion.
const LOSS: f64 = 0.05;
/// Fewer packets say nothing about loss.
const PACKETS: u64 = 20;
/// A write that waits longer is congestion.
const WRITE: Duration = Duration::from_millis(100);
/// Time without congestion before quality rises.
const CLEAN: Duration = Duration::from_secs(5);
/// The longest such time after failed attempts.
const CLEAN_MAX: Duration = Duration::from_secs(60);
/// Bounds of the send window, in bytes.
const WINDOW_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024);
/// The time that the send window covers beside the round trip.
const WINDOW_TIME: Duration = Duration::from_millis(150);

/// What is known at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Tick,
    pub(crate) stats: PathStats,
    /// How long the oldest write has been waiting.
    pub(crate) write_pending: Duration,
}

/// The rate control of one subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    target: f64,
    samples: VecDeque<Sample>,
    backed_off: Option<Tick>,
    clean_since: Option<Tick>,
    raised: Option<Tick>,
    clean: Duration,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            target: FIRST,
            samples: VecDeque::with_capacity(WINDOW + 1),
            backed_off: None,
            clean_since: None,
            raised: None,
            clean: CLEAN,
        }
    }
}

/// What a window of samples shows.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    delivered: f64,
    loss: f64,
    seconds: f64,
}

fn measured(first: &Sample, last: &Sample) -> Measured {
    let seconds = last.at.since(first.at).as_secs_f64().max(0.001);
    let delta = |last: u64, first: u64| last.saturating_sub(first);
    let sent = delta(last.stats.sent_bytes, first.stats.sent_bytes);
    let lost = delta(last.stats.lost_bytes, first.stats.lost_bytes);
    let packets = delta(last.stats.sent_packets, first.stats.sent_packets);
    let lost_packets = delta(last.stats.lost_packets, first.stats.lost_packets);
    let loss = if packets < PACKETS { 0.0 } else { lost_packets as f64 / packets as f64 };
    Measured { delivered: sent.saturating_sub(lost) as f64 * 8.0 / seconds, loss, seconds }
}

fn is_congested(sample: &Sample, loss: f64) -> bool {
    let queue = sample.stats.rtt.saturating_sub(sample.stats.min_rtt);
    queue > Duration::from_millis(50).max(sample.stats.min_rtt / 2)
        || loss > LOSS
        || sample.write_pending > WRITE
}

impl Rate {
    /// Takes a sample into account. Returns whether the path is congested.
    pub(crate) fn sample(&mut self, sample: Sample) -> bool {
        self.samples.push_back(sample);
        if self.samples.len() > WINDOW + 1 {
            self.samples.pop_front();
        }
        let (Some(first), Some(before)) = (self.samples.front(), self.samples.iter().rev().nth(1)) else {
            self.clean_since = Some(sample.at);
            return false;
        };
        let (window, last) = (measured(first, &sample), measured(before, &sample));
        let congested = is_congested(&sample, window.loss);
        if congested {
            self.back_off(&sample, window.delivered);
        } else {
            self.clean_since.get_or_insert(sample.at);
            if window.delivered > USED * self.target {
                self.target = (self.target * RISE.powf(last.seconds)).min(GREATEST);
            }
        }
        congested
    }

    /// Lowers the target, once per round trip: the queue of the last one must drain first.
    fn back_off(&mut self, sample: &Sample, delivered: f64) {
        self.clean_since = None;
        let pause = sample.stats.rtt + INTERVAL * 2;
        if self.backed_off.is_some_and(|at| sample.at.since(at) < pause) {
            return;
        }
        self.backed_off = Some(sample.at);
        self.target = (BACK_OFF * delivered).clamp(LEAST, self.target);
        if self.raised.take().is_some_and(|at| sample.at.since(at) < CLEAN) {
            self.clean = (self.clean * 2).min(CLEAN_MAX);
        }
    }

    /// The target in bits per second.
    pub(crate) fn target(&self) -> u64 {
        self.target as u64
    }

    /// Whether quality may rise by one step, to try whether the path carries more.
    pub(crate) fn may_raise(&self, now: Tick) -> bool {
        self.clean_since.is_some_and(|since| now.since(since) >= self.clean)
    }

    /// Quality rose to this many bits per second.
    pub(crate) fn raised(&mut self, bits: u64, now: Tick) {
        // The last attempt held.
        if self.raised.is_some() {
            self.clean = CLEAN;
        }
        self.raised = Some(now);
        self.clean_since = Some(now);
        self.target = self.target.max(bits as f64 * 1.1).min(GREATEST);
    }

    /// The send window for this target and round trip, in bytes.
    pub(crate) fn send_window(&self, rtt: Duration) -> u64 {
        let bytes = self.target / 8.0 * (rtt + WINDOW_TIME).as_secs_f64();
        (bytes as u64).clamp(WINDOW_BYTES.0, WINDOW_BYTES.1)
    }

    /// Loss over the last samples, of a thousand packets.
    pub(crate) fn loss_permille(&self) -> u32 {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return 0 };
        (measured(first, last).loss * 1_000.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    /// A path that carries this many bits per second, sampled at a time.
    fn sample(millis: u64, bits: u64) -> Sample {
        let stats = PathStats {
            rtt: Duration::from_millis(40),
            min_rtt: Duration::from_millis(40),
            sent_bytes: bits / 8 * millis / 1_000,
            sent_packets: millis,
            ..PathStats::default()
        };
        Sample { at: at(millis), stats, write_pending: Duration::ZERO }
    }

    fn run(rate: &mut Rate, millis: std::ops::Range<u64>, make: impl Fn(u64) -> Sample) -> bool {
        millis.step_by(100).fold(false, |_, millis| rate.sample(make(millis)))
    }

    #[test]
    fn congestion_is_a_queue_loss_or_a_write_that_waits() {
        type Case = (&'static str, fn(&mut Sample), bool);
        let table: [Case; 6] = [
            ("a clean path", |_| {}, false),
            ("a queue of 50 ms", |sample| sample.stats.rtt = Duration::from_millis(90), false),
            ("a queue of 51 ms", |sample| sample.stats.rtt = Duration::from_millis(91), true),
            ("loss of 5 %", |sample| sample.stats.lost_packets = sample.stats.sent_packets / 20, false),
            ("loss of 6 %", |sample| sample.stats.lost_packets = sample.stats.sent_packets * 6 / 100, true),
            ("a write of 101 ms", |sample| sample.write_pending = Duration::from_millis(101), true),
        ];
        for (name, change, congested) in table {
            let mut rate = Rate::default();
            let came = run(&mut rate, 0..1_000, |millis| {
                let mut sample = sample(millis, 1_000_000);
                change(&mut sample);
                sample
            });
            assert_eq!(came, congested, "{name}");
        }
        let mut far = sample(0, 0);
        far.stats.min_rtt = Duration::from_millis(300);
        far.stats.rtt = Duration::from_millis(449);
        assert!(!is_congested(&far, 0.0), "half of a long round trip is no queue");
    }

    #[test]
    fn congestion_sets_the_target_below_what_was_delivered() {
        let mut rate = Rate::default();
        run(&mut rate, 0..1_000, |millis| sample(millis, 1_000_000));
        assert_eq!(rate.target(), 30_000_000, "nothing showed that the path is slow");
        let late = Sample { write_pending: Duration::from_millis(200), ..sample(1_000, 1_000_000) };
        rate.sample(late);
        assert_eq!(rate.target() / 1_000, 850);
        rate.sample(Sample { at: at(1_100), ..late });
        assert_eq!(rate.target() / 1_000, 850, "once per round trip");
    }

    #[test]
    fn the_target_rises_by_eight_percent_a_second_while_it_is_used() {
        let mut rate = Rate { target: 1_000_000.0, ..Rate::default() };
        run(&mut rate, 0..1_100, |millis| sample(millis, 1_000_000));
        assert!(rate.target().abs_diff(1_080_000) < 10, "{}", rate.target());
        let mut idle = Rate { target: 1_000_000.0, ..Rate::default() };
        run(&mut idle, 0..1_100, |millis| sample(millis, 700_000));
        assert_eq!(idle.target(), 1_000_000);
    }

    #[test]
    fn quality_rises_after_five_clean_seconds_and_failures_double_that() {
        let mut rate = Rate::default();
        let bad = |millis| Sample { write_pending: WRITE * 2, ..sample(millis, 500_000) };
        let mut now = 0;
        rate.sample(sample(0, 500_000));
        rate.sample(bad(100));
        for wait in [5_000, 10_000, 20_000, 40_000, 60_000, 60_000] {
            now += 1_000;
            rate.sample(sample(now, 500_000));
            assert!(!rate.may_raise(at(now + wait - 1)), "after {wait} ms");
            assert!(rate.may_raise(at(now + wait)), "after {wait} ms");
            now += wait;
            rate.raised(900_000, at(now));
            now += 1_000;
            rate.sample(bad(now));
        }
    }

    #[test]
    fn the_send_window_covers_the_round_trip_within_bounds() {
        for (target, rtt, bytes) in
            [(8_000_000.0, 50, 200_000), (100_000.0, 50, 65_536), (100_000_000.0, 50, 1_048_576)]
        {
            let rate = Rate { target, ..Rate::default() };
            assert_eq!(rate.send_window(Duration::from_millis(rtt)), bytes);
        }
    }
}
