//! Controllers and handlers as the registry sees them.

use std::pin::Pin;
use std::sync::Arc;

use lease::{Holder, Key, Op, Store, Ttl};
use lease_keeper::{Guard, Keeper, Terms};
use meet_rpc::{Card, Gatekeeper, Keyring, Kind, Lines, Part};
use meet_wire::internal::meeting_controller_service_server::{
    MeetingControllerService, MeetingControllerServiceServer,
};
use meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, HealthStatus, MigrateMeetingsRequest,
    MigrateMeetingsResponse, ProbeRequest, ProbeResponse, RejectionReason, RequestDrainRequest,
    RequestDrainResponse,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

type Act = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a controller does with an assignment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// Takes the lease, as a controller does.
    Take,
    Reject(RejectionReason),
    /// Says that somebody else has it.
    Owned(String),
    /// Fails.
    Fail,
}

/// A controller that holds its lease and does what it is told.
pub(crate) struct Mc {
    pub(crate) desk: Desk,
    lease: Option<Guard>,
}

#[derive(Clone)]
pub(crate) struct Desk {
    id: String,
    keeper: Keeper,
    verdict: Arc<Mutex<Verdict>>,
    /// Whether it answers at all.
    answers: watch::Sender<bool>,
    meetings: Arc<Mutex<Vec<Guard>>>,
    /// Runs when it is asked, before it answers.
    meanwhile: Arc<Mutex<Option<Act>>>,
    pub(crate) asked: Arc<Mutex<Vec<AssignMeetingRequest>>>,
    pub(crate) traces: Arc<Mutex<Vec<String>>>,
    pub(crate) probes: Arc<Mutex<u32>>,
}

fn terms() -> Terms {
    Terms::new(Ttl::from_secs(9).unwrap())
}

pub(crate) fn card(id: &str, zone: &str) -> Card {
    let card = Card {
        region: "r".to_owned(),
        zone: zone.to_owned(),
        grpc_endpoint: format!("inproc:{id}"),
        webtransport_endpoint: format!("https://127.0.0.1:4433/wt/{id}"),
        max_meetings: 100,
        max_participants: 1_000,
        max_streams: 100,
        ..Card::default()
    };
    card.certificates([[7_u8; 32].as_slice()])
}

/// Holds the lease of a node.
pub(crate) async fn hold(store: &Arc<dyn Store>, kind: Kind, id: &str, zone: &str) -> (Keeper, Guard) {
    let keeper = Keeper::new(store.clone(), Holder::new(id).unwrap());
    let terms = terms().meta(card(id, zone).meta().unwrap());
    let guard = keeper.try_acquire(kind.lease(id).unwrap(), terms).await.unwrap();
    (keeper, guard)
}

impl Mc {
    pub(crate) async fn start(store: &Arc<dyn Store>, lines: &Lines, keys: &Keyring, id: &str) -> Self {
        let (keeper, guard) = hold(store, Kind::Controller, id, "a").await;
        let desk = Desk {
            id: id.to_owned(),
            keeper,
            verdict: Arc::new(Mutex::new(Verdict::Take)),
            answers: watch::Sender::new(true),
            meetings: Arc::default(),
            meanwhile: Arc::default(),
            asked: Arc::default(),
            traces: Arc::default(),
            probes: Arc::default(),
        };
        let routes = Routes::new(MeetingControllerServiceServer::new(desk.clone()));
        lines.offer(id, Gatekeeper::new(Part::Mc, keys.clone()).guard(routes));
        Self { desk, lease: Some(guard) }
    }

    pub(crate) fn says(&self, verdict: Verdict) {
        *self.desk.verdict.lock() = verdict;
    }

    /// Lets whoever asks wait, or answers them.
    pub(crate) fn answers(&self, answers: bool) {
        self.desk.answers.send_replace(answers);
    }

    /// Does this when it is asked next, before it answers.
    pub(crate) fn meanwhile(&self, act: impl Future<Output = ()> + Send + 'static) {
        *self.desk.meanwhile.lock() = Some(Box::pin(act));
    }

    /// Writes down, as a controller does, that a meeting runs with this handler.
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

    /// How often it was asked to take a meeting.
    pub(crate) fn asked(&self) -> usize {
        self.desk.asked.lock().len()
    }

    /// Gives everything back, as a controller that goes away does.
    pub(crate) async fn leave(&mut self) {
        let guards: Vec<Guard> = self.desk.meetings.lock().drain(..).collect();
        for guard in guards.into_iter().chain(self.lease.take()) {
            guard.release().await.unwrap();
        }
    }

    /// Gives its own lease back and keeps its meetings.
    pub(crate) async fn leave_the_registry(&mut self) {
        self.lease.take().unwrap().release().await.unwrap();
    }

    /// Gives its meetings back.
    pub(crate) async fn end_meetings(&self) {
        let guards: Vec<Guard> = self.desk.meetings.lock().drain(..).collect();
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

#[tonic::async_trait]
impl MeetingControllerService for Desk {
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
            Verdict::Fail => return Err(Status::unavailable("told to fail")),
            Verdict::Take => {
                let key = Key::new(format!("meeting:{}", request.meeting_id)).unwrap();
                if self.meetings.lock().iter().any(|guard| guard.lease().key == key) {
                    let again = AssignMeetingResponse { accepted: true, ..AssignMeetingResponse::default() };
                    return Ok(Response::new(again));
                }
                match self.keeper.try_acquire(key, terms()).await {
                    Ok(guard) => {
                        self.meetings.lock().push(guard);
                        AssignMeetingResponse { accepted: true, ..AssignMeetingResponse::default() }
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

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        *self.probes.lock() += 1;
        let key = format!("meeting:{}", request.into_inner().meeting_id);
        let owns_meeting = self.meetings.lock().iter().any(|guard| guard.lease().key.as_str() == key);
        let health = HealthStatus::Healthy.into();
        Ok(Response::new(ProbeResponse { mc_id: self.id.clone(), health, owns_meeting }))
    }

    async fn request_drain(
        &self,
        _: Request<RequestDrainRequest>,
    ) -> Result<Response<RequestDrainResponse>, Status> {
        Err(Status::unimplemented("not asked for here"))
    }

    async fn migrate_meetings(
        &self,
        _: Request<MigrateMeetingsRequest>,
    ) -> Result<Response<MigrateMeetingsResponse>, Status> {
        Err(Status::unimplemented("not asked for here"))
    }
}
