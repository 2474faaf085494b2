//! What the holder of a key may do.

use super::{ActiveReign, Entry};
use crate::breaks::{Break, broken};
use crate::{Digest, End, Fence, Generation, HighWaterMark, Mode, Tick, Verified};

/// Whether this reign may be renewed at `now`; if not, why it ended as far as the entry shows.
///
/// `None` in the error means that the reign is not in the entry: the history has the reason.
pub fn renew(entry: &Entry, digest: &Digest, generation: Generation, now: Tick) -> Result<(), Option<End>> {
    match &entry.state {
        super::State::Held(reign) if matches(reign, digest, Some(generation)) => {
            let late = broken(Break::RenewLate) || broken(Break::SweeperOnly);
            match now < reign.expires || late {
                true => Ok(()),
                false => Err(Some(End::Expired)),
            }
        }
        _ => Err(None),
    }
}

/// Whether this token holds the key at `now` and may release it.
pub fn release(entry: &Entry, digest: &Digest, generation: Option<Generation>, now: Tick) -> bool {
    entry.live(now).is_some_and(|reign| {
        matches(reign, digest, generation) || (generation.is_none() && broken(Break::ReleaseUnchecked))
    })
}

/// Whether this token holds the key at `now` and may transfer it. The engine checks that the successor is parked.
pub fn transfer(entry: &Entry, digest: &Digest, generation: Generation, now: Tick) -> bool {
    release(entry, digest, Some(generation), now)
}

/// Verifies a token at `now`; `known` says whether it reigned or was released before.
pub fn verify(entry: &Entry, digest: &Digest, known: bool, now: Tick) -> Verified {
    match &entry.state {
        super::State::Held(reign) if reign.digest == *digest => match now < reign.expires {
            true => Verified::Live { generation: reign.generation, remaining: reign.expires.since(now) },
            false => Verified::Ended,
        },
        _ if known => Verified::Ended,
        _ => Verified::Wrong,
    }
}

/// Whether a fenced write is admitted; if not, the generation that prevents it.
pub fn fence(
    entry: &Entry,
    fence: &Fence,
    mark: Option<&HighWaterMark>,
    now: Tick,
) -> Result<(), Option<Generation>> {
    if broken(Break::FenceBlind) {
        return Ok(());
    }
    match fence.mode {
        Mode::Strict => match release(entry, fence.token.digest(), Some(fence.generation), now) {
            true => Ok(()),
            false => Err(entry.last),
        },
        Mode::Monotonic => {
            let next = HighWaterMark::new(fence.generation, fence.token.digest());
            match HighWaterMark::admits(mark, &next) {
                true => Ok(()),
                false => Err(mark.map(HighWaterMark::generation)),
            }
        }
    }
}

fn matches(reign: &ActiveReign, digest: &Digest, generation: Option<Generation>) -> bool {
    generation.is_none_or(|g| g == reign.generation) && reign.digest == *digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::rules::State;
    use crate::rules::fixture::{at, generation, held, token};

    #[test]
    fn only_the_live_reign_itself_is_renewed() {
        let free = Entry { state: State::Free, ..held() };
        let table = [
            (held(), 1, 7, 999, Ok(())),
            (held(), 1, 7, 1_000, Err(Some(End::Expired))),
            (held(), 2, 7, 0, Err(None)),
            (held(), 1, 6, 0, Err(None)),
            (free, 1, 7, 0, Err(None)),
        ];
        for (i, (entry, n, g, now, expected)) in table.into_iter().enumerate() {
            assert_eq!(renew(&entry, token(n).digest(), generation(g), at(now)), expected, "row {i}");
        }
    }

    #[test]
    fn release_needs_the_token_and_takes_the_generation_if_given() {
        let table = [
            (1, None, 0, true),
            (1, Some(7), 0, true),
            (1, Some(6), 0, false),
            (2, None, 0, false),
            (2, Some(7), 0, false),
            (1, None, 1_000, false),
        ];
        for (i, (n, g, now, expected)) in table.into_iter().enumerate() {
            let released = release(&held(), token(n).digest(), g.map(generation), at(now));
            assert_eq!(released, expected, "row {i}");
        }
        assert!(transfer(&held(), token(1).digest(), generation(7), at(0)));
        assert!(!transfer(&held(), token(1).digest(), generation(8), at(0)));
    }

    #[test]
    fn verify_tells_live_from_ended_from_wrong() {
        let live = Verified::Live { generation: generation(7), remaining: at(600).since(at(0)) };
        assert_eq!(verify(&held(), token(1).digest(), false, at(400)), live);
        assert_eq!(verify(&held(), token(1).digest(), false, at(1_000)), Verified::Ended);
        assert_eq!(verify(&held(), token(2).digest(), true, at(0)), Verified::Ended);
        assert_eq!(verify(&held(), token(2).digest(), false, at(0)), Verified::Wrong);
    }

    #[test]
    fn a_strict_fence_needs_a_live_lease_and_a_monotonic_one_a_mark_that_is_not_higher() {
        let with =
            |mode, g| Fence { key: Key::new("k").unwrap(), token: token(1), generation: generation(g), mode };
        let strict = with(Mode::Strict, 7);
        assert_eq!(fence(&held(), &strict, None, at(0)), Ok(()));
        assert_eq!(fence(&held(), &strict, None, at(1_000)), Err(Some(generation(7))));
        assert_eq!(fence(&held(), &with(Mode::Strict, 6), None, at(0)), Err(Some(generation(7))));
        let mark = HighWaterMark::new(generation(8), token(2).digest());
        assert_eq!(fence(&held(), &with(Mode::Monotonic, 7), None, at(1_000)), Ok(()));
        assert_eq!(fence(&held(), &with(Mode::Monotonic, 7), Some(&mark), at(0)), Err(Some(generation(8))));
        assert_eq!(fence(&held(), &with(Mode::Monotonic, 9), Some(&mark), at(0)), Ok(()));
    }
}
