//! Where a meeting runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Key, Phase, Tick};
use meet_rpc::{Card, Kind};
use meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, MeetingSettings, MhAssignment, MhRole, RejectionReason,
};
use parking_lot::Mutex;
use tonic::Status;

use crate::book::Meeting;
use crate::gc::Site;
use crate::registry::Node;
use crate::select::{self, Near, Placement};
use crate::trouble::Trouble;
use crate::{limits, metric};

/// The controller that has a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub(crate) mc_id: String,
    pub(crate) card: Card,
}

/// Who has the lease of a meeting.
pub(crate) enum Owner {
    /// A controller that is there.
    There(Home),
    /// One that is gone, or nobody yet; the lease has so much left.
    Gone(Duration),
    /// Nobody.
    Nobody,
}

/// What a controller said to an assignment, or what became of asking.
enum Asked {
    Taken,
    Owned(String),
    Not,
}

impl Site {
    /// Who has a meeting.
    pub(crate) async fn owner(&self, meeting_id: &str) -> Result<Owner, Trouble> {
        let lease = Key::new(format!("meeting:{meeting_id}"))?;
        let status = self.bounded(self.options.store.inspect(&lease)).await?;
        let left = status.remaining.unwrap_or(limits::LOOK);
        match (status.phase, status.holder) {
            (Phase::Free, _) => Ok(Owner::Nobody),
            (Phase::Held, Some(holder)) => {
                let mc_id = holder.as_str().to_owned();
                let card = self.card(Kind::Controller, &mc_id).await?;
                Ok(card.map_or(Owner::Gone(left), |card| Owner::There(Home { mc_id, card })))
            }
            _ => Ok(Owner::Gone(left)),
        }
    }

    /// Where a meeting runs; if it does not, somebody is asked to take it. However many ask at once in this process, one of them asks
    /// the controllers; between processes the lease decides.
    pub(crate) async fn home(&self, meeting: &Meeting) -> Result<Home, Trouble> {
        let arrived = self.clock.now();
        if let Owner::There(home) = self.owner(&meeting.id).await? {
            return Ok(home);
        }
        let flight = self.flights.board(&meeting.id);
        let mut last = flight.turn.lock().await;
        // Who came before somebody asked in vain does not ask again.
        if let Some((_, trouble)) = last.as_ref().filter(|(at, _)| *at >= arrived) {
            return Err(trouble.clone());
        }
        let placed = self.place(meeting).await;
        if let Err(trouble) = &placed {
            *last = Some((self.clock.now(), trouble.clone()));
        }
        drop(last);
        self.flights.leave(&meeting.id, flight);
        placed
    }

    async fn place(&self, meeting: &Meeting) -> Result<Home, Trouble> {
        let end = self.clock.now() + limits::WAIT;
        loop {
            let pause = match self.owner(&meeting.id).await? {
                Owner::There(home) => return Ok(home),
                Owner::Nobody => {
                    let offered = self.offer(meeting).await;
                    // Also after a refusal: somebody may have taken it whose answer got lost.
                    self.catch_up(meeting).await;
                    match offered? {
                        Some(home) => return Ok(home),
                        None => limits::LOOK,
                    }
                }
                // Nobody takes a lease from a controller that may be alive: it runs out.
                Owner::Gone(left) => left.clamp(Duration::from_millis(10), limits::LOOK),
            };
            if self.clock.now() + pause >= end {
                let why = "the controller of the meeting is gone, and its lease has not run out yet";
                return Err(Trouble::Unavailable(why.to_owned()));
            }
            self.pause(pause).await;
        }
    }

