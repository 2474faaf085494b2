//! Assigns meetings to controllers.

use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Generation, Key, Phase};
use tenure_meet_rpc::{Kind, NodeInfo};
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, MeetingSettings, MhAssignment, MhRole, RejectionReason,
};
use tonic::Status;

use crate::error::ApiError;
use crate::gc::GcState;
use crate::meetings::Meeting;
use crate::probe::ReportedController;
use crate::registry::Node;
use crate::select::{self, HandlerSelection, Location};
use crate::{limits, metric};

/// The controller that owns a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assignment {
    pub(crate) mc_id: String,
    /// The generation under which it owns the meeting; zero if it is not known.
    pub(crate) generation: u64,
    pub(crate) node_info: NodeInfo,
}

/// The holder of a meeting's lease.
pub(crate) enum Owner {
    /// A registered controller.
    There(Assignment),
    /// A controller that is dead or no longer registered, or a lease in its lock-delay.
    Gone {
        /// The holder, if there is one.
        mc_id: Option<String>,
        generation: u64,
        /// When the lease ends.
        left: Duration,
        /// Whether the holder was found dead.
        dead: bool,
    },
    /// The lease is free.
    Unowned,
}

/// The outcome of an assignment request.
enum AssignOutcome {
    Taken { generation: u64 },
    Owned(String),
    Not,
}

impl GcState {
    /// Returns the owner of a meeting.
    pub(crate) async fn owner(&self, meeting_id: &str) -> Result<Owner, ApiError> {
        let lease = Key::new(format!("meeting:{meeting_id}"))?;
        let status = self.bounded(self.options.store.inspect(&lease)).await?;
        let left = status.remaining.unwrap_or(limits::POLL);
        let generation = status.generation.map_or(0, Generation::get);
        let holder = status.holder.filter(|_| status.phase == Phase::Held);
        match (status.phase, holder) {
            (Phase::Free, _) => Ok(Owner::Unowned),
            (_, Some(holder)) => {
                let mc_id = holder.as_str().to_owned();
                let dead = self.reachability.is_condemned(meeting_id, generation, self.clock.now());
                let node_info = if dead { None } else { self.node_info(Kind::Controller, &mc_id).await? };
                Ok(match node_info {
                    Some(node_info) => Owner::There(Assignment { mc_id, generation, node_info }),
                    None => Owner::Gone { mc_id: Some(mc_id), generation, left, dead },
                })
            }
            (_, None) => Ok(Owner::Gone { mc_id: None, generation, left, dead: false }),
        }
    }

    /// Returns where a meeting runs, and assigns it first if needed. Concurrent calls in this process share one assignment. Between
    /// processes, the lease decides.
    pub(crate) async fn home(&self, meeting: &Meeting) -> Result<Assignment, ApiError> {
        let arrived = self.clock.now();
        if let Owner::There(home) = self.owner(&meeting.id).await? {
            return Ok(home);
        }
        let flight = self.flights.board(&meeting.id);
        let mut last = flight.lock().await;
        // Do not repeat an attempt that failed after this call arrived.
        if let Some((_, error)) = last.as_ref().filter(|(at, _)| *at >= arrived) {
            return Err(error.clone());
        }
        let placed = self.place(meeting).await;
        if let Err(error) = &placed {
            *last = Some((self.clock.now(), error.clone()));
        }
        drop(last);
        self.flights.leave(&meeting.id, flight);
        placed
    }

    async fn place(&self, meeting: &Meeting) -> Result<Assignment, ApiError> {
        let end = self.clock.now() + limits::WAIT;
        loop {
            let pause = match self.owner(&meeting.id).await? {
                Owner::There(home) => return Ok(home),
                Owner::Unowned => match self.offer_and_catch_up(meeting, None).await? {
                    Some(home) => return Ok(home),
                    None => limits::POLL,
                },
                Owner::Gone { mc_id: Some(mc_id), generation, left, dead } => {
                    let reported = self.reported(&mc_id, generation);
                    if dead || self.is_dead(&meeting.id, &reported).await {
                        self.reachability.condemn(&meeting.id, generation, self.clock.now());
                        match self.offer_and_catch_up(meeting, Some(&reported)).await? {
                            Some(home) => return Ok(home),
                            None => limits::POLL,
                        }
                    } else {
                        // A lease is never taken from a controller that may be alive. Wait until it expires.
                        left.clamp(Duration::from_millis(10), limits::POLL)
                    }
                }
                Owner::Gone { mc_id: None, left, .. } => left.clamp(Duration::from_millis(10), limits::POLL),
            };
            if self.clock.now() + pause >= end {
                let why = "the controller of the meeting is gone and its lease has not expired yet";
                return Err(ApiError::Unavailable(why.to_owned()));
            }
            self.pause(pause).await;
        }
    }

    async fn offer_and_catch_up(
        &self,
        meeting: &Meeting,
        dead: Option<&ReportedController>,
    ) -> Result<Option<Assignment>, ApiError> {
        let offered = self.offer(meeting, dead).await;
        // Also after a failure: a controller may own the meeting although its response was lost.
        self.catch_up(meeting).await;
        offered
    }

