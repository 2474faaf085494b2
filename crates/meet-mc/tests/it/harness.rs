//! A controller with clients in memory, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::{Holder, Store, Ttl};
use tenure_meet_mc::actor::{
    Assigned, Assignment, Controller, GlobalController, MediaHandlers, NoControllers, NoGlobalController,
    Options, Running, ScriptedHandlers,
};
use tenure_meet_mc::meeting::{HandlerInfo, Settings};
use tenure_meet_mc::{Peers, RateLimit};
use tenure_meet_rpc::Keyring;
use tenure_meet_wire::jwt::{
    Checker, GuestClaims, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, SigningKey, sign,
};
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, JoinRequest, JoinResponse, ServerMessage};
use tenure_meet_wire::transport::memory::{self, Session, Wire};
use tenure_meet_wire::transport::{Closed, MessageReader, MessageWriter, ReadError, Session as _};
use tokio::task::JoinSet;

use crate::fixture::{meeting, secrets, shared};

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

pub(crate) fn keyring(store: &Arc<dyn Store>) -> Keyring {
    Keyring::local(store.clock(), || Checker::new(KeySet::from(&Jwks { keys: vec![key().public()] })))
}

pub(crate) fn handler(id: &str, grpc_endpoint: &str) -> HandlerInfo {
    HandlerInfo {
        id: id.to_owned(),
        webtransport_endpoint: format!("https://127.0.0.1:1/{id}"),
        grpc_endpoint: grpc_endpoint.to_owned(),
        primary: true,
        certificates: Vec::new(),
    }
}

const OFTEN: RateLimit = RateLimit { burst: 1_000, per_second: 1_000 };

/// A controller and the tasks of its sessions.
pub(crate) struct Harness {
    pub(crate) controller: Controller,
    pub(crate) running: Running,
    pub(crate) store: Arc<dyn Store>,
    sessions: JoinSet<()>,
}

impl Harness {
    pub(crate) fn open(store: &Arc<dyn Store>, mc_id: &str) -> Self {
        Self::with(store, mc_id, Arc::new(ScriptedHandlers::ACCEPTING), 100)
    }

    pub(crate) fn with(
        store: &Arc<dyn Store>,
        mc_id: &str,
        media_handlers: Arc<dyn MediaHandlers>,
        max_meetings: usize,
    ) -> Self {
        Self::start(
            store,
            mc_id,
            (media_handlers, Arc::new(NoGlobalController)),
            max_meetings,
            (OFTEN, OFTEN),
        )
    }

    /// With these peers.
    pub(crate) fn at_home(store: &Arc<dyn Store>, mc_id: &str, peers: Peers) -> Self {
        Self::start(store, mc_id, (Arc::new(peers.clone()), Arc::new(peers)), 100, (OFTEN, OFTEN))
    }

    /// With these limits for joins and requests.
    pub(crate) fn rated(store: &Arc<dyn Store>, mc_id: &str, join: RateLimit, talk: RateLimit) -> Self {
        Self::start(
            store,
            mc_id,
            (Arc::new(ScriptedHandlers::ACCEPTING), Arc::new(NoGlobalController)),
            100,
            (join, talk),
        )
    }

    fn start(
        store: &Arc<dyn Store>,
        mc_id: &str,
        (media_handlers, global_controller): (Arc<dyn MediaHandlers>, Arc<dyn GlobalController>),
        max_meetings: usize,
        (join_limit, request_limit): (RateLimit, RateLimit),
    ) -> Self {
        let (controller, running) = Controller::start(Options {
            shared: shared(store, mc_id),
            keeper: Keeper::new(store.clone(), Holder::new(mc_id).unwrap()),
            lease_ttl: Ttl::from_secs(9).unwrap(),
            lease_renew: Duration::from_secs(3),
            max_meetings,
            max_participants: 10_000,
            secrets: secrets(),
            keyring: keyring(store),
            entropy: Arc::new(OsEntropy),
            media_handlers,
            global_controller,
            controllers: Arc::new(NoControllers),
            join_limit,
            request_limit,
        });
        Self { controller, running, store: store.clone(), sessions: JoinSet::new() }
    }

    pub(crate) async fn assign(&self) -> Assigned {
        self.assign_with(Settings::default()).await
    }

    pub(crate) async fn assign_with(&self, settings: Settings) -> Assigned {
        let handlers = vec![handler("mh-1", "inproc:mh-1")];
        self.controller.assign(Assignment { meeting: meeting(), settings, handlers, instead_of: None }).await
    }

