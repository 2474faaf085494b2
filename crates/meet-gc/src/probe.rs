//! Probes of a reported controller: by this global controller, and through another controller of the region.

use tenure_meet_rpc::{Channel, Kind};
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{ProbePeerRequest, ProbeRequest, ProbeResponse};

use crate::assign::Assignment;
use crate::gc::GcState;
use crate::registry::Node;
use crate::verdict::{Evidence, PeerProbe, ProbeResult};
use crate::{limits, metric};

/// A controller about which something was reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReportedController {
    pub(crate) mc_id: String,
    pub(crate) generation: u64,
    /// Where it was last registered; none if this global controller never saw it.
    pub(crate) grpc_endpoint: Option<String>,
}

impl From<&Assignment> for ReportedController {
    fn from(home: &Assignment) -> Self {
        let grpc_endpoint = Some(home.node_info.grpc_endpoint.clone());
        Self { mc_id: home.mc_id.clone(), generation: home.generation, grpc_endpoint }
    }
}

impl ReportedController {
    fn judge(&self, answer: &ProbeResponse) -> ProbeResult {
        // A meeting that is being opened has no generation yet. A greater one means that it was reassigned meanwhile.
        let holds = answer.owns_meeting && (answer.generation == 0 || answer.generation >= self.generation);
        match answer.mc_id == self.mc_id && holds {
            true => ProbeResult::Holds,
            false => ProbeResult::Lacks,
        }
    }
}

impl GcState {
    /// Probes a controller by itself and through another one, in parallel.
    pub(crate) async fn probe(&self, meeting: &str, reported: &ReportedController) -> Evidence {
        let (own, peer) =
            tokio::join!(self.probe_twice(meeting, reported), self.probe_through(meeting, reported));
        match own {
            ProbeResult::Failed => self.reachability.failed(&reported.mc_id, self.clock.now()),
            ProbeResult::Holds | ProbeResult::Lacks => self.reachability.answered(&reported.mc_id),
        }
        metric::probed(own);
        let evidence = Evidence { own, peer };
        tracing::warn!(mc = reported.mc_id, meeting, ?evidence, "probed a reported controller");
        evidence
    }

    async fn probe_twice(&self, meeting: &str, reported: &ReportedController) -> ProbeResult {
        for _ in 0..limits::PROBES {
            if let Some(answer) = self.probe_once(meeting, reported).await {
                return reported.judge(&answer);
            }
        }
        ProbeResult::Failed
    }

    async fn probe_once(&self, meeting: &str, reported: &ReportedController) -> Option<ProbeResponse> {
        let mut client = self.controller_at(reported.grpc_endpoint.as_deref()?)?;
        let request = ProbeRequest { meeting_id: meeting.to_owned() };
        let late = self.clock.sleep_until(self.clock.now() + limits::PROBE);
        tokio::select! {
            biased;
            answer = client.probe(request) => answer.ok().map(tonic::Response::into_inner),
            () = late => None,
        }
    }

    /// Asks other controllers, one at a time, until one of them answers.
    async fn probe_through(&self, meeting: &str, reported: &ReportedController) -> PeerProbe {
        // Without the store there is no other controller to ask.
        let mut peers = self.nodes(Kind::Controller).await.unwrap_or_default();
        let region = &self.options.rules.region;
        peers.retain(|node| {
            node.id != reported.mc_id && (region.is_empty() || node.node_info.region == *region)
        });
        if peers.is_empty() {
            return PeerProbe::NoPeer;
        }
        for _ in 0..limits::PROBES.min(peers.len()) {
            let peer = peers.swap_remove(self.below(peers.len()));
            match self.ask_peer(meeting, reported, &peer).await {
                // A probe that failed once may fail by chance.
                Some(ProbeResult::Failed) => {
                    let again = self.ask_peer(meeting, reported, &peer).await;
                    return PeerProbe::Found(again.unwrap_or(ProbeResult::Failed));
                }
                Some(found) => return PeerProbe::Found(found),
                None => self.reachability.failed(&peer.id, self.clock.now()),
            }
        }
        PeerProbe::Unanswered
    }

    /// What another controller finds; none if that one does not answer.
    async fn ask_peer(
        &self,
        meeting: &str,
        reported: &ReportedController,
        peer: &Node,
    ) -> Option<ProbeResult> {
        let mut client = self.controller_at(&peer.node_info.grpc_endpoint)?;
        let request = ProbePeerRequest {
            mc_id: reported.mc_id.clone(),
            grpc_endpoint: reported.grpc_endpoint.clone()?,
            meeting_id: meeting.to_owned(),
        };
        let late = self.clock.sleep_until(self.clock.now() + limits::PROBE_PEER);
        let answer = tokio::select! {
            biased;
            answer = client.probe_peer(request) => answer.ok()?.into_inner(),
            () = late => return None,
        };
        self.reachability.answered(&peer.id);
        let found = answer.probe.filter(|_| answer.reached);
        Some(found.map_or(ProbeResult::Failed, |found| reported.judge(&found)))
    }

    pub(crate) fn controller_at(&self, endpoint: &str) -> Option<MeetingControllerServiceClient<Channel>> {
        self.options.channels.to(endpoint).ok().map(MeetingControllerServiceClient::new)
    }
}
