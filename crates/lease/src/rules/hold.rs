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
///
/// `reigned` says whether the history shows a reign of this token with this generation. A monotonic fence that neither
/// the history nor the entry proves must not raise the mark: an invented generation would fence the holders out.
pub fn fence(
    entry: &Entry,
    fence: &Fence,
    reigned: bool,
    mark: Option<&HighWaterMark>,
    now: Tick,
) -> Result<(), Option<Generation>> {
    if broken(Break::FenceBlind) {
        return Ok(());
    }
    let proven = reigned || is_running(entry, fence) || broken(Break::AcceptsInventedFence);
    match fence.mode {
        Mode::Strict => match release(entry, fence.token.digest(), Some(fence.generation), now) {
            true => Ok(()),
            false => Err(entry.last),
        },
        Mode::Monotonic if !proven => Err(mark.map(HighWaterMark::generation).or(entry.last)),
        Mode::Monotonic => {
            let next = HighWaterMark::new(fence.generation, fence.token.digest());
            match HighWaterMark::admits(mark, &next) {
                true => Ok(()),
                false => Err(mark.map(HighWaterMark::generation)),
            }
        }
    }
}

/// Whether the fence names the reign in the entry, which may have expired.
fn is_running(entry: &Entry, fence: &Fence) -> bool {
    match &entry.state {
        super::State::Held(reign) => matches(reign, fence.token.digest(), Some(fence.generation)),
        _ => false,
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

    fn with(mode: Mode, g: u64) -> Fence {
        Fence { key: Key::new("k").unwrap(), token: token(1), generation: generation(g), mode }
    }

    #[test]
    fn a_strict_fence_needs_a_live_lease_and_a_monotonic_one_a_mark_that_is_not_higher() {
        let strict = with(Mode::Strict, 7);
        assert_eq!(fence(&held(), &strict, false, None, at(0)), Ok(()));
        assert_eq!(fence(&held(), &strict, false, None, at(1_000)), Err(Some(generation(7))));
        assert_eq!(fence(&held(), &with(Mode::Strict, 6), true, None, at(0)), Err(Some(generation(7))));
        let mark = Some(HighWaterMark::new(generation(8), token(2).digest()));
        let monotonic = |g, reigned, mark: &Option<HighWaterMark>, now| {
            fence(&held(), &with(Mode::Monotonic, g), reigned, mark.as_ref(), at(now))
        };
        assert_eq!(monotonic(7, false, &None, 1_000), Ok(()));
        assert_eq!(monotonic(7, false, &mark, 0), Err(Some(generation(8))));
        assert_eq!(monotonic(9, true, &mark, 0), Ok(()));
    }

    #[test]
    fn a_monotonic_fence_must_be_proven_by_the_running_reign_or_the_history() {
        let free = Entry { state: State::Free, ..held() };
        let mark = HighWaterMark::new(generation(6), token(2).digest());
        let other = Fence { token: token(2), ..with(Mode::Monotonic, 7) };
        let table = [
            (held(), with(Mode::Monotonic, 7), false, None, Ok(())),
            (held(), with(Mode::Monotonic, 8), false, None, Err(Some(generation(7)))),
            (held(), with(Mode::Monotonic, 8), false, Some(&mark), Err(Some(generation(6)))),
            (held(), other, false, None, Err(Some(generation(7)))),
            (free.clone(), with(Mode::Monotonic, 7), false, None, Err(Some(generation(7)))),
            (free, with(Mode::Monotonic, 7), true, None, Ok(())),
            (Entry::default(), with(Mode::Monotonic, 7), false, None, Err(None)),
        ];
        for (i, (entry, tried, reigned, mark, expected)) in table.into_iter().enumerate() {
            assert_eq!(fence(&entry, &tried, reigned, mark, at(0)), expected, "row {i}");
        }
    }
}
