//! One stream for renewals, claims and releases, including a bounded number of waiting claims.
//!
//! Callers write their requests to the connection themselves. One task opens the stream, dispatches the responses and
//! drives the connection below, so that a request and its response cost two task switches.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use tenure_executor::ConnectionExecutor;
use tenure_lease_wire::proto::keep_alive_request::Action;
use tenure_lease_wire::proto::keep_alive_response::Outcome;
use tenure_lease_wire::proto::leases_client::LeasesClient;
use tenure_lease_wire::proto::{
    AcquireRequest, AcquireResponse, CancelRequest, KeepAliveRequest, KeepAliveResponse, ReleaseRequest,
    ReleaseResponse, RenewRequest, RenewResponse, Renewal,
};
use tenure_lease_wire::{ENGINE, MAX_MESSAGE_BYTES};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::error::CallError;
use crate::headers::RequestHeaders;

/// Requests that were handed to the connection and are not yet written.
const OUTGOING: usize = 256;
/// Claims that wait on one stream; a server accepts 1,024.
const WAITING_CLAIMS: usize = 1_000;
/// Claims and releases in flight on one stream; more wait here. A server queues 1,024.
const IN_FLIGHT: usize = 1_000;
/// Batches of renewals in flight on one stream; more wait here. A server runs 256.
const RENEWALS_IN_FLIGHT: usize = 200;

const STREAM_BROKE: &str = "the keep-alive stream broke";

/// A keep-alive stream. It is opened by the first request, and again after it broke.
pub(crate) struct KeepAliveStream {
    state: Arc<StreamState>,
    waiting: Arc<Semaphore>,
    in_flight: Semaphore,
    renewals_in_flight: Semaphore,
    _task: JoinSet<()>,
}

/// What callers share with the task of the stream.
struct StreamState {
    pending: Mutex<Pending>,
    /// Notified when the caller of a waiting claim gave up.
    cancelled: Notify,
    /// Requests in flight and those that wait to be sent, waiting claims excluded.
    load: AtomicUsize,
}

/// The requests of the current stream.
struct Pending {
    writer: mpsc::Sender<KeepAliveRequest>,
    responses: HashMap<u64, ResponseSender>,
    /// Waiting claims that the server should cancel.
    cancelled: Vec<u64>,
    last_id: u64,
    /// Responses since the last request was sent.
    response_count: usize,
}

type ResponseSender = oneshot::Sender<Result<Outcome, CallError>>;

/// Permits one claim to wait on the stream.
pub(crate) struct WaiterPermit {
    _permit: OwnedSemaphorePermit,
}

impl KeepAliveStream {
    /// Starts the task of the stream, which also drives the connection of `leases`.
    pub(crate) fn start(
        leases: LeasesClient<Channel>,
        headers: RequestHeaders,
        executor: ConnectionExecutor,
    ) -> Self {
        let (writer, outgoing) = mpsc::channel(OUTGOING);
        let state = Arc::new(StreamState::new(writer));
        let mut task = JoinSet::new();
        task.spawn(executor.run(run(leases, headers, state.clone(), outgoing)));
        Self {
            state,
            waiting: Arc::new(Semaphore::new(WAITING_CLAIMS)),
            in_flight: Semaphore::new(IN_FLIGHT),
            renewals_in_flight: Semaphore::new(RENEWALS_IN_FLIGHT),
            _task: task,
        }
    }

    pub(crate) async fn renew(&self, items: Vec<Renewal>) -> Result<RenewResponse, CallError> {
        let action = Action::Renew(RenewRequest { items });
        match self.send_within(&self.renewals_in_flight, action).await? {
            Outcome::Renewed(response) => Ok(response),
            _ => Err(unexpected_response()),
        }
    }

    pub(crate) async fn acquire(&self, claim: AcquireRequest) -> Result<AcquireResponse, CallError> {
        match self.send_within(&self.in_flight, Action::Acquire(claim)).await? {
            Outcome::Acquired(response) => Ok(response),
            _ => Err(unexpected_response()),
        }
    }

    /// How many requests are in flight or wait to be sent, waiting claims excluded.
    pub(crate) fn load(&self) -> usize {
        self.state.load.load(Ordering::Relaxed)
    }

    /// A permit for a waiting claim, if one is left.
    pub(crate) fn waiter_permit(&self) -> Option<WaiterPermit> {
        self.waiting.clone().try_acquire_owned().ok().map(|_permit| WaiterPermit { _permit })
    }

    /// A claim that may wait. Dropping the future removes it from the queue.
    pub(crate) async fn acquire_waiting(
        &self,
        permit: WaiterPermit,
        claim: AcquireRequest,
    ) -> Result<AcquireResponse, CallError> {
        match self.send(Action::Acquire(claim), Some(permit)).await? {
            Outcome::Acquired(response) => Ok(response),
            _ => Err(unexpected_response()),
        }
    }

