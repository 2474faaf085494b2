//! What goes wrong, when, and for how long: all of it from one seed.

use std::fmt;
use std::time::Duration;

use tenure_testkit::Direction;

/// Numbers from a seed: the same seed, the same numbers, on every machine.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// SeededRng for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    /// A time from `least` to `most`.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_micros() as u64;
        least + Duration::from_micros(self.below(span + 1))
    }
}

/// Something bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A holder stands still (`SIGSTOP`).
    StopHolder(usize),
    /// A holder is gone (`kill -9`); another life of it starts at the end.
    KillHolder(usize),
    /// The server stands still.
    StopServer,
    /// The server is gone; it is started again at the end.
    KillServer,
    /// All connections of a holder are reset at once.
    Cut(usize),
    /// Bytes of one direction come later.
    Delay(usize, Direction, Duration),
    /// Bytes of one direction stop, and none is lost.
    Stall(usize, Direction),
    /// Bytes of one direction are thrown away; the connections are reset at the end.
    Lose(usize, Direction),
    /// Connections of a holder are reset and no new ones are taken.
    Refuse(usize),
    /// The next answer to a holder is cut off after the server acted.
    CutReply(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A fault from one moment to another, both counted from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// When it begins.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
    /// What it is.
    pub fault: Fault,
}

/// The faults of a run of `length` with so many holders, in the order of their beginnings. All are over at `length`.
pub fn plan(seed: u64, length: Duration, holders: usize, ttl: Duration) -> Vec<Step> {
    let mut rng = SeededRng::new(seed);
    let mut steps = Vec::new();
    let mut kinds = Vec::new();
    let mut server_up = Duration::ZERO;
    let mut from = Duration::from_millis(500);
    while from < length {
        if kinds.is_empty() {
            kinds = round(&mut rng);
        }
        let fault = fault(kinds.pop().unwrap_or(0), &mut rng, holders, ttl);
        let lasts = match fault {
            Fault::Cut(_) | Fault::CutReply(_) => Duration::ZERO,
            // From a hiccup to well past the deadline, so that both sides of it are met.
            Fault::StopHolder(_) | Fault::Stall(..) | Fault::Lose(..) | Fault::Refuse(_) => {
                rng.time(ttl / 5, ttl * 5 / 2)
            }
            Fault::KillHolder(_) => rng.time(Duration::ZERO, ttl),
            Fault::StopServer | Fault::KillServer | Fault::Delay(..) => rng.time(ttl / 10, ttl * 3 / 2),
        };
        if matches!(fault, Fault::StopServer | Fault::KillServer) {
            // A server that is gone cannot be stopped.
            from = from.max(server_up);
            server_up = from + lasts + ttl / 10;
        }
        steps.push(Step { from, until: (from + lasts).min(length), fault });
        from += rng.time(ttl / 10, ttl * 2 / 3);
    }
    steps
}

/// The numbers of kinds, as often as each has its turn in a round, in a random order: every round of faults has every
/// kind, also the rare ones.
fn round(rng: &mut SeededRng) -> Vec<u64> {
    let mut kinds: Vec<u64> = (0..20).collect();
    for last in (1..kinds.len()).rev() {
        kinds.swap(last, rng.below(last as u64 + 1) as usize);
    }
    kinds
}

fn fault(kind: u64, rng: &mut SeededRng, holders: usize, ttl: Duration) -> Fault {
    let who = rng.below(holders as u64) as usize;
    let way = if rng.below(2) == 0 { Direction::ToServer } else { Direction::ToClient };
    match kind {
        0..=4 => Fault::StopHolder(who),
        5..=7 => Fault::KillHolder(who),
        8 => Fault::StopServer,
        9 => Fault::KillServer,
        10 | 11 => Fault::Cut(who),
        12 | 13 => Fault::Delay(who, way, rng.time(ttl / 50, ttl / 2)),
        14 | 15 => Fault::Stall(who, way),
        16 => Fault::Lose(who, way),
        17 => Fault::Refuse(who),
        _ => Fault::CutReply(who),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(1_500);

    fn of(seed: u64) -> Vec<Step> {
        plan(seed, Duration::from_secs(60), 4, TTL)
    }

    #[test]
    fn one_seed_is_one_plan() {
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn every_fault_ends_and_some_stops_reach_past_the_ttl() {
        let steps: Vec<Step> = (0..20).flat_map(of).collect();
        assert!(steps.iter().all(|s| s.from <= s.until && s.until <= Duration::from_secs(60)));
        let stops = steps.iter().filter(|s| matches!(s.fault, Fault::StopHolder(_)));
        let (long, short): (Vec<&Step>, Vec<&Step>) = stops.partition(|s| s.until - s.from > TTL);
        assert!(long.len() > 20 && short.len() > 20, "{} {}", long.len(), short.len());
    }

    #[test]
    fn a_server_is_up_when_it_is_stopped_or_killed() {
        let is_server = |step: &Step| matches!(step.fault, Fault::StopServer | Fault::KillServer);
        for seed in 0..20 {
            let steps: Vec<Step> = of(seed).into_iter().filter(is_server).collect();
            assert!(steps.windows(2).all(|pair| pair[0].until <= pair[1].from), "{steps:?}");
        }
    }

    #[test]
    fn every_kind_of_fault_has_its_turn_within_twenty() {
        for seed in 0..20 {
            let steps = of(seed);
            let kinds: std::collections::HashSet<_> =
                steps.iter().take(20).map(|step| std::mem::discriminant(&step.fault)).collect();
            assert_eq!(kinds.len(), 10);
        }
    }
}
