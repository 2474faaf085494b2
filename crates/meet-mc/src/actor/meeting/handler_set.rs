//! Which media handlers of a meeting to replace, and by which: pure decisions.

use std::collections::{BTreeSet, HashMap};

use crate::actor::limits;
use crate::actor::remote::{RegisterOutcome, ReplaceReason};
use crate::meeting::HandlerInfo;

/// What is known of one handler.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct HandlerHealth {
    /// Registrations without an answer since the last answer.
    missed: u32,
    /// It is full or draining.
    refused: bool,
    /// Users whose connection to it failed.
    reported: BTreeSet<String>,
}

/// What is known of the handlers of a meeting, by id.
pub(super) type HandlerHealths = HashMap<String, HandlerHealth>;

impl HandlerHealth {
    /// Records the outcome of a registration with this many attempts.
    pub(super) fn record(&mut self, outcome: RegisterOutcome, attempts: usize) {
        self.refused = outcome == RegisterOutcome::Refused;
        let failed = match attempts {
            1 => self.missed.saturating_add(1),
            _ => limits::MISSED_RENEWALS,
        };
        self.missed = if outcome == RegisterOutcome::Failed { failed } else { 0 };
    }

    /// Records whether a user is connected to the handler. Returns whether that is news.
    pub(super) fn report(&mut self, user: &str, connected: bool) -> bool {
        match connected {
            true => self.reported.remove(user),
            false => self.reported.insert(user.to_owned()),
        }
    }

    /// Why the handler must be replaced, if it must. One user's report counts only together with a missed registration:
    /// its own network may be the cause. The reports of most users count alone.
    fn replace(&self, users: usize) -> Option<ReplaceReason> {
        let lost = self.missed >= limits::MISSED_RENEWALS
            || (self.missed > 0 && !self.reported.is_empty())
            || (!self.reported.is_empty() && self.reported.len() * 2 > users);
        match (self.refused, lost) {
            (true, _) => Some(ReplaceReason::Refused),
            (false, true) => Some(ReplaceReason::Unreachable),
            (false, false) => None,
        }
    }
}

/// The handlers to replace, and why. `users` is the number of connected users.
pub(super) fn to_replace(
    handlers: &[HandlerInfo],
    healths: &HandlerHealths,
    users: usize,
) -> Option<(Vec<String>, ReplaceReason)> {
    let reasons = handlers
        .iter()
        .filter_map(|handler| Some((handler.id.clone(), healths.get(&handler.id)?.replace(users)?)));
    let (failed, reasons): (Vec<String>, Vec<ReplaceReason>) = reasons.unzip();
    let refused = reasons.contains(&ReplaceReason::Refused);
    let reason = if refused { ReplaceReason::Refused } else { ReplaceReason::Unreachable };
    (!failed.is_empty()).then_some((failed, reason))
}

/// The handlers after a replacement: those that stay come first, and new ones are backups. None if nothing would
/// change.
pub(super) fn replaced(
    current: &[HandlerInfo],
    failed: &[String],
    offered: Vec<HandlerInfo>,
) -> Option<Vec<HandlerInfo>> {
    let mut handlers: Vec<HandlerInfo> =
        current.iter().filter(|handler| !failed.contains(&handler.id)).cloned().collect();
    let new = offered.into_iter().filter(|new| current.iter().all(|known| known.id != new.id));
    let new: Vec<HandlerInfo> = new.take(failed.len()).collect();
    if new.is_empty() {
        return None;
    }
    handlers.extend(new);
    for (index, handler) in handlers.iter_mut().enumerate() {
        handler.primary = index == 0;
    }
    Some(handlers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registrations with their attempts, users that report a failure, and what follows with five users.
    type Case = (&'static [(RegisterOutcome, usize)], &'static [&'static str], Option<ReplaceReason>);

    fn handler(id: &str, primary: bool) -> HandlerInfo {
        HandlerInfo {
            id: id.to_owned(),
            webtransport_endpoint: format!("https://{id}"),
            grpc_endpoint: format!("inproc:{id}"),
            primary,
            certificates: Vec::new(),
        }
    }

    fn ids(handlers: &[HandlerInfo]) -> Vec<(&str, bool)> {
        handlers.iter().map(|handler| (handler.id.as_str(), handler.primary)).collect()
    }

    #[test]
    fn a_handler_is_replaced_when_it_is_lost_and_not_because_one_user_says_so() {
        use RegisterOutcome::{Accepted, Failed, Refused, Stale};
        let lost = Some(ReplaceReason::Unreachable);
        let table: [Case; 11] = [
            (&[(Accepted, 3)], &[], None),
            (&[(Stale, 3)], &[], None),
            (&[(Refused, 3)], &[], Some(ReplaceReason::Refused)),
            (&[(Failed, 3)], &[], lost),
            (&[(Failed, 1)], &[], None),
            (&[(Failed, 1), (Failed, 1)], &[], lost),
            (&[(Failed, 1), (Accepted, 1), (Failed, 1)], &[], None),
            (&[(Accepted, 1)], &["ada"], None),
            (&[(Failed, 1)], &["ada"], lost),
            (&[(Accepted, 1)], &["ada", "bob"], None),
            (&[(Accepted, 1)], &["ada", "bob", "cyd"], lost),
        ];
        for (outcomes, reports, expected) in table {
            let mut health = HandlerHealth::default();
            outcomes.iter().for_each(|(outcome, attempts)| health.record(*outcome, *attempts));
            reports.iter().for_each(|user| assert!(health.report(user, false)));
            assert_eq!(health.replace(5), expected, "{outcomes:?} {reports:?}");
        }
    }

    #[test]
    fn a_user_reports_once_and_takes_its_report_back() {
        let mut health = HandlerHealth::default();
        assert!(health.report("ada", false) && !health.report("ada", false));
        assert!(health.report("ada", true) && !health.report("ada", true));
        assert_eq!(health, HandlerHealth::default());
    }

    #[test]
    fn the_handler_that_stays_becomes_primary_and_the_new_one_backup() {
        let current = [handler("a", true), handler("b", false)];
        let failed = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let offered = || vec![handler("b", true), handler("c", true), handler("d", false)];
        let next = replaced(&current, &failed(&["a"]), offered()).unwrap();
        assert_eq!(ids(&next), [("b", true), ("c", false)]);
        let next = replaced(&current, &failed(&["b"]), offered()).unwrap();
        assert_eq!(ids(&next), [("a", true), ("c", false)]);
        let next = replaced(&current, &failed(&["a", "b"]), offered()).unwrap();
        assert_eq!(ids(&next), [("c", true), ("d", false)]);
        assert_eq!(replaced(&current, &failed(&["a"]), vec![handler("b", true)]), None);
    }

    #[test]
    fn handlers_without_news_are_not_replaced() {
        let current = [handler("a", true), handler("b", false)];
        let mut healths = HandlerHealths::new();
        assert_eq!(to_replace(&current, &healths, 5), None);
        healths.entry("b".to_owned()).or_default().record(RegisterOutcome::Refused, 3);
        let expected = (vec!["b".to_owned()], ReplaceReason::Refused);
        assert_eq!(to_replace(&current, &healths, 5), Some(expected));
    }
}