    /// Asks up to three controllers. None: it belongs to one that is not there.
    async fn offer(&self, meeting: &Meeting) -> Result<Option<Home>, Trouble> {
        let mut tried = Vec::new();
        let controllers = self.nodes(Kind::Controller).await?;
        let handlers = self.nodes(Kind::Handler).await?;
        while tried.len() < limits::TRIES {
            let region = &self.options.rules.region;
            let chosen = select::controller(&controllers, region, &tried, &mut |n| self.below(n));
            let Some(chosen) = chosen else { break };
            let near = Near { region: &chosen.card.region, zone: &chosen.card.zone };
            let Some(placement) = select::handlers(&handlers, near, &[], &mut |n| self.below(n)) else {
                metric::assigned("no_handler");
                return Err(Trouble::Unavailable("no media handler is available".to_owned()));
            };
            match self.ask(meeting, chosen, &placement).await {
                Asked::Taken => {
                    metric::assigned("accepted");
                    return Ok(Some(Home { mc_id: chosen.id.clone(), card: chosen.card.clone() }));
                }
                Asked::Owned(owner) => {
                    metric::assigned("already_owned");
                    let card = self.card(Kind::Controller, &owner).await?;
                    return Ok(card.map(|card| Home { mc_id: owner, card }));
                }
                Asked::Not => tried.push(chosen.id.clone()),
            }
        }
        let result = if tried.is_empty() { "no_controller" } else { "rejected" };
        metric::assigned(result);
        Err(Trouble::Unavailable("no meeting controller takes the meeting".to_owned()))
    }

    async fn ask(&self, meeting: &Meeting, node: &Node, placement: &Placement<'_>) -> Asked {
        let now = self.clock.now();
        self.reservations.add(Kind::Controller, &node.id, now);
        let request = self.request(meeting, assignments(placement), placement.degraded);
        let answer = match self.send(&node.card.grpc_endpoint, request).await {
            Ok(answer) => answer,
            Err(status) => {
                // It may have taken the meeting: then the next one that is asked says so.
                tracing::warn!(mc = node.id, %status, "a controller did not answer an assignment");
                metric::assigned("no_answer");
                return Asked::Not;
            }
        };
        if answer.accepted {
            let placed = placement.ranked.iter();
            placed.for_each(|handler| self.reservations.add(Kind::Handler, &handler.id, now));
            if placement.degraded {
                metric::degraded();
            }
            tracing::info!(mc = node.id, meeting = meeting.id, degraded = placement.degraded, "assigned");
            return Asked::Taken;
        }
        let reason = answer.rejection_reason();
        metric::rejected(reason);
        tracing::info!(mc = node.id, meeting = meeting.id, ?reason, "a controller does not take a meeting");
        match reason {
            RejectionReason::AlreadyOwned => Asked::Owned(answer.owner_mc_id),
            _ => Asked::Not,
        }
    }

    /// An assignment of a meeting, with its settings as they are.
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
            }),
            degraded_placement,
        }
    }

    pub(crate) async fn send(
        &self,
        endpoint: &str,
        request: AssignMeetingRequest,
    ) -> Result<AssignMeetingResponse, Status> {
        let line = self.options.lines.to(endpoint);
        let line = line.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut client = MeetingControllerServiceClient::new(line);
        client.assign_meeting(request).await.map(tonic::Response::into_inner)
    }
}

/// The handlers as they travel, ranked.
pub(crate) fn assignments(placement: &Placement<'_>) -> Vec<MhAssignment> {
    let roles = [MhRole::Primary, MhRole::Backup];
    let ranked = placement.ranked.iter().zip(roles);
    let assignment = |(node, role): (&&Node, MhRole)| MhAssignment {
        mh_id: node.id.clone(),
        webtransport_endpoint: node.card.webtransport_endpoint.clone(),
        grpc_endpoint: node.card.grpc_endpoint.clone(),
        role: role.into(),
        certificate_sha256: node.card.raw_certificates().into_iter().map(Into::into).collect(),
        zone: node.card.zone.clone(),
    };
    ranked.map(assignment).collect()
}

/// Joins of meetings that nobody has yet: one at a time for each.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<String, Arc<Flight>>>);

/// Those who wait for one meeting. Inside is the last failure, and when it was.
#[derive(Default)]
pub(crate) struct Flight {
    turn: tokio::sync::Mutex<Option<(Tick, Trouble)>>,
}

impl Flights {
    fn board(&self, meeting_id: &str) -> Arc<Flight> {
        let mut flights = self.0.lock();
        // Whoever gave up while waiting left an entry behind.
        flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        flights.entry(meeting_id.to_owned()).or_default().clone()
    }

    fn leave(&self, meeting_id: &str, flight: Arc<Flight>) {
        drop(flight);
        let mut flights = self.0.lock();
        if flights.get(meeting_id).is_some_and(|flight| Arc::strong_count(flight) == 1) {
            flights.remove(meeting_id);
        }
    }
}