    /// Claims of a meeting token, valid for 15 minutes.
    pub(crate) fn claims(&self, user: &str, role: Role) -> MeetingClaims {
        let now = self.store.clock().wall().as_micros() / 1_000_000;
        MeetingClaims {
            sub: user.to_owned(),
            token_type: Kind::Meeting,
            meeting_id: "abc".to_owned(),
            home_org_id: None,
            meeting_org_id: String::new(),
            participant_type: ParticipantType::Member,
            role,
            capabilities: Vec::new(),
            iat: now,
            exp: now + 900,
            jti: "j".to_owned(),
        }
    }

    /// A connection without a join request.
    pub(crate) async fn connect(&mut self) -> Client {
        let (near, far) = memory::pair();
        let controller = self.controller.clone();
        self.sessions.spawn(async move { controller.serve(far).await });
        let (send, receive) = near.open_bi().await.unwrap();
        Client {
            wire: near.wire(),
            session: near,
            writer: MessageWriter::new(send),
            reader: MessageReader::new(receive),
            seq: 0,
        }
    }

    pub(crate) async fn ask_to_join(&mut self, request: JoinRequest) -> Client {
        let mut client = self.connect().await;
        client.ask(ClientPayload::JoinRequest(request)).await;
        client
    }

    pub(crate) fn request(&self, user: &str, role: Role) -> JoinRequest {
        JoinRequest {
            meeting_id: "abc".to_owned(),
            join_token: sign(&key(), &self.claims(user, role)).unwrap(),
            participant_name: user.to_uppercase(),
            attempt_id: "1".to_owned(),
            ..JoinRequest::default()
        }
    }

    /// A join request of a guest.
    pub(crate) fn guest(&self, user: &str) -> JoinRequest {
        let MeetingClaims { meeting_id, iat, exp, jti, .. } = self.claims(user, Role::Guest);
        let claims = GuestClaims {
            sub: user.to_owned(),
            token_type: Kind::Guest,
            meeting_id,
            participant_type: ParticipantType::Guest,
            role: Role::Guest,
            display_name: user.to_uppercase(),
            waiting_room: false,
            iat,
            exp,
            jti,
        };
        JoinRequest { join_token: sign(&key(), &claims).unwrap(), ..self.request(user, Role::Guest) }
    }

    pub(crate) async fn join(&mut self, user: &str, role: Role) -> (Client, JoinResponse) {
        let mut client = self.ask_to_join(self.request(user, role)).await;
        let answer = client.welcomed().await;
        (client, answer)
    }

    /// Resumes the seat of a join, having received events up to `seen`.
    pub(crate) async fn resume(
        &mut self,
        user: &str,
        role: Role,
        last: &JoinResponse,
        seen: u64,
    ) -> (Client, JoinResponse) {
        let request = JoinRequest {
            correlation_id: last.correlation_id.clone(),
            binding_token: last.binding_token.clone(),
            last_event_seq: seen,
            ..self.request(user, role)
        };
        let mut client = self.ask_to_join(request).await;
        let answer = client.welcomed().await;
        client.seq = answer.applied_seq;
        (client, answer)
    }
}

pub(crate) struct Client {
    pub(crate) wire: Wire,
    pub(crate) session: Arc<Session>,
    writer: MessageWriter,
    reader: MessageReader,
    pub(crate) seq: u64,
}

impl Client {
    pub(crate) async fn ask(&mut self, ask: ClientPayload) -> u64 {
        self.seq += 1;
        let message = ClientMessage { payload: Some(ask), seq: self.seq, ..ClientMessage::default() };
        self.writer.send(&message).await.unwrap();
        self.seq
    }

    pub(crate) async fn raw(&mut self, bytes: &'static [u8]) {
        self.writer.send_frame(bytes::Bytes::from_static(bytes)).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> ServerMessage {
        self.reader.next().await.unwrap().expect("a message")
    }

    pub(crate) async fn ended(&mut self) -> Closed {
        while !matches!(self.reader.next::<ServerMessage>().await, Ok(None) | Err(ReadError::Transport(_))) {}
        self.session.closed().await
    }

    pub(crate) async fn welcomed(&mut self) -> JoinResponse {
        match self.next().await.payload {
            Some(Payload::JoinResponse(answer)) => answer,
            other => panic!("no welcome but {other:?}"),
        }
    }

    /// The next matching message; others are skipped.
    pub(crate) async fn until<T>(&mut self, fits: impl Fn(&ServerMessage) -> Option<T>) -> T {
        loop {
            let message = self.next().await;
            if let Some(found) = fits(&message) {
                return found;
            }
        }
    }

    /// The code of the next error.
    pub(crate) async fn error(&mut self) -> (tenure_meet_wire::signaling::ErrorCode, String) {
        self.until(|message| match &message.payload {
            Some(Payload::Error(error)) => Some((error.code(), error.message.clone())),
            _ => None,
        })
        .await
    }
}