    /// Tries up to three controllers. `None` if an unregistered controller owns the meeting. With `dead`, the lease is
    /// taken from that owner.
    async fn offer(
        &self,
        meeting: &Meeting,
        dead: Option<&ReportedController>,
    ) -> Result<Option<Assignment>, ApiError> {
        let controllers = self.nodes(Kind::Controller).await?;
        let handlers = self.nodes(Kind::Handler).await?;
        // Controllers that do not answer probes are not asked. A dead owner that answers was restarted: it may take the
        // meeting again.
        let now = self.clock.now();
        let failing = |node: &&Node| self.reachability.is_failing(&node.id, now);
        let mut tried: Vec<String> = controllers.iter().filter(failing).map(|node| node.id.clone()).collect();
        let instead_of = dead.map_or(0, |dead| dead.generation);
        let mut asked = 0;
        while asked < limits::TRIES {
            asked += 1;
            let region = &self.options.rules.region;
            let chosen = select::controller(&controllers, region, &tried, &mut |n| self.below(n));
            let Some(chosen) = chosen else { break };
            let near = Location { region: &chosen.node_info.region, zone: &chosen.node_info.zone };
            let Some(placement) = select::handlers(&handlers, near, &[], &mut |n| self.below(n)) else {
                metric::assigned("no_handler");
                return Err(ApiError::Unavailable("no media handler is available".to_owned()));
            };
            match self.ask(meeting, chosen, &placement, instead_of).await {
                AssignOutcome::Taken { generation } => {
                    metric::assigned("accepted");
                    return Ok(Some(Assignment {
                        mc_id: chosen.id.clone(),
                        generation,
                        node_info: chosen.node_info.clone(),
                    }));
                }
                AssignOutcome::Owned(owner) => {
                    let owner = if broken(Break::IgnoresOwner) { chosen.id.clone() } else { owner };
                    metric::assigned("already_owned");
                    let node_info = self.node_info(Kind::Controller, &owner).await?;
                    return Ok(node_info.map(|node_info| Assignment {
                        mc_id: owner,
                        generation: 0,
                        node_info,
                    }));
                }
                AssignOutcome::Not => tried.push(chosen.id.clone()),
            }
        }
        let result = if asked == 1 && tried.is_empty() { "no_controller" } else { "rejected" };
        metric::assigned(result);
        Err(ApiError::Unavailable("no meeting controller accepts the meeting".to_owned()))
    }

    async fn ask(
        &self,
        meeting: &Meeting,
        node: &Node,
        placement: &HandlerSelection<'_>,
        instead_of: u64,
    ) -> AssignOutcome {
        let now = self.clock.now();
        self.reservations.add(Kind::Controller, &node.id, now);
        let request = self.request(meeting, assignments(placement), placement.degraded);
        let request = AssignMeetingRequest { instead_of, ..request };
        let answer = match self.send(&node.node_info.grpc_endpoint, request).await {
            Ok(answer) => answer,
            Err(status) => {
                // It may own the meeting now. The next controller reports that.
                tracing::warn!(mc = node.id, %status, "assignment request failed");
                metric::assigned("no_answer");
                return AssignOutcome::Not;
            }
        };
        if answer.accepted {
            let placed = placement.ranked.iter();
            placed.for_each(|handler| self.reservations.add(Kind::Handler, &handler.id, now));
            if placement.degraded {
                metric::degraded();
            }
            tracing::info!(mc = node.id, meeting = meeting.id, degraded = placement.degraded, "assigned");
            return AssignOutcome::Taken { generation: answer.generation };
        }
        let reason = answer.rejection_reason();
        metric::rejected(reason);
        tracing::info!(mc = node.id, meeting = meeting.id, ?reason, "a controller rejected a meeting");
        match reason {
            RejectionReason::AlreadyOwned => AssignOutcome::Owned(answer.owner_mc_id),
            _ => AssignOutcome::Not,
        }
    }

    /// An assignment request with the current settings.
    pub(crate) fn request(
        &self,
        meeting: &Meeting,
        mh_assignments: Vec<MhAssignment>,
        degraded_placement: bool,
    ) -> AssignMeetingRequest {
        AssignMeetingRequest {
            meeting_id: meeting.id.clone(),
            mh_assignments,
            requesting_gc_id: self.options.id.clone(),
            settings: Some(MeetingSettings {
                display_name: meeting.display_name.clone(),
                max_participants: meeting.max_participants,
                allow_guests: meeting.allow_guests,
                host_user_id: meeting.host_user_id.clone(),
                waiting_room: meeting.waiting_room,
            }),
            degraded_placement,
            instead_of: 0,
        }
    }

    pub(crate) async fn send(
        &self,
        endpoint: &str,
        request: AssignMeetingRequest,
    ) -> Result<AssignMeetingResponse, Status> {
        let channel = self.options.channels.to(endpoint);
        let channel = channel.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut client = MeetingControllerServiceClient::new(channel);
        client.assign_meeting(request).await.map(tonic::Response::into_inner)
    }
}

/// The ranked handlers in wire form.
pub(crate) fn assignments(placement: &HandlerSelection<'_>) -> Vec<MhAssignment> {
    let roles = [MhRole::Primary, MhRole::Backup];
    let ranked = placement.ranked.iter().zip(roles);
    let assignment = |(node, role): (&&Node, MhRole)| MhAssignment {
        mh_id: node.id.clone(),
        webtransport_endpoint: node.node_info.webtransport_endpoint.clone(),
        grpc_endpoint: node.node_info.grpc_endpoint.clone(),
        role: role.into(),
        certificate_sha256: node.node_info.raw_certificates().into_iter().map(Into::into).collect(),
        zone: node.node_info.zone.clone(),
    };
    ranked.map(assignment).collect()
}
