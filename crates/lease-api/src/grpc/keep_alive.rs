//! The stream on which a client keeps all its leases alive.
//!
//! Claims and releases write, and wait for the disk or for each other. Renewals do not, and must not be late. So the stream
//! is read whatever claims and releases wait for: they run within a limit, then queue, and beyond that are refused. Only a
//! client that does not read its responses, or sends more renewals than a store answers, is read more slowly.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use prost::Message;
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

/// Claims and releases of one stream that run concurrently; more are queued.
const MAX_CONCURRENT: usize = 128;
/// Claims and releases that are queued on one stream; more are refused.
const MAX_QUEUED: usize = 1_024;
/// Longest claim or release that is queued. A valid one is shorter; a longer one is refused as soon as it runs.
const MAX_QUEUED_BYTES: usize = 4_096;
/// Batches of renewals of one stream that run concurrently; more wait in the connection.
const MAX_RENEWALS: usize = 256;
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
    renewals: FuturesUnordered<BoxFuture<'static, KeepAliveResponse>>,
    /// Claims and releases.
    running: FuturesUnordered<BoxFuture<'static, KeepAliveResponse>>,
    /// Claims and releases that run next.
    queued: VecDeque<KeepAliveRequest>,
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
            renewals: FuturesUnordered::new(),
            running: FuturesUnordered::new(),
            queued: VecDeque::new(),
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
            Some(Action::Renew(_)) => {
                self.renewals.push(self.client.clone().respond(request).boxed());
                None
            }
            _ => self.run_or_queue(request),
        }
    }

    fn run_or_queue(&mut self, request: KeepAliveRequest) -> Option<KeepAliveResponse> {
        if self.running.len() < MAX_CONCURRENT || request.encoded_len() > MAX_QUEUED_BYTES {
            self.running.push(self.client.clone().respond(request).boxed());
            return None;
        }
        if self.queued.len() >= MAX_QUEUED {
            let refusal =
                Refusal::TooMany { what: "claims and releases queued on one stream", limit: MAX_QUEUED };
            return refused(request.id, refusal.into());
        }
        self.queued.push_back(request);
        None
    }

    /// Polls claims and releases, starting queued ones as others end.
    fn poll_running(&mut self, context: &mut Context<'_>) -> Poll<Option<KeepAliveResponse>> {
        while self.running.len() < MAX_CONCURRENT
            && let Some(request) = self.queued.pop_front()
        {
            self.running.push(self.client.clone().respond(request).boxed());
        }
        self.running.poll_next_unpin(context)
    }

    fn park(&mut self, id: u64, request: KeepAliveRequest) -> Option<KeepAliveResponse> {
        if self.parked.len() >= MAX_PARKED {
            let refusal = Refusal::TooMany { what: "claims waiting on one stream", limit: MAX_PARKED };
            return refused(id, refusal.into());
        }
        let Ok(permit) = self.client.service.parked_claims.clone().try_acquire_owned() else {
            let refusal = Refusal::TooMany { what: "claims waiting on streams", limit: MAX_PARKED_CLAIMS };
            return refused(id, refusal.into());
        };
        if self.cancel_handles.contains_key(&id) {
            return refused(id, Error::invalid("id", "is already used by a waiting claim on this stream"));
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

    /// Reads the requests that have arrived. Returns a response that is known at once.
    fn read_requests(&mut self, context: &mut Context<'_>) -> Option<KeepAliveResponse> {
        // Once per poll and not per request: it takes a lock that all streams share.
        if self.state == State::Open && self.shutdown.poll_unpin(context).is_ready() {
            self.state = State::Draining;
        }
        while self.state == State::Open && self.renewals.len() < MAX_RENEWALS {
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
        if let Poll::Ready(Some(response)) = this.renewals.poll_next_unpin(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        if let Some(response) = this.read_requests(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        // Polled again, because more may have been read.
        if let Poll::Ready(Some(response)) = this.renewals.poll_next_unpin(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        if let Poll::Ready(Some(response)) = this.poll_running(context) {
            return Poll::Ready(Some(Ok(response)));
        }
        while let Poll::Ready(Some((id, response))) = this.parked.poll_next_unpin(context) {
            this.cancel_handles.remove(&id);
            if let Some(response) = response {
                return Poll::Ready(Some(Ok(response)));
            }
        }
        let over = this.state != State::Open
            && this.renewals.is_empty()
            && this.running.is_empty()
            && this.parked.is_empty();
        if over { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// The response to a request that is not accepted.
fn refused(id: u64, error: Error) -> Option<KeepAliveResponse> {
    let problem = Outcome::Problem((&ApiError::from(error)).into());
    Some(KeepAliveResponse { id, outcome: Some(problem) })
}
