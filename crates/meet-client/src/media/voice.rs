//! The packets of one audio track: doubles are dropped, losses are counted. Pure.

use std::time::Duration;

use super::limits;

/// Packets behind the newest one that can still be told from doubles.
const WINDOW: u64 = 64;

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// New. `lost` packets before it are missing so far, and `previous` says that the one right before it is.
    New { lost: u64, previous: bool },
    /// Missing until now.
    Filled,
    /// Came before, or is too old to be told from one that did.
    Double,
}

/// Follows one track.
#[derive(Debug)]
pub(super) struct Voice {
    pub(super) incarnation: u64,
    newest: Option<(u64, u64)>,
    /// Bit n: the packet n before the newest one came, or is not expected.
    seen: u64,
}

impl Voice {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, newest: None, seen: 0 }
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, sequence: u64, timestamp_us: u64) -> Arrival {
        let Some((newest, newest_us)) = self.newest else {
            return self.begin(sequence, timestamp_us);
        };
        if sequence <= newest {
            return self.fill(newest - sequence);
        }
        let pause = Duration::from_micros(timestamp_us.saturating_sub(newest_us));
        let gap = sequence - newest - 1;
        if gap > 0 && pause > limits::TALK_SPURT {
            // The track was not selected, or nothing was said.
            return self.begin(sequence, timestamp_us);
        }
        self.seen = if gap + 1 < WINDOW { self.seen << (gap + 1) | 1 } else { 1 };
        self.newest = Some((sequence, timestamp_us));
        Arrival::New { lost: gap, previous: gap > 0 }
    }

    fn begin(&mut self, sequence: u64, timestamp_us: u64) -> Arrival {
        (self.newest, self.seen) = (Some((sequence, timestamp_us)), u64::MAX);
        Arrival::New { lost: 0, previous: false }
    }

    fn fill(&mut self, behind: u64) -> Arrival {
        if behind >= WINDOW || self.seen >> behind & 1 == 1 {
            return Arrival::Double;
        }
        self.seen |= 1 << behind;
        Arrival::Filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Arrival = Arrival::New { lost: 0, previous: false };

    fn take(voice: &mut Voice, sequence: u64) -> Arrival {
        voice.take(sequence, sequence * 20_000)
    }

    #[test]
    fn packets_of_two_sessions_count_once() {
        let mut voice = Voice::new(1);
        for sequence in 10..20 {
            assert_eq!(take(&mut voice, sequence), NEW);
            assert_eq!(take(&mut voice, sequence), Arrival::Double);
        }
        assert_eq!(take(&mut voice, 9), Arrival::Double, "before the first one");
    }

    #[test]
    fn a_gap_is_a_loss_until_it_is_filled() {
        let mut voice = Voice::new(1);
        assert_eq!(take(&mut voice, 1), NEW);
        assert_eq!(take(&mut voice, 4), Arrival::New { lost: 2, previous: true });
        assert_eq!(take(&mut voice, 3), Arrival::Filled);
        assert_eq!(take(&mut voice, 3), Arrival::Double);
        assert_eq!(take(&mut voice, 2), Arrival::Filled);
        assert_eq!(take(&mut voice, 5), NEW);
    }

    #[test]
    fn a_long_pause_is_no_loss() {
        let mut voice = Voice::new(1);
        assert_eq!(voice.take(1, 0), NEW);
        assert_eq!(voice.take(50, 1_000_000), NEW);
        assert_eq!(voice.take(51, 3_000_000), NEW, "contiguous with a jump in time is silence");
        assert_eq!(voice.take(40, 900_000), Arrival::Double);
    }
}
