//! Calls between hosts: gRPC between the roles, REST to the global controller, and requests for sessions. The routes
//! are those of the roles; only the connection between caller and callee is simulated.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use tenure_meet_client::join_api::{RestRequest, RestTransport};
use tenure_meet_client::{Dial, Endpoint, JoinApiError};
use tenure_meet_wire::transport::{Connect, Listener, Offer, Session, TransportError};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::session::{SimSession, connect};
use super::world::{Carriage, Life, World};

/// Sessions that wait to be accepted.
const BACKLOG: usize = 64;
/// Percent of calls to a dead process that are refused; the others get no answer.
const REFUSED: u64 = 50;

/// What a process serves under one name.
pub(super) struct Service {
    pub(super) life: Life,
    pub(super) routes: Option<Router>,
    pub(super) sessions: Option<mpsc::Sender<SimOffer>>,
    pub(super) tasks: TaskTracker,
}

/// A response on its way.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

/// Callers that wait.
#[derive(Default)]
pub(super) struct Calls {
    waiting: BTreeMap<u64, (Life, oneshot::Sender<Option<Answer>>)>,
    next: u64,
}

impl Calls {
    /// The callers of a process that died wait no longer.
    pub(super) fn forget(&mut self, life: Life) {
        self.waiting.retain(|_, (caller, _)| *caller != life);
    }
}

impl World {
    /// Calls a service of another host. None if it is refused; pending if it gets no answer.
    async fn call(self: &Arc<Self>, from: Life, to: &str, request: Request<Bytes>) -> Option<Answer> {
        let host = *self.addresses.get(to)?;
        let (reply, answer) = oneshot::channel();
        let id = {
            let mut calls = self.calls.lock();
            calls.next += 1;
            let id = calls.next;
            calls.waiting.insert(id, (from, reply));
            id
        };
        self.note(|| format!("{} calls {to} {}", from.host, request.uri().path()));
        let (world, name) = (self.clone(), to.to_owned());
        let arrives = Box::new(move || world.serve(from, id, &name, request));
        self.carry(from, host, Carriage::Once, arrives);
        match answer.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }

    /// A call has arrived.
    fn serve(self: &Arc<Self>, caller: Life, id: u64, name: &str, request: Request<Bytes>) {
        let service = self
            .services
            .lock()
            .get(name)
            .and_then(|service| Some((service.life, service.routes.clone()?, service.tasks.clone())));
        let Some((life, routes, tasks)) = service else { return self.refuse(caller, id) };
        let world = self.clone();
        tasks.spawn(async move {
            let Ok(response) = routes.oneshot(request.map(|body| Body::new(Full::new(body)))).await;
            let (parts, body) = response.into_parts();
            // A body in memory does not fail.
            let Ok(body) = body.collect().await else { return };
            let trailers = body.trailers().cloned();
            let answer =
                Answer { status: parts.status, headers: parts.headers, body: body.to_bytes(), trailers };
            let answers = world.clone();
            let arrives = Box::new(move || answers.answered(id, Some(answer)));
            world.carry(life, caller.host, Carriage::Once, arrives);
        });
    }

    /// No process listens: the caller may learn that, or not.
    fn refuse(self: &Arc<Self>, caller: Life, id: u64) {
        let world = self.clone();
        let mut state = self.simulation.lock();
        if state.rng.chance(REFUSED) {
            let flight = state.flight();
            drop(state);
            self.after(caller.host, flight, Box::new(move || world.answered(id, None)));
        }
    }

    fn answered(&self, id: u64, answer: Option<Answer>) {
        if let Some((_, reply)) = self.calls.lock().waiting.remove(&id) {
            // A caller that stopped waiting needs no answer.
            drop(reply.send(answer));
        }
    }

    /// Routes that forward every gRPC call to a service of another host.
    pub(super) fn forward(self: &Arc<Self>, from: Life, name: &str) -> Router {
        let (world, name) = (self.clone(), name.to_owned());
        Router::new().fallback_service(tower::service_fn(move |request: Request<Body>| {
            let (world, name) = (world.clone(), name.clone());
            async move { Ok::<_, Infallible>(world.forward_one(from, &name, request).await) }
        }))
    }

    async fn forward_one(self: &Arc<Self>, from: Life, name: &str, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return unavailable() };
        let request = Request::from_parts(parts, body.to_bytes());
        let Some(answer) = self.call(from, name, request).await else { return unavailable() };
        let trailers = std::future::ready(answer.trailers.map(Ok));
        let mut response = Response::new(Body::new(Full::new(answer.body).with_trailers(trailers)));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }
}

