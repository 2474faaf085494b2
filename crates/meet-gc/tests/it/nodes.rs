//! Controllers and handlers as the registry sees them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{Guard, Keeper, Terms};
use tenure_lease::{Generation, Holder, Key, Op, Store, Ttl};
use tenure_meet_rpc::{ChannelPool, Gatekeeper, Keyring, Kind, NodeInfo, Peer, ServiceRole};
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::meeting_controller_service_server::{
    MeetingControllerService, MeetingControllerServiceServer,
};
use tenure_meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, CancelDrainRequest, CancelDrainResponse, EndMeetingRequest,
    EndMeetingResponse, HealthStatus, MigrateMeetingsRequest, MigrateMeetingsResponse, ProbePeerRequest,
    ProbePeerResponse, ProbeRequest, ProbeResponse, RejectionReason, RequestDrainRequest,
    RequestDrainResponse,
};
use tenure_meet_wire::jwt::ServiceType;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

type Act = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a controller responds to an assignment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// Acquires the lease, as a controller does.
    Take,
    Reject(RejectionReason),
    /// Reports that another controller owns it.
    Owned(String),
    /// Fails the call.
    Fail,
}

/// A scripted controller that holds its lease.
pub(crate) struct Mc {
    pub(crate) fake: FakeController,
    lease: Option<Guard>,
}

#[derive(Clone)]
pub(crate) struct FakeController {
    id: String,
    keeper: Keeper,
    verdict: Arc<Mutex<Verdict>>,
    /// Whether it responds at all.
    answers: watch::Sender<bool>,
    meetings: Arc<Mutex<Vec<Guard>>>,
    /// Runs on the next request, before the response.
    meanwhile: Arc<Mutex<Option<Act>>>,
    pub(crate) asked: Arc<Mutex<Vec<AssignMeetingRequest>>>,
    pub(crate) traces: Arc<Mutex<Vec<String>>>,
    pub(crate) probes: Arc<Mutex<u32>>,
    /// Orders to move meetings.
    pub(crate) moves: Arc<Mutex<Vec<MigrateMeetingsRequest>>>,
    /// Leases that it holds in the store and does not know of, as after a restart.
    forgotten: Arc<Mutex<Vec<Guard>>>,
    /// The callers that get no answer to probes.
    deaf_to: Arc<Mutex<Vec<ServiceType>>>,
    /// Calls other controllers.
    peers: ChannelPool,
    /// Orders of operators, in words.
    pub(crate) orders: Arc<Mutex<Vec<String>>>,
}

fn terms() -> Terms {
    Terms::new(Ttl::from_secs(9).unwrap())
}

pub(crate) fn node_info(id: &str, zone: &str) -> NodeInfo {
    let node_info = NodeInfo {
        region: "r".to_owned(),
        zone: zone.to_owned(),
        grpc_endpoint: format!("inproc:{id}"),
        webtransport_endpoint: format!("https://127.0.0.1:4433/wt/{id}"),
        max_meetings: 100,
        max_participants: 1_000,
        max_streams: 100,
        ..NodeInfo::default()
    };
    node_info.certificates([[7_u8; 32].as_slice()])
}

/// Holds the lease of a node.
pub(crate) async fn hold(store: &Arc<dyn Store>, kind: Kind, id: &str, zone: &str) -> (Keeper, Guard) {
    let keeper = Keeper::new(store.clone(), Holder::new(id).unwrap());
    let terms = terms().meta(node_info(id, zone).meta().unwrap());
    let guard = keeper.try_acquire(kind.lease(id).unwrap(), terms).await.unwrap();
    (keeper, guard)
}

impl Mc {
    pub(crate) async fn start(
        store: &Arc<dyn Store>,
        (channels, peers): (&ChannelPool, ChannelPool),
        keys: &Keyring,
        id: &str,
    ) -> Self {
        let (keeper, guard) = hold(store, Kind::Controller, id, "a").await;
        let fake = FakeController {
            id: id.to_owned(),
            keeper,
            verdict: Arc::new(Mutex::new(Verdict::Take)),
            answers: watch::Sender::new(true),
            meetings: Arc::default(),
            meanwhile: Arc::default(),
            asked: Arc::default(),
            traces: Arc::default(),
            probes: Arc::default(),
            moves: Arc::default(),
            forgotten: Arc::default(),
            deaf_to: Arc::default(),
            peers,
            orders: Arc::default(),
        };
        let routes = Routes::new(MeetingControllerServiceServer::new(fake.clone()));
        channels.offer(id, Gatekeeper::new(ServiceRole::Mc, keys.clone()).guard(routes));
        Self { fake, lease: Some(guard) }
    }

