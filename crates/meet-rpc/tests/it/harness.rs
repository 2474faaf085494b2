//! An authority and a handler that records calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_keeper::OsEntropy;
use tenure_lease::Clock;
use tenure_meet_ac::{Authority, Clients, DirectoryVault, Vault};
use tenure_meet_rpc::{
    ChannelPool, Gatekeeper, Keyring, MintedTokens, Peer, ServiceRole, TokenError, TokenSource,
};
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_meet_wire::internal::media_handler_service_server::{
    MediaHandlerService, MediaHandlerServiceServer,
};
use tenure_meet_wire::internal::{
    EnforceMuteRequest, EnforceMuteResponse, RegisterMeetingRequest, RegisterMeetingResponse,
    ReleaseMeetingRequest, ReleaseMeetingResponse, ReleaseParticipantRequest, ReleaseParticipantResponse,
    RouteMediaRequest, RouteMediaResponse, TelemetrySample, TelemetrySummary,
};
use tenure_meet_wire::jwt::{ServiceClaims, ServiceType, SigningKey, sign};
use tenure_store::BootClock;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

pub(crate) const SECRET: &str = "a secret of the controller";

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(BootClock)
}

pub(crate) fn credentials(client_id: &str) -> tenure_meet_ac::Credentials {
    tenure_meet_ac::Credentials { client_id: client_id.to_owned(), client_secret: SECRET.to_owned() }
}

/// An authority with a controller, a handler, and a controller without the scope.
pub(crate) async fn authority(dir: &std::path::Path) -> Arc<Authority> {
    let clients = Clients::default();
    let scopes = ["service.write.gc", "service.write.mh"];
    let clients = clients.with(&credentials("mc"), ServiceType::MeetingController, &scopes).unwrap();
    let clients = clients.with(&credentials("mh"), ServiceType::MediaHandler, &scopes).unwrap();
    let clients =
        clients.with(&credentials("weak"), ServiceType::MeetingController, &["service.write.gc"]).unwrap();
    let vault = Vault::Folder(DirectoryVault::new(dir));
    Arc::new(Authority::open(vault, clients, clock(), Arc::new(OsEntropy)).await.unwrap())
}

pub(crate) fn minted(authority: &Arc<Authority>, client_id: &'static str) -> Arc<dyn TokenSource> {
    let authority = authority.clone();
    MintedTokens::new(clock(), move || {
        let made = authority.service(&credentials(client_id), None);
        made.map_err(|error| TokenError::Refused(error.to_string()))
    })
}

/// Always returns the same token.
pub(crate) struct Fixed(pub(crate) String);

#[async_trait]
impl TokenSource for Fixed {
    async fn bearer(&self) -> Result<String, TokenError> {
        Ok(self.0.clone())
    }
}

/// The caller of a request, and its trace.
type Heard = (Peer, Option<String>);

/// A handler that accepts every meeting and records the caller and the trace.
#[derive(Clone, Default)]
pub(crate) struct Handler {
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
}

#[async_trait]
impl MediaHandlerService for Handler {
    async fn register_meeting(
        &self,
        request: Request<RegisterMeetingRequest>,
    ) -> Result<Response<RegisterMeetingResponse>, Status> {
        if request.get_ref().meeting_id == "never" {
            std::future::pending::<()>().await;
        }
        let trace = request.metadata().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        let peer = request.extensions().get::<Peer>().unwrap().clone();
        self.heard.lock().push((peer, trace));
        Ok(Response::new(RegisterMeetingResponse { accepted: true, ..Default::default() }))
    }

    async fn enforce_mute(
        &self,
        _: Request<EnforceMuteRequest>,
    ) -> Result<Response<EnforceMuteResponse>, Status> {
        Err(Status::unimplemented("not used by these tests"))
    }

    async fn release_participant(
        &self,
        _: Request<ReleaseParticipantRequest>,
    ) -> Result<Response<ReleaseParticipantResponse>, Status> {
        Ok(Response::new(ReleaseParticipantResponse::default()))
    }

    async fn release_meeting(
        &self,
        _: Request<ReleaseMeetingRequest>,
    ) -> Result<Response<ReleaseMeetingResponse>, Status> {
        Err(Status::unimplemented("not used by these tests"))
    }

    async fn route_media(
        &self,
        _: Request<RouteMediaRequest>,
    ) -> Result<Response<RouteMediaResponse>, Status> {
        Err(Status::unimplemented("not used by these tests"))
    }

    async fn stream_telemetry(
        &self,
        _: Request<Streaming<TelemetrySample>>,
    ) -> Result<Response<TelemetrySummary>, Status> {
        Err(Status::unimplemented("not used by these tests"))
    }
}

pub(crate) struct Harness {
    pub(crate) authority: Arc<Authority>,
    pub(crate) handler: Handler,
    pub(crate) channels: ChannelPool,
    _dir: tempfile::TempDir,
    _servers: JoinSet<()>,
    pub(crate) endpoint: String,
}

impl Harness {
    /// Serves a handler on the network and as `inproc:mh`. The channels use the controller's tokens.
    pub(crate) async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = authority(dir.path()).await;
        let handler = Handler::default();
        let routes = guarded(&authority, &handler);
        let channels = ChannelPool::new(minted(&authority, "mc"), clock(), None);
        channels.offer("mh", routes.clone());
        let mut servers = JoinSet::new();
        let endpoint = format!("http://{}", serve(routes.into_axum_router(), &mut servers).await);
        Self { authority, handler, channels, _dir: dir, _servers: servers, endpoint }
    }

    /// The routes of the handler behind its gatekeeper.
    pub(crate) fn routes(&self) -> Routes {
        guarded(&self.authority, &self.handler)
    }

    /// Registers a meeting with this token.
    pub(crate) async fn call(&self, tokens: Arc<dyn TokenSource>) -> Result<RegisterMeetingResponse, Status> {
        register(&self.channels.with_tokens(tokens), &self.endpoint, "m").await
    }

    pub(crate) fn claims(&self, client_id: &str) -> ServiceClaims {
        let (token, _) = self.authority.service(&credentials(client_id), None).unwrap();
        self.authority.checker().check(&token, clock().wall()).unwrap()
    }
}

fn guarded(authority: &Arc<Authority>, handler: &Handler) -> Routes {
    let authority = authority.clone();
    let keys = Keyring::local(clock(), move || authority.checker());
    let routes = Routes::new(MediaHandlerServiceServer::new(handler.clone()));
    Gatekeeper::new(ServiceRole::Mh, keys).guard(routes)
}

pub(crate) async fn register(
    channels: &ChannelPool,
    endpoint: &str,
    meeting: &str,
) -> Result<RegisterMeetingResponse, Status> {
    let mut client = MediaHandlerServiceClient::new(channels.to(endpoint).unwrap());
    let request = RegisterMeetingRequest { meeting_id: meeting.to_owned(), ..Default::default() };
    client.register_meeting(request).await.map(Response::into_inner)
}

/// Serves on a free port.
pub(crate) async fn serve(router: axum::Router, servers: &mut JoinSet<()>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    servers.spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

pub(crate) fn foreign(claims: &ServiceClaims) -> Arc<dyn TokenSource> {
    let key = SigningKey::from_seed(&[9; 32]).unwrap();
    Arc::new(Fixed(sign(&key, claims).unwrap()))
}

pub(crate) const SOON: Duration = Duration::from_secs(30);