    pub(crate) async fn release(&self, release: ReleaseRequest) -> Result<ReleaseResponse, CallError> {
        match self.send_within(&self.in_flight, Action::Release(release)).await? {
            Outcome::Released(response) => Ok(response),
            _ => Err(unexpected_response()),
        }
    }

    /// Sends one request when a permit of `limit` is free, and waits for its response.
    ///
    /// A server that does not keep up would otherwise buffer the requests of all callers, and close the connection with
    /// every stream and queue position on it.
    async fn send_within(&self, limit: &Semaphore, action: Action) -> Result<Outcome, CallError> {
        let _load = Load::add(&self.state.load);
        // The semaphore is never closed.
        let _permit = limit.acquire().await;
        self.send(action, None).await
    }

    /// Sends one request and waits for its response.
    async fn send(&self, action: Action, permit: Option<WaiterPermit>) -> Result<Outcome, CallError> {
        let (sender, response) = oneshot::channel();
        let (id, writer) = self.state.pending.lock().register(sender);
        let mut request = RequestGuard { state: &self.state, id, permit, answered: false };
        if writer.send(KeepAliveRequest { id, action: Some(action) }).await.is_err() {
            return Err(CallError::lost(STREAM_BROKE));
        }
        let outcome = response.await.unwrap_or_else(|_| Err(CallError::lost(STREAM_BROKE)));
        request.answered = true;
        outcome
    }
}

/// One more request, until dropped.
struct Load<'a>(&'a AtomicUsize);

impl<'a> Load<'a> {
    fn add(load: &'a AtomicUsize) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self(load)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request in flight. Dropped without a response, it is forgotten, and a waiting claim is cancelled.
struct RequestGuard<'a> {
    state: &'a StreamState,
    id: u64,
    permit: Option<WaiterPermit>,
    answered: bool,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut pending = self.state.pending.lock();
        if pending.responses.remove(&self.id).is_some() && self.permit.is_some() {
            pending.cancelled.push(self.id);
            self.state.cancelled.notify_one();
        }
    }
}

impl Pending {
    /// Registers a request; returns its id and the writer for it.
    fn register(&mut self, sender: ResponseSender) -> (u64, mpsc::Sender<KeepAliveRequest>) {
        self.last_id += 1;
        self.responses.insert(self.last_id, sender);
        (self.last_id, self.writer.clone())
    }
}

impl StreamState {
    fn new(writer: mpsc::Sender<KeepAliveRequest>) -> Self {
        let pending = Pending {
            writer,
            responses: HashMap::new(),
            cancelled: Vec::new(),
            last_id: 0,
            response_count: 0,
        };
        Self { pending: Mutex::new(pending), cancelled: Notify::new(), load: AtomicUsize::new(0) }
    }

    /// Prepares a new stream. Requests that wait on the old one fail as lost.
    fn reset(&self) -> mpsc::Receiver<KeepAliveRequest> {
        let (writer, outgoing) = mpsc::channel(OUTGOING);
        let waiting = {
            let mut pending = self.pending.lock();
            pending.writer = writer;
            pending.cancelled.clear();
            std::mem::take(&mut pending.responses)
        };
        drop(waiting);
        outgoing
    }

    fn dispatch(&self, response: KeepAliveResponse) {
        let sender = {
            let mut pending = self.pending.lock();
            pending.response_count += 1;
            pending.responses.remove(&response.id)
        };
        // The caller may have given up.
        let Some(sender) = sender else { return };
        let outcome = match response.outcome {
            Some(Outcome::Problem(problem)) => Err(CallError::Rejected(problem.into())),
            Some(outcome) => Ok(outcome),
            None => Err(CallError::lost("unexpected response: it is empty")),
        };
        drop(sender.send(outcome));
    }

    /// Fails all requests because the stream could not be opened.
    fn fail_all(&self, status: &Status) {
        let waiting = std::mem::take(&mut self.pending.lock().responses);
        for sender in waiting.into_values() {
            drop(sender.send(Err(CallError::from(status.clone()))));
        }
    }

    async fn next_cancelled(&self) -> u64 {
        loop {
            if let Some(id) = self.pending.lock().cancelled.pop() {
                return id;
            }
            self.cancelled.notified().await;
        }
    }

