//! The order in which the frames of a subscription go to a decoder. Pure.

use super::session::SessionId;

/// A group as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupKey {
    pub(super) session: SessionId,
    pub(super) incarnation: u64,
    pub(super) rendition: u8,
    pub(super) group: u64,
    /// The timestamp of its first frame.
    pub(super) began_us: u64,
}

impl GroupKey {
    /// Whether two sessions carry the same group.
    fn is_copy_of(&self, other: &Self) -> bool {
        (self.incarnation, self.rendition, self.group) == (other.incarnation, other.rendition, other.group)
    }
}

/// What to do with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Take {
    /// Pass it on. `repeat` says that its time was passed on before: decode it, but do not show it.
    Frame { repeat: bool },
    /// It is a copy of one that was passed on.
    Double,
    /// Its group is behind the one that is passed on: none of its frames is needed.
    Stale,
}

/// Follows one subscription. Groups overlap while the subscriber changes to another group, rendition or session.
#[derive(Default, Debug)]
pub(super) struct GroupOrder {
    current: Option<GroupKey>,
    newest_us: Option<u64>,
}

impl GroupOrder {
    /// Takes a frame of a group. `active` is the session that carries media now.
    pub(super) fn take(&mut self, group: GroupKey, timestamp_us: u64, active: Option<SessionId>) -> Take {
        let is_repeat = self.newest_us.is_some_and(|newest| timestamp_us <= newest);
        match self.current {
            Some(current) if group.is_copy_of(&current) => {
                if is_repeat && group.session != current.session {
                    return Take::Double;
                }
                self.current = Some(group);
            }
            Some(current) if group.incarnation > current.incarnation => {
                // The publisher began again, with a clock of its own.
                *self = Self { current: Some(group), newest_us: None };
            }
            Some(current) => {
                let is_newer = group.incarnation == current.incarnation && group.began_us > current.began_us;
                let took_over = active == Some(group.session) && active != Some(current.session);
                if !is_newer && !took_over {
                    return Take::Stale;
                }
                self.current = Some(group);
            }
            None => self.current = Some(group),
        }
        let repeat = self.newest_us.is_some_and(|newest| timestamp_us <= newest);
        self.newest_us = Some(self.newest_us.unwrap_or_default().max(timestamp_us));
        Take::Frame { repeat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Take = Take::Frame { repeat: false };
    const REPEAT: Take = Take::Frame { repeat: true };

    fn group(session: SessionId, rendition: u8, group: u64, began_us: u64) -> GroupKey {
        GroupKey { session, incarnation: 1, rendition, group, began_us }
    }

    #[test]
    fn a_newer_group_ends_an_older_one() {
        let mut order = GroupOrder::default();
        let (first, second) = (group(1, 0, 1, 0), group(1, 1, 2, 100));
        assert_eq!(order.take(first, 0, Some(1)), NEW);
        assert_eq!(order.take(first, 33, Some(1)), NEW);
        assert_eq!(order.take(second, 100, Some(1)), NEW);
        assert_eq!(order.take(first, 66, Some(1)), Take::Stale);
        assert_eq!(order.take(second, 133, Some(1)), NEW);
    }

    #[test]
    fn a_group_that_two_sessions_carry_is_passed_on_once() {
        let mut order = GroupOrder::default();
        let (one, two) = (group(1, 0, 7, 0), group(2, 0, 7, 0));
        for at in [0, 33, 66] {
            assert_eq!(order.take(one, at, Some(1)), NEW);
        }
        for at in [0, 33, 66] {
            assert_eq!(order.take(two, at, Some(2)), Take::Double);
        }
        assert_eq!(order.take(two, 99, Some(2)), NEW);
    }

    #[test]
    fn after_a_takeover_an_older_group_is_decoded_up_to_the_present() {
        let mut order = GroupOrder::default();
        assert_eq!(order.take(group(1, 2, 9, 500), 500, Some(1)), NEW);
        let low = group(2, 0, 8, 400);
        assert_eq!(order.take(low, 400, Some(1)), Take::Stale, "its session is not active");
        assert_eq!(order.take(low, 400, Some(2)), REPEAT);
        assert_eq!(order.take(low, 500, Some(2)), REPEAT);
        assert_eq!(order.take(low, 533, Some(2)), NEW);
    }

    #[test]
    fn a_publisher_that_began_again_replaces_its_earlier_stream() {
        let mut order = GroupOrder::default();
        assert_eq!(order.take(group(1, 0, 9, 5_000), 5_000, Some(1)), NEW);
        let again = GroupKey { incarnation: 2, ..group(1, 0, 1, 10) };
        assert_eq!(order.take(again, 10, Some(1)), NEW);
        assert_eq!(order.take(group(1, 0, 10, 6_000), 6_000, Some(1)), Take::Stale);
    }
}
