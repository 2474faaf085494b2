//! From a report to a decision: probe the controller, decide, and give the meeting a new home if it needs one.
//!
//! Concurrent reports about one generation share the probes. A takeover names the generation that it replaces, so any number of global
//! controllers may decide at once: the lease lets one of them win, and the others learn the owner.

use tenure_meet_rpc::Kind;
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::{MigrateMeetingsRequest, MigrationAssignment};

use crate::assign::{Assignment, Owner};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::meetings::Meeting;
use crate::probe::ReportedController;
use crate::reports::Report;
use crate::verdict::{Doubts, Evidence, Tally, Verdict, decide};
use crate::{limits, metric, select};

/// The answer to a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decision {
    pub(crate) tally: Tally,
    /// Whether the meeting leaves the reported controller.
    pub(crate) failover_started: bool,
    /// The home to connect to; none if it is not known yet.
    pub(crate) home: Option<Assignment>,
}

impl GcState {
    /// Counts a report and decides. Takes at most [`limits::DECISION`].
    pub(crate) async fn unreachable(&self, report: Report<'_>) -> Result<Decision, ApiError> {
        let user = self.reporter(report.meeting_id, report.token).await?;
        self.admit_report(&user)?;
        tokio::select! {
            biased;
            decision = self.decide_report(&report, &user) => decision,
            // What was begun goes on without the answer; the next request finds its result.
            () = self.pause(limits::DECISION) => {
                Ok(Decision { tally: Tally::default(), failover_started: false, home: None })
            }
        }
    }

    async fn decide_report(&self, report: &Report<'_>, user: &str) -> Result<Decision, ApiError> {
        let id = MeetingId::parse(report.meeting_id).ok_or(ApiError::NO_MEETING)?;
        let meeting = self.by_id(id.as_str()).await?.meeting;
        let members = self.members(&id).await?;
        if !members.have_seat(user) {
            return Err(ApiError::Forbidden("only participants of the meeting can report".to_owned()));
        }
        let (reported, current) = match self.owner(id.as_str()).await? {
            Owner::There(home) if home.mc_id != report.mc_id => {
                let tally = Tally::default();
                return Ok(Decision { tally, failover_started: false, home: Some(home) });
            }
            Owner::There(home) => (ReportedController::from(&home), Some(home)),
            Owner::Gone { mc_id: Some(mc_id), generation, .. } => (self.reported(&mc_id, generation), None),
            Owner::Gone { mc_id: None, .. } | Owner::Unowned => {
                let home = self.home(&meeting).await?;
                let tally = Tally::default();
                return Ok(Decision { tally, failover_started: true, home: Some(home) });
            }
        };
        let tally = self.count(&id, reported.generation, user, &members, report).await?;
        let evidence = self.evidence(&meeting.id, &reported).await;
        self.act(&meeting, &reported, current, tally, evidence).await
    }

    /// Performs the decision about a controller.
    async fn act(
        &self,
        meeting: &Meeting,
        reported: &ReportedController,
        current: Option<Assignment>,
        tally: Tally,
        evidence: Evidence,
    ) -> Result<Decision, ApiError> {
        let verdict = decide(evidence, tally, self.doubts());
        tracing::warn!(
            mc = reported.mc_id,
            meeting = meeting.id,
            ?verdict,
            "decided about a reported controller"
        );
        let (failover_started, home) = match verdict {
            Verdict::TakeOver => {
                let began = self.clock.now();
                let taken = self.take_over(meeting, reported).await;
                self.record_takeover(&meeting.id, reported, &taken, began).await;
                metric::failed_over(if taken.is_ok() { "taken_over" } else { "failed" });
                (true, taken.inspect_err(|error| warn(meeting, error)).ok())
            }
            Verdict::Move => {
                let moved = self.order_move(meeting, reported).await;
                metric::failed_over(if moved.is_some() { "moved" } else { "not_moved" });
                (moved.is_some(), moved.or(current))
            }
            Verdict::Stay => (false, current),
            Verdict::Suppressed => {
                metric::failed_over("suppressed");
                (false, current)
            }
        };
        Ok(Decision { tally, failover_started, home })
    }

    pub(crate) fn reported(&self, mc_id: &str, generation: u64) -> ReportedController {
        let grpc_endpoint = self.reachability.grpc_endpoint(mc_id);
        ReportedController { mc_id: mc_id.to_owned(), generation, grpc_endpoint }
    }

    fn doubts(&self) -> Doubts {
        let now = self.clock.now();
        let many_vanished = self.reachability.many_vanished(&self.options.rules.region, now);
        Doubts { store_failing: self.store_is_failing(now), many_vanished }
    }

    /// What probes find. Concurrent reports about one generation share them.
    async fn evidence(&self, meeting: &str, reported: &ReportedController) -> Evidence {
        let arrived = self.clock.now();
        let name = format!("{meeting}:{}", reported.generation);
        let flight = self.probes.board(&name);
        let mut last = flight.lock().await;
        let evidence = match *last {
            Some((at, evidence)) if at >= arrived => evidence,
            _ => self.probe(meeting, reported).await,
        };
        *last = Some((self.clock.now(), evidence));
        drop(last);
        self.probes.leave(&name, flight);
        evidence
    }

    /// Whether the unregistered holder of a meeting is dead, for a join. Without a known endpoint there is no evidence.
    pub(crate) async fn is_dead(&self, meeting: &str, reported: &ReportedController) -> bool {
        if reported.grpc_endpoint.is_none() {
            return false;
        }
        let evidence = self.evidence(meeting, reported).await;
        decide(evidence, Tally::default(), self.doubts()) == Verdict::TakeOver
    }

    /// Gives the meeting to another controller, which takes the lease from the dead one.
    async fn take_over(
        &self,
        meeting: &Meeting,
        reported: &ReportedController,
    ) -> Result<Assignment, ApiError> {
        self.reachability.condemn(&meeting.id, reported.generation, self.clock.now());
        self.home(meeting).await
    }

    /// Has a live controller move the meeting to another one, and waits for the new owner. None if it does not.
    async fn order_move(&self, meeting: &Meeting, reported: &ReportedController) -> Option<Assignment> {
        let nodes = self.nodes(Kind::Controller).await.ok()?;
        let tried = [reported.mc_id.clone()];
        let target = select::controller(&nodes, &self.options.rules.region, &tried, &mut |n| self.below(n))?;
        let assignment = MigrationAssignment {
            meeting_id: meeting.id.clone(),
            target_mc_id: target.id.clone(),
            target_grpc_endpoint: target.node_info.grpc_endpoint.clone(),
            target_webtransport_endpoint: target.node_info.webtransport_endpoint.clone(),
            certificate_sha256: target.node_info.raw_certificates().into_iter().map(Into::into).collect(),
        };
        let request =
            MigrateMeetingsRequest { assignments: vec![assignment], reason: "unreachable".to_owned() };
        let mut client = self.controller_at(reported.grpc_endpoint.as_deref()?)?;
        let accepted = client.migrate_meetings(request).await.ok()?.into_inner().accepted;
        if accepted == 0 {
            return None;
        }
        loop {
            match self.owner(&meeting.id).await.ok()? {
                Owner::There(home) if home.generation > reported.generation => return Some(home),
                _ => self.pause(limits::MOVE_POLL).await,
            }
        }
    }
}

fn warn(meeting: &Meeting, error: &ApiError) {
    tracing::warn!(meeting = meeting.id, ?error, "no controller takes a meeting from its dead owner");
}
