//! Which session carries media. Pure.

use std::time::Duration;

use super::limits;
use super::session::SessionId;

/// A session as the decision sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) id: SessionId,
    /// Welcomed, as opposed to still connecting.
    pub(super) open: bool,
    /// Dialed as standby: it carries media only after Activate.
    pub(super) standby: bool,
    /// The handler announced that it goes away.
    pub(super) leaving: bool,
    /// The time since the last byte.
    pub(super) silent: Duration,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    Keep,
    /// This session becomes active.
    Use(SessionId),
    /// This session is silent for too long.
    Close(SessionId),
}

/// Decides which session is active. `sessions` are in the order in which they were dialed.
pub(super) fn decide(active: Option<SessionId>, sessions: &[Candidate]) -> Decision {
    let Some(active) = active.and_then(|id| sessions.iter().find(|it| it.id == id)) else {
        return elect(sessions);
    };
    let backup = sessions
        .iter()
        .find(|it| it.id != active.id && it.open && !it.leaving && it.silent <= limits::SILENCE);
    match backup {
        Some(backup) if active.leaving || active.silent > limits::SILENCE => Decision::Use(backup.id),
        _ if active.silent > limits::LONE_SILENCE => Decision::Close(active.id),
        _ => Decision::Keep,
    }
}

/// Without an active session: the one that was not dialed as standby, unless it cannot be had.
fn elect(sessions: &[Candidate]) -> Decision {
    let open = || sessions.iter().filter(|it| it.open && !it.leaving);
    let first_dials = sessions.iter().any(|it| !it.open && !it.standby);
    match open().find(|it| !it.standby).or_else(|| open().next().filter(|_| !first_dials)) {
        Some(session) => Decision::Use(session.id),
        None => Decision::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: SessionId, standby: bool, silent_ms: u64) -> Candidate {
        Candidate { id, open: true, standby, leaving: false, silent: Duration::from_millis(silent_ms) }
    }

    fn dialing(id: SessionId, standby: bool) -> Candidate {
        Candidate { open: false, ..session(id, standby, 0) }
    }

    #[test]
    fn the_backup_takes_over_from_a_silent_or_leaving_session() {
        let leaving = |it: Candidate| Candidate { leaving: true, ..it };
        let table = [
            (vec![session(1, false, 350), session(2, true, 0)], Decision::Keep),
            (vec![session(1, false, 351), session(2, true, 100)], Decision::Use(2)),
            (vec![session(1, false, 351), session(2, true, 400)], Decision::Keep),
            (vec![session(1, false, 351), dialing(2, true)], Decision::Keep),
            (vec![leaving(session(1, false, 0)), session(2, true, 0)], Decision::Use(2)),
            (vec![leaving(session(1, false, 0))], Decision::Keep),
            (vec![session(1, false, 400), leaving(session(2, true, 0))], Decision::Keep),
            (vec![session(1, false, 5_001)], Decision::Close(1)),
            (vec![session(1, false, 5_001), session(2, true, 6_000)], Decision::Close(1)),
        ];
        for (sessions, expected) in table {
            assert_eq!(decide(Some(1), &sessions), expected, "{sessions:?}");
        }
    }

    #[test]
    fn the_first_active_session_is_the_primary_unless_it_cannot_be_had() {
        let table = [
            (vec![dialing(1, false), session(2, true, 0)], Decision::Keep),
            (vec![session(1, false, 0), session(2, true, 0)], Decision::Use(1)),
            (vec![session(2, true, 0)], Decision::Use(2)),
            (vec![session(2, true, 0), dialing(3, true)], Decision::Use(2)),
            (vec![], Decision::Keep),
        ];
        for (sessions, expected) in table {
            assert_eq!(decide(None, &sessions), expected, "{sessions:?}");
        }
    }
}