    pub(crate) fn says(&self, verdict: Verdict) {
        *self.fake.verdict.lock() = verdict;
    }

    /// Blocks requests, or unblocks them.
    pub(crate) fn answers(&self, answers: bool) {
        self.fake.answers.send_replace(answers);
    }

    /// Runs this on the next request, before the response.
    pub(crate) fn meanwhile(&self, act: impl Future<Output = ()> + Send + 'static) {
        *self.fake.meanwhile.lock() = Some(Box::pin(act));
    }

    /// Writes the state of a running meeting with this handler, as a controller does.
    pub(crate) async fn keep_row(&self, store: &Arc<dyn Store>, meeting: &str, handler: &str) {
        let row = serde_json::json!({
            "max_participants": 100, "allow_guests": true, "grace_ms": 30_000, "mute_epoch": 0, "ended": false,
            "handlers": [{
                "id": handler, "webtransport_endpoint": "https://127.0.0.1:4433/wt/mh",
                "grpc_endpoint": format!("inproc:{handler}"), "primary": true, "certificates": [[7, 8]],
            }],
        });
        let key = Key::new(format!("meeting:{meeting}:state")).unwrap();
        let value = Arc::from(row.to_string().into_bytes());
        store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    }

    /// Stops answering anything, as a process that was stopped does. Its leases stay.
    pub(crate) fn die(&self) {
        self.answers(false);
        *self.fake.deaf_to.lock() = vec![ServiceType::GlobalController, ServiceType::MeetingController];
    }

    /// Stops answering probes of this caller.
    pub(crate) fn ignore(&self, caller: ServiceType) {
        self.fake.deaf_to.lock().push(caller);
    }

    /// Forgets its meetings while their leases last, as a restarted process does.
    pub(crate) fn restart(&self) {
        let held = std::mem::take(&mut *self.fake.meetings.lock());
        self.fake.forgotten.lock().extend(held);
    }

    /// The generations that it had to replace; zero for none.
    pub(crate) fn replaced(&self) -> Vec<u64> {
        self.fake.asked.lock().iter().map(|request| request.instead_of).collect()
    }

    /// Number of assignment requests received.
    pub(crate) fn asked(&self) -> usize {
        self.fake.asked.lock().len()
    }

    /// Releases everything, as a controller that shuts down does.
    pub(crate) async fn leave(&mut self) {
        let guards: Vec<Guard> = self.fake.meetings.lock().drain(..).collect();
        for guard in guards.into_iter().chain(self.lease.take()) {
            guard.release().await.unwrap();
        }
    }

    /// Releases its own lease and keeps its meetings.
    pub(crate) async fn leave_the_registry(&mut self) {
        self.lease.take().unwrap().release().await.unwrap();
    }

    /// Releases its meetings.
    pub(crate) async fn end_meetings(&self) {
        let guards: Vec<Guard> = self.fake.meetings.lock().drain(..).collect();
        for guard in guards {
            guard.release().await.unwrap();
        }
    }
}

fn rejected(reason: RejectionReason, owner: &str) -> AssignMeetingResponse {
    AssignMeetingResponse {
        accepted: false,
        rejection_reason: reason.into(),
        owner_mc_id: owner.to_owned(),
        ..AssignMeetingResponse::default()
    }
}

impl FakeController {
    /// Whether it accepts an order of an operator: refused like an assignment.
    fn follows_orders(&self) -> Result<bool, Status> {
        match &*self.verdict.lock() {
            Verdict::Fail => Err(Status::unavailable("scripted failure")),
            verdict => Ok(*verdict == Verdict::Take),
        }
    }
}

#[tonic::async_trait]
impl MeetingControllerService for FakeController {
    async fn assign_meeting(
        &self,
        request: Request<AssignMeetingRequest>,
    ) -> Result<Response<AssignMeetingResponse>, Status> {
        let trace = request.metadata().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        self.traces.lock().extend(trace);
        let request = request.into_inner();
        self.asked.lock().push(request.clone());
        self.answers.subscribe().wait_for(|answers| *answers).await.unwrap();
        let meanwhile = self.meanwhile.lock().take();
        if let Some(act) = meanwhile {
            act.await;
        }
        let verdict = self.verdict.lock().clone();
        let answer = match verdict {
            Verdict::Reject(reason) => rejected(reason, ""),
            Verdict::Owned(owner) => rejected(RejectionReason::AlreadyOwned, &owner),
            Verdict::Fail => return Err(Status::unavailable("scripted failure")),
            Verdict::Take => {
                let key = Key::new(format!("meeting:{}", request.meeting_id)).unwrap();
                if self.meetings.lock().iter().any(|guard| guard.lease().key == key) {
                    let again = AssignMeetingResponse { accepted: true, ..AssignMeetingResponse::default() };
                    return Ok(Response::new(again));
                }
                match self.acquire(key, request.instead_of).await {
                    Ok(guard) => {
                        let generation = guard.generation().get();
                        self.meetings.lock().push(guard);
                        AssignMeetingResponse {
                            accepted: true,
                            generation,
                            ..AssignMeetingResponse::default()
                        }
                    }
                    Err(error) => {
                        let busy = error.busy().unwrap_or_else(|| panic!("{error}"));
                        let owner = busy.holder.as_ref().map_or("", |holder| holder.as_str());
                        rejected(RejectionReason::AlreadyOwned, owner)
                    }
                }
            }
        };
        Ok(Response::new(answer))
    }