    /// Cancels claims whose callers gave up, for as long as the stream lasts.
    async fn send_cancellations(&self) {
        let writer = self.pending.lock().writer.clone();
        loop {
            let id = self.next_cancelled().await;
            let cancel = KeepAliveRequest { id: 0, action: Some(Action::Cancel(CancelRequest { id })) };
            if writer.send(cancel).await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The requests in the order they are sent. After a burst of responses most callers send their next request at once:
/// they get a few turns to do so, and then everything is sent together.
struct OutgoingRequests {
    state: Arc<StreamState>,
    requests: mpsc::Receiver<KeepAliveRequest>,
    /// How many more turns callers get before something is sent.
    turns_left: u8,
}

/// As many responses are a burst.
const BURST: usize = 8;
/// How many turns callers get after a burst.
const TURNS: u8 = 3;

impl OutgoingRequests {
    fn new(state: Arc<StreamState>, requests: mpsc::Receiver<KeepAliveRequest>) -> Self {
        Self { state, requests, turns_left: TURNS }
    }

    /// Whether more requests are likely to follow.
    fn expects_more(&self) -> bool {
        if self.turns_left == 0 || self.requests.is_empty() {
            return false;
        }
        let responses = self.state.pending.lock().response_count;
        responses >= BURST && self.requests.len() < responses / 4 * 3
    }
}

impl Stream for OutgoingRequests {
    type Item = KeepAliveRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<KeepAliveRequest>> {
        if self.expects_more() {
            self.turns_left -= 1;
            // Wakes this stream after other tasks had a turn.
            let _ = pin!(tokio::task::yield_now()).poll(context);
            return Poll::Pending;
        }
        let next = self.requests.poll_recv(context);
        match next.is_pending() {
            true => {
                self.turns_left = TURNS;
                self.state.pending.lock().response_count = 0;
            }
            // Once something is sent, everything is.
            false => self.turns_left = 0,
        }
        next
    }
}

fn unexpected_response() -> CallError {
    let why = "unexpected response: it does not match the request";
    CallError::Rejected(tenure_lease::Error::unknown(ENGINE, why))
}

async fn run(
    leases: LeasesClient<Channel>,
    headers: RequestHeaders,
    state: Arc<StreamState>,
    mut outgoing: mpsc::Receiver<KeepAliveRequest>,
) {
    while let Some(first) = outgoing.recv().await {
        let requests = stream::iter([first]).chain(OutgoingRequests::new(state.clone(), outgoing));
        let request = headers.request(requests);
        let opened = leases.clone().max_decoding_message_size(MAX_MESSAGE_BYTES).keep_alive(request).await;
        match opened {
            Ok(responses) => {
                tokio::select! {
                    biased;
                    () = dispatch_all(&state, responses.into_inner()) => {}
                    () = state.send_cancellations() => {}
                }
            }
            Err(status) => state.fail_all(&status),
        }
        outgoing = state.reset();
    }
}

/// Dispatches responses until the stream ends.
async fn dispatch_all(state: &StreamState, mut responses: Streaming<KeepAliveResponse>) {
    loop {
        match responses.message().await {
            Ok(Some(response)) => state.dispatch(response),
            Ok(None) => return,
            Err(status) => {
                tracing::debug!(%status, "keep-alive stream broke");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outgoing requests after so many responses.
    fn after_responses(responses: usize) -> (mpsc::Sender<KeepAliveRequest>, OutgoingRequests) {
        let (writer, requests) = mpsc::channel(OUTGOING);
        let state = StreamState::new(writer.clone());
        state.pending.lock().response_count = responses;
        (writer, OutgoingRequests::new(Arc::new(state), requests))
    }

    fn write_requests(writer: &mpsc::Sender<KeepAliveRequest>, count: usize) {
        (0..count).for_each(|_| writer.try_send(KeepAliveRequest { id: 1, action: None }).unwrap());
    }

    /// How many requests are sent now.
    fn count_sent(requests: &mut OutgoingRequests) -> usize {
        let mut context = Context::from_waker(std::task::Waker::noop());
        std::iter::from_fn(|| match requests.poll_next_unpin(&mut context) {
            Poll::Ready(request) => request,
            Poll::Pending => None,
        })
        .count()
    }

    #[tokio::test]
    async fn a_request_is_sent_at_once_unless_a_burst_of_responses_came_before() {
        for responses in [0, 1, BURST - 1] {
            let (writer, mut requests) = after_responses(responses);
            write_requests(&writer, 1);
            assert_eq!(count_sent(&mut requests), 1, "after {responses} responses");
        }
    }

    #[tokio::test]
    async fn requests_after_a_burst_of_responses_are_sent_together() {
        let (writer, mut requests) = after_responses(BURST);
        write_requests(&writer, 1);
        assert_eq!(count_sent(&mut requests), 0);
        write_requests(&writer, BURST - 2);
        assert_eq!(count_sent(&mut requests), BURST - 1);
        write_requests(&writer, 1);
        assert_eq!(count_sent(&mut requests), 1, "a later request does not wait again");
    }

    #[tokio::test]
    async fn a_request_does_not_wait_long_for_callers_that_are_done() {
        let (writer, mut requests) = after_responses(BURST);
        write_requests(&writer, 1);
        for _ in 0..TURNS {
            assert_eq!(count_sent(&mut requests), 0);
        }
        assert_eq!(count_sent(&mut requests), 1);
    }
}