fn unavailable() -> Response<Body> {
    tonic::Status::unavailable("connection refused").into_http()
}

/// The REST API of the global controller, as one process reaches it.
pub(super) struct SimRest {
    pub(super) world: Arc<World>,
    pub(super) life: Life,
}

#[async_trait]
impl RestTransport for SimRest {
    async fn send(&self, request: RestRequest) -> Result<(StatusCode, Vec<u8>), JoinApiError> {
        let RestRequest { method, url, bearer, body } = request;
        let refused = |why: &str| JoinApiError::Unavailable(why.to_owned());
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut sent = Request::new(Bytes::from(body));
        *sent.method_mut() = method;
        *sent.uri_mut() = url.parse::<Uri>().map_err(|_| refused("invalid URL"))?;
        let headers = sent.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(bearer) = bearer {
            let value =
                HeaderValue::from_str(&format!("Bearer {bearer}")).map_err(|_| refused("invalid token"))?;
            headers.insert(header::AUTHORIZATION, value);
        }
        let answer = self.world.call(self.life, super::nodes::API, sent).await;
        let answer = answer.ok_or_else(|| refused("connection refused"))?;
        Ok((answer.status, answer.body.to_vec()))
    }
}

/// Opens sessions to controllers.
pub(super) struct SimDial {
    pub(super) world: Arc<World>,
    pub(super) life: Life,
}

type Dialled = Result<Arc<SimSession>, TransportError>;

#[async_trait]
impl Dial for SimDial {
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        let refused = || TransportError::Refused("connection refused".to_owned());
        let name = super::nodes::name_of(&place.url).ok_or_else(refused)?.to_owned();
        let host = *self.world.addresses.get(&name).ok_or_else(refused)?;
        let (reply, answer) = oneshot::channel::<Dialled>();
        let connect = Connect {
            path: tenure_meet_mc::PATH.to_owned(),
            origin: None,
            traceparent: Some(traceparent.to_owned()),
        };
        let (world, client) = (self.world.clone(), self.life);
        self.world.note(|| format!("{} dials {name}", client.host));
        let arrives = move || {
            let service = world
                .services
                .lock()
                .get(&name)
                .and_then(|service| Some((service.life, service.sessions.clone()?)));
            if let Some((server, sessions)) = service {
                let offer = SimOffer { world, client, server, connect, reply };
                // A full queue drops the request, as a busy listener does.
                drop(sessions.try_send(offer));
            }
        };
        self.world.carry(self.life, host, Carriage::Reliable, Box::new(arrives));
        match answer.await {
            Ok(session) => Ok(session?),
            // Nothing answers: the caller has a timeout.
            Err(_) => std::future::pending().await,
        }
    }
}

/// The listener of a controller.
pub(super) struct SimListener(Mutex<mpsc::Receiver<SimOffer>>);

/// A listener, and where requests for sessions go.
pub(super) fn listener() -> (SimListener, mpsc::Sender<SimOffer>) {
    let (sender, offers) = mpsc::channel(BACKLOG);
    (SimListener(Mutex::new(offers)), sender)
}

#[async_trait]
impl Listener for SimListener {
    async fn offer(&self) -> Option<Box<dyn Offer>> {
        Some(Box::new(self.0.lock().await.recv().await?))
    }
}

/// A request for a session.
pub(super) struct SimOffer {
    world: Arc<World>,
    client: Life,
    server: Life,
    connect: Connect,
    reply: oneshot::Sender<Dialled>,
}

impl SimOffer {
    fn answer(
        world: &Arc<World>,
        server: Life,
        client: Life,
        reply: oneshot::Sender<Dialled>,
        answer: Dialled,
    ) {
        // A client that stopped waiting drops the session, which closes it.
        world.carry(server, client.host, Carriage::Reliable, Box::new(move || drop(reply.send(answer))));
    }
}

#[async_trait]
impl Offer for SimOffer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<std::net::SocketAddr> {
        None
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn Session>, TransportError> {
        let Self { world, client, server, reply, .. } = *self;
        let [near, far] = connect(&world, client, server);
        Self::answer(&world, server, client, reply, Ok(near));
        Ok(far)
    }

    async fn reject(self: Box<Self>, status: u16) {
        let Self { world, client, server, reply, .. } = *self;
        Self::answer(&world, server, client, reply, Err(TransportError::Refused(status.to_string())));
    }
}
