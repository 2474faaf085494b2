//! Decides whether a soak leaked. Pure.
use std::fmt;

/// What is left of the memory growth that fragmentation explains, in bytes.
const TOLERATED_BYTES: f64 = 8e6;
/// The same as a share.
const TOLERATED_SHARE: f64 = 0.05;
/// Frames of a group of the lowest rendition, which bots watch.
const GROUP: f64 = 15.0;

/// The state at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// Resident bytes of the server.
    pub(super) resident: f64,
    /// Frames forwarded since the start.
    pub(super) forwarded: f64,
    /// Bytes of groups in the cache.
    pub(super) cached: f64,
    /// Frames that the bots that stay received since the start.
    pub(super) received: u64,
    pub(super) people: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "people {:>3}  resident {:.1} MB  cached {:.0} KB  forwarded {:.0}  received by anchors {}",
            self.people,
            self.resident / 1e6,
            self.cached / 1e3,
            self.forwarded,
            self.received
        )
    }
}

/// What is left after everyone left.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct End {
    pub(super) sessions: f64,
    pub(super) publications: f64,
    pub(super) subscriptions: f64,
    pub(super) cached: f64,
    pub(super) resident: f64,
}

impl End {
    pub(super) fn is_empty(&self) -> bool {
        self.sessions + self.publications + self.subscriptions + self.cached == 0.0
    }
}

#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) lines: Vec<String>,
    pub(super) failures: Vec<String>,
}

/// Compares the middle of the soak with its end: its beginning fills caches and pools.
pub(super) fn judge(samples: &[Sample], end: &End) -> Verdict {
    let third = samples.len() / 3;
    let mut verdict = Verdict { lines: Vec::new(), failures: Vec::new() };
    if third == 0 {
        verdict.failures.push("too few samples".to_owned());
        return verdict;
    }
    let (middle, last) = (&samples[third..2 * third], &samples[2 * third..]);
    let (before, after) = (median(middle, |it| it.resident), median(last, |it| it.resident));
    let groups = (median(last, |it| it.forwarded) - median(middle, |it| it.forwarded)) / GROUP;
    let grown = after - before;
    verdict.lines.push(format!(
        "resident {:.1} MB in the middle, {:.1} MB at the end, {:.1} MB when empty: {:.0} bytes per forwarded group ({groups:.0} groups)",
        before / 1e6,
        after / 1e6,
        end.resident / 1e6,
        grown / groups.max(1.0),
    ));
    if grown > TOLERATED_BYTES.max(before * TOLERATED_SHARE) {
        verdict.failures.push(format!("memory grew by {:.1} MB", grown / 1e6));
    }
    let stuck = samples.windows(2).filter(|pair| pair[1].received <= pair[0].received).count();
    verdict.lines.push(format!("{stuck} of {} intervals without a frame", samples.len() - 1));
    if stuck > 0 {
        verdict.failures.push(format!("bots that stay received nothing in {stuck} intervals"));
    }
    verdict.lines.push(format!(
        "left: {} sessions, {} publications, {} subscriptions, {} cached bytes",
        end.sessions, end.publications, end.subscriptions, end.cached
    ));
    if !end.is_empty() {
        verdict.failures.push("the handler kept state of participants that left".to_owned());
    }
    verdict
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(grow: f64, stuck_at: Option<usize>) -> Vec<Sample> {
        let received = |at: usize| if stuck_at == Some(at) { at as u64 * 100 - 100 } else { at as u64 * 100 };
        (0..30)
            .map(|at| Sample {
                resident: 50e6 + at as f64 * grow,
                forwarded: at as f64 * 1_500.0,
                cached: 1e5,
                received: received(at),
                people: 20,
            })
            .collect()
    }

    #[test]
    fn growth_stuck_subscriptions_and_leftovers_fail() {
        let clean = End { resident: 40e6, ..End::default() };
        assert!(judge(&samples(1e4, None), &clean).failures.is_empty());
        for (samples, end, word) in [
            (samples(1e6, None), clean, "memory"),
            (samples(0.0, Some(7)), clean, "received nothing"),
            (samples(0.0, None), End { publications: 1.0, ..clean }, "kept state"),
            (Vec::new(), clean, "too few"),
        ] {
            let failures = judge(&samples, &end).failures;
            assert!(failures.len() == 1 && failures[0].contains(word), "{failures:?}");
        }
    }
}
