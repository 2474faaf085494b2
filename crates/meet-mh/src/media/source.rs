//! Which copy of a stream a handler forwards: the one that is published here, or one that another handler offers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_lease::Tick;

use super::track::Version;

/// A local copy that moved within this time is preferred.
const MOVES: Duration = Duration::from_millis(300);

/// Where a stream comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// A session at this handler.
    Local,
    /// The copy of another handler, by its place.
    Relayed(usize),
}

/// When the last bytes of a copy arrived.
#[derive(Debug, Default)]
pub(crate) struct Moved(AtomicU64);

impl Moved {
    pub(crate) fn mark(&self, now: Tick) {
        self.0.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    fn moves(&self, now: Tick) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at > 0 && now.since(Tick::from_nanos(at)) <= MOVES
    }
}

/// Chooses between the local copy and those of other handlers, which are ordered by their offers. The greatest version
/// wins; of equal ones the local copy if it moves, else the last offer.
pub(crate) fn choose_source(
    local: Option<(Version, &Moved)>,
    relayed: impl IntoIterator<Item = Version>,
    now: Tick,
) -> Option<Source> {
    // The last of equal ones is the greatest.
    let best = relayed.into_iter().enumerate().max_by_key(|(_, version)| *version);
    match (local, best) {
        (None, None) => None,
        (Some(_), None) => Some(Source::Local),
        (Some((version, _)), Some((_, other))) if version > other => Some(Source::Local),
        (Some((version, moved)), Some((_, other))) if version == other && moved.moves(now) => {
            Some(Source::Local)
        }
        (_, Some((at, _))) => Some(Source::Relayed(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(epoch: u64, incarnation: u64) -> Version {
        Version { epoch, incarnation }
    }

    #[test]
    fn the_greatest_version_wins_and_of_equal_ones_the_local_copy_while_it_moves() {
        use Source::{Local, Relayed};
        let (one, two, three) = (version(1, 9), version(2, 1), version(2, 2));
        let now = Tick::from_nanos(1_000_000_000);
        let (still, moves) = (Moved::default(), Moved::default());
        moves.mark(Tick::from_nanos(700_000_000));
        let stopped = Moved::default();
        stopped.mark(Tick::from_nanos(699_000_000));
        for (name, local, relayed, chosen) in [
            ("there is none", None, vec![], None),
            ("only the local one", Some((one, &still)), vec![], Some(Local)),
            ("only a relayed one", None, vec![one], Some(Relayed(0))),
            ("the local one moves", Some((two, &moves)), vec![two], Some(Local)),
            ("the local one stopped", Some((two, &stopped)), vec![two], Some(Relayed(0))),
            ("the local one never moved", Some((two, &still)), vec![two], Some(Relayed(0))),
            ("the relayed one is newer", Some((two, &moves)), vec![three], Some(Relayed(0))),
            ("the local one is newer", Some((three, &still)), vec![two], Some(Local)),
            ("the last offer of equal ones", None, vec![two, two, one], Some(Relayed(1))),
            ("a greater epoch counts more", None, vec![two, one], Some(Relayed(0))),
        ] {
            assert_eq!(choose_source(local, relayed, now), chosen, "{name}");
        }
    }
}