    async fn migrate_meetings(
        &self,
        request: Request<MigrateMeetingsRequest>,
    ) -> Result<Response<MigrateMeetingsResponse>, Status> {
        let request = request.into_inner();
        let moved = &request.assignments[0];
        self.orders.lock().push(format!("move to {} at {}", moved.target_mc_id, moved.target_grpc_endpoint));
        self.moves.lock().push(request.clone());
        let accepted = request.reason == "operator" && self.follows_orders()?;
        Ok(Response::new(MigrateMeetingsResponse { accepted: accepted.into() }))
    }

    async fn request_drain(
        &self,
        request: Request<RequestDrainRequest>,
    ) -> Result<Response<RequestDrainResponse>, Status> {
        let request = request.into_inner();
        let seconds = request.deadline.map(|deadline| deadline.seconds);
        self.orders.lock().push(format!("drain {:?} {seconds:?}", request.reason()));
        Ok(Response::new(RequestDrainResponse { accepted: self.follows_orders()? }))
    }

    async fn cancel_drain(
        &self,
        _request: Request<CancelDrainRequest>,
    ) -> Result<Response<CancelDrainResponse>, Status> {
        self.orders.lock().push("undrain".to_owned());
        Ok(Response::new(CancelDrainResponse { cancelled: self.follows_orders()? }))
    }

    async fn end_meeting(
        &self,
        _request: Request<EndMeetingRequest>,
    ) -> Result<Response<EndMeetingResponse>, Status> {
        self.orders.lock().push("end".to_owned());
        Ok(Response::new(EndMeetingResponse { ended: self.follows_orders()? }))
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        *self.probes.lock() += 1;
        let caller = request.extensions().get::<Peer>().map(|peer| peer.service_type);
        if caller.is_some_and(|caller| self.deaf_to.lock().contains(&caller)) {
            return std::future::pending().await;
        }
        let key = format!("meeting:{}", request.into_inner().meeting_id);
        let generation = self
            .meetings
            .lock()
            .iter()
            .find(|guard| guard.lease().key.as_str() == key)
            .map(|guard| guard.generation().get());
        Ok(Response::new(ProbeResponse {
            mc_id: self.id.clone(),
            health: HealthStatus::Healthy.into(),
            owns_meeting: generation.is_some(),
            generation: generation.unwrap_or_default(),
            ..ProbeResponse::default()
        }))
    }

    async fn probe_peer(
        &self,
        request: Request<ProbePeerRequest>,
    ) -> Result<Response<ProbePeerResponse>, Status> {
        self.answers.subscribe().wait_for(|answers| *answers).await.unwrap();
        let ProbePeerRequest { grpc_endpoint, meeting_id, .. } = request.into_inner();
        let mut client = MeetingControllerServiceClient::new(self.peers.to(&grpc_endpoint).unwrap());
        let clock = self.keeper.clock();
        let probe = tokio::select! {
            answer = client.probe(ProbeRequest { meeting_id }) => answer.ok().map(Response::into_inner),
            () = clock.sleep_until(clock.now() + Duration::from_millis(500)) => None,
        };
        Ok(Response::new(ProbePeerResponse { reached: probe.is_some(), probe }))
    }
}

impl FakeController {
    /// Acquires the lease as a controller does: from the dead generation if one is named.
    async fn acquire(&self, key: Key, instead_of: u64) -> tenure_keeper::Result<Guard> {
        let Ok(dead) = Generation::new(instead_of) else {
            return self.keeper.try_acquire(key, terms()).await;
        };
        match self.keeper.replace(key.clone(), terms(), dead).await {
            Err(error) if error.busy().is_some_and(|busy| busy.holder.is_none()) => {
                self.keeper.try_acquire(key, terms()).await
            }
            acquired => acquired,
        }
    }
}
