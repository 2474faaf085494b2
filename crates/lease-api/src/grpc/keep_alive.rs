//! The stream on which a client keeps all its leases alive.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use tenure_lease::{Error, Refusal};
use tenure_service::Caller;
use tonic::{Status, Streaming};

use super::access::Access;
use super::leases::{acquire, release, renew};
use crate::error::ApiError;
use crate::service::{LeaseService, MAX_PARKED_CLAIMS};
use tenure_lease_wire::proto::keep_alive_request::Action;
use tenure_lease_wire::proto::keep_alive_response::Outcome;
use tenure_lease_wire::proto::{KeepAliveRequest, KeepAliveResponse};

/// Requests of one stream that run concurrently; more wait in the connection.
const MAX_CONCURRENT: usize = 128;
/// Claims that wait on one stream; more are refused.
const MAX_PARKED: usize = 1_024;

/// The client of a stream.
pub(super) struct StreamClient {
    service: Arc<LeaseService>,
    access: Access,
    caller: Option<Caller>,
}

/// The responses to a client, until it ends the stream or the server shuts down. Claims that still wait when the client
/// leaves are withdrawn.
pub(super) struct Responses {
    client: Arc<StreamClient>,
    requests: Streaming<KeepAliveRequest>,
    shutdown: BoxFuture<'static, ()>,
    running: FuturesUnordered<BoxFuture<'static, KeepAliveResponse>>,
    parked: FuturesUnordered<ParkedClaim>,
    /// Cancels each parked claim.
    cancel_handles: HashMap<u64, AbortHandle>,
    state: State,
}

/// The id of a waiting claim, and its response unless it was cancelled.
type ParkedClaim = BoxFuture<'static, (u64, Option<KeepAliveResponse>)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The server shuts down: requests that run are still answered.
    Draining,
    /// The client sends nothing more.
    HalfClosed,
}

impl StreamClient {
    pub(super) fn new(service: Arc<LeaseService>, access: Access, caller: Option<Caller>) -> Arc<Self> {
        Arc::new(Self { service, access, caller })
    }

    async fn perform(&self, action: Option<Action>) -> Result<Outcome, ApiError> {
        let (service, access) = (&*self.service, self.access);
        match action {
            Some(Action::Renew(request)) => {
                Ok(Outcome::Renewed(renew(service, access, request.items).await?))
            }
            Some(Action::Acquire(request)) => {
                self.check_rate()?;
                Ok(Outcome::Acquired(acquire(service, access, request).await?.into()))
            }
            Some(Action::Release(request)) => {
                self.check_rate()?;
                Ok(Outcome::Released(release(service, access, request).await?.into()))
            }
            Some(Action::Cancel(_)) | None => Err(Error::invalid("action", "is missing").into()),
        }
    }

    async fn respond(self: Arc<Self>, request: KeepAliveRequest) -> KeepAliveResponse {
        let result = self.perform(request.action).await;
        let outcome = result.unwrap_or_else(|error| Outcome::Problem((&error).into()));
        KeepAliveResponse { id: request.id, outcome: Some(outcome) }
    }

    /// Applies the rate limit, which otherwise counts the whole stream as one call.
    fn check_rate(&self) -> Result<(), ApiError> {
        match (&self.service.options.rate_limit, &self.caller) {
            (Some(limit), Some(caller)) => Ok(limit.check(caller)?),
            _ => Ok(()),
        }
    }
}

impl Responses {
    pub(super) fn new(client: Arc<StreamClient>, requests: Streaming<KeepAliveRequest>) -> Self {
        let shutdown = client.service.options.shutdown.token().cancelled_owned().boxed();
        Self {
            client,
            requests,
            shutdown,
            running: FuturesUnordered::new(),
            parked: FuturesUnordered::new(),
            cancel_handles: HashMap::new(),
            state: State::Open,
        }
    }

    /// Starts a request; returns its response if that is known at once.
    fn start(&mut self, request: KeepAliveRequest) -> Option<KeepAliveResponse> {
        let id = request.id;
        match &request.action {
            Some(Action::Cancel(cancel)) => {
                // A claim that was answered meanwhile cannot be cancelled; the client knows its token.
                if let Some(handle) = self.cancel_handles.remove(&cancel.id) {
                    handle.abort();
                }
                None
            }
            Some(Action::Acquire(claim)) if claim.wait_ms > 0 => self.park(id, request),
            _ => {
                self.running.push(self.client.clone().respond(request).boxed());
                None
            }
        }
    }

    fn park(&mut self, id: u64, request: KeepAliveRequest) -> Option<KeepAliveResponse> {
        let refused = |error: Error| {
            let problem = Outcome::Problem((&ApiError::from(error)).into());
            Some(KeepAliveResponse { id, outcome: Some(problem) })
        };
        if self.parked.len() >= MAX_PARKED {
            return refused(
                Refusal::TooMany { what: "claims waiting on one stream", limit: MAX_PARKED }.into(),
            );
        }
        let Ok(permit) = self.client.service.parked_claims.clone().try_acquire_owned() else {
            return refused(
                Refusal::TooMany { what: "claims waiting on streams", limit: MAX_PARKED_CLAIMS }.into(),
            );
        };
        if self.cancel_handles.contains_key(&id) {
            return refused(Error::invalid("id", "is already used by a waiting claim on this stream"));
        }
        let (handle, registration) = AbortHandle::new_pair();
        self.cancel_handles.insert(id, handle);
        let waiting = Abortable::new(self.client.clone().respond(request), registration);
        let parked = async move {
            let response = waiting.await.ok();
            drop(permit);
            (id, response)
        };
        self.parked.push(parked.boxed());
        None
    }

    /// Reads the requests that have arrived, within the limit of concurrent ones.
    fn read_requests(&mut self, context: &mut Context<'_>) -> Option<KeepAliveResponse> {
        // Once per poll and not per request: it takes a lock that all streams share.
        if self.state == State::Open && self.shutdown.poll_unpin(context).is_ready() {
            self.state = State::Draining;
        }
        while self.state == State::Open && self.running.len() < MAX_CONCURRENT {
            match self.requests.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(request))) => {
                    let response = self.start(request);
                    if response.is_some() {
                        return response;
                    }
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    self.state = State::HalfClosed;
                    self.parked.clear();
                }
                Poll::Pending => break,
            }
        }
        None
    }
}

impl Stream for Responses {
    type Item = Result<KeepAliveResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(response) = this.read_requests(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        if let Poll::Ready(Some(response)) = this.running.poll_next_unpin(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        while let Poll::Ready(Some((id, response))) = this.parked.poll_next_unpin(context) {
            this.cancel_handles.remove(&id);
            if let Some(response) = response {
                return Poll::Ready(Some(Ok(response)));
            }
        }
        let over = this.state != State::Open && this.running.is_empty() && this.parked.is_empty();
        if over { Poll::Ready(None) } else { Poll::Pending }
    }
}
