//! The decision about a reported controller. Pure: no store, no clock, no network.

use tenure_lease::breaks::{Break, broken};

/// What a probe of a controller found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProbeResult {
    /// It holds the meeting under the reported generation.
    Holds,
    /// It answered and does not hold the meeting under that generation: it was restarted, or lost the meeting.
    Lacks,
    /// It did not answer in time.
    Failed,
}

/// What the probe through another controller found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerProbe {
    /// No other controller is registered.
    NoPeer,
    /// The other controllers that were asked did not answer either.
    Unanswered,
    /// Another controller probed it.
    Found(ProbeResult),
}

/// What both probes found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Evidence {
    pub(crate) own: ProbeResult,
    pub(crate) peer: PeerProbe,
}

/// The reports about one generation of a meeting.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    /// Users that reported.
    pub(crate) reports: u32,
    /// Users that were connected when the controller was lost.
    pub(crate) members: u32,
}

/// What makes evidence of a dead controller doubtful.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Doubts {
    /// Store calls of this global controller failed just now.
    pub(crate) store_failing: bool,
    /// More than half of the region's controllers vanished just now.
    pub(crate) many_vanished: bool,
}

/// What follows for the meeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Another controller takes the lease from the dead one.
    TakeOver,
    /// The controller lives, but its users do not reach it: it moves the meeting.
    Move,
    /// The controller keeps the meeting.
    Stay,
    /// The controller seems dead, but so does this global controller's view: nothing is taken away.
    Suppressed,
}

impl Tally {
    /// Reports needed: more than half, and at least one.
    pub(crate) const fn quorum(self) -> u32 {
        self.members / 2 + 1
    }

    fn has_quorum(self, evidence: Evidence) -> bool {
        let failed =
            evidence.own == ProbeResult::Failed || evidence.peer == PeerProbe::Found(ProbeResult::Failed);
        // Of two users one may be cut off alone: a failed probe is the second voice.
        let two = self.members == 2 && self.reports == 1 && failed;
        two || self.reports >= self.quorum()
    }
}

/// Decides about a reported controller.
pub(crate) fn decide(evidence: Evidence, tally: Tally, doubts: Doubts) -> Verdict {
    let answers = match evidence.peer {
        PeerProbe::Found(found) => [evidence.own, found],
        PeerProbe::NoPeer | PeerProbe::Unanswered => [evidence.own, ProbeResult::Failed],
    };
    if answers.contains(&ProbeResult::Holds) && !broken(Break::TakesFromTheLiving) {
        return if tally.has_quorum(evidence) { Verdict::Move } else { Verdict::Stay };
    }
    let confirmed = matches!(evidence.peer, PeerProbe::Found(_) | PeerProbe::NoPeer);
    match doubts {
        Doubts { store_failing: true, .. } => Verdict::Suppressed,
        // Its own answer leaves no doubt.
        _ if answers.contains(&ProbeResult::Lacks) => Verdict::TakeOver,
        Doubts { many_vanished: true, .. } if !confirmed => Verdict::Suppressed,
        _ => Verdict::TakeOver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PeerProbe::{Found, NoPeer, Unanswered};
    use ProbeResult::{Failed, Holds, Lacks};
    use Verdict::{Move, Stay, Suppressed, TakeOver};

    const WELL: Doubts = Doubts { store_failing: false, many_vanished: false };
    const STORE: Doubts = Doubts { store_failing: true, many_vanished: false };
    const VANISHED: Doubts = Doubts { store_failing: false, many_vanished: true };

    #[test]
    fn a_quorum_is_more_than_half_and_at_least_one() {
        for (members, needed) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (100, 51)] {
            assert_eq!(Tally { reports: 0, members }.quorum(), needed, "{members}");
        }
    }

    #[test]
    fn the_decision_follows_the_table() {
        #[rustfmt::skip]
        let table = [
            // own,   peer,          reports of members, doubts,   verdict
            (Failed, Found(Failed), (1, 10), WELL,     TakeOver),
            (Failed, NoPeer,        (1, 10), WELL,     TakeOver),
            (Failed, Unanswered,    (1, 10), WELL,     TakeOver),
            (Failed, Found(Lacks),  (1, 10), WELL,     TakeOver),
            (Lacks,  NoPeer,        (0, 10), WELL,     TakeOver),
            (Lacks,  Unanswered,    (0, 10), VANISHED, TakeOver),
            (Lacks,  Found(Failed), (0, 10), STORE,    Suppressed),
            (Failed, Found(Failed), (9, 10), STORE,    Suppressed),
            (Failed, Unanswered,    (9, 10), VANISHED, Suppressed),
            (Failed, Found(Failed), (1, 10), VANISHED, TakeOver),
            (Failed, NoPeer,        (1, 10), VANISHED, TakeOver),
            (Holds,  Found(Holds),  (1, 1),  WELL,     Move),
            (Holds,  Found(Holds),  (1, 2),  WELL,     Stay),
            (Holds,  Found(Holds),  (2, 2),  WELL,     Move),
            (Holds,  Found(Failed), (1, 2),  WELL,     Move),
            (Failed, Found(Holds),  (1, 2),  WELL,     Move),
            (Failed, Found(Holds),  (0, 2),  WELL,     Stay),
            (Failed, Found(Holds),  (1, 3),  WELL,     Stay),
            (Holds,  NoPeer,        (2, 3),  WELL,     Move),
            (Holds,  Unanswered,    (2, 4),  WELL,     Stay),
            (Holds,  Unanswered,    (3, 4),  WELL,     Move),
            (Holds,  Found(Lacks),  (0, 4),  WELL,     Stay),
        ];
        for (own, peer, (reports, members), doubts, verdict) in table {
            let (evidence, tally) = (Evidence { own, peer }, Tally { reports, members });
            assert_eq!(decide(evidence, tally, doubts), verdict, "{evidence:?} {tally:?} {doubts:?}");
        }
    }
}
