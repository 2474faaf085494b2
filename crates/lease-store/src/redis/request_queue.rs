//! Requests of one verb that wait for the next call.

use std::collections::VecDeque;

use hashbrown::HashSet;
use redis::Value;
use tenure_lease::{Generation, Key, Released, Result, Tick};
use tokio::sync::oneshot;

use super::fault::Fault;
use super::in_flight::TokenRelease;
use super::protocol::acquire::{self, ClaimReply, ClaimRequest};
use super::protocol::release::{self, ReleaseRequest};
use super::protocol::{Instance, ScriptCall, ServerIdentity, WaiterId};

/// Most requests in one call.
const BATCH: usize = 128;

/// A waiting claim that a release granted the key to.
type GrantedWaiter = (WaiterId, Generation);

/// A request of which many share one call.
pub(super) trait BatchRequest: Send + Sized + 'static {
    /// Its result.
    type Output: Send;

    /// Whether a reply says which waiting claims of this process were granted.
    const GRANTS_WAITERS: bool;

    /// Its key; two requests for one key never share a call.
    fn key(&self) -> &Key;

    /// Encodes requests as one call. `repeated`: an earlier attempt may have been applied.
    fn encode(
        batch: &[PendingRequest<Self>],
        server: &ServerIdentity,
        instance: &Instance,
        repeated: bool,
    ) -> ScriptCall;

    /// Decodes the reply to one request, and which waiting claim was granted.
    fn decode(value: &Value) -> Result<(Self::Output, Option<GrantedWaiter>)>;
}

impl BatchRequest for ClaimRequest {
    type Output = ClaimReply;

    const GRANTS_WAITERS: bool = false;

    fn key(&self) -> &Key {
        &self.key
    }

    fn encode(batch: &[PendingRequest<Self>], server: &ServerIdentity, _: &Instance, _: bool) -> ScriptCall {
        acquire::encode(server, batch.iter().map(|pending| &pending.request))
    }

    fn decode(value: &Value) -> Result<(ClaimReply, Option<GrantedWaiter>)> {
        Ok((acquire::decode(value)?, None))
    }
}

impl BatchRequest for ReleaseRequest {
    type Output = Released;

    const GRANTS_WAITERS: bool = true;

    fn key(&self) -> &Key {
        &self.key
    }

    fn encode(
        batch: &[PendingRequest<Self>],
        server: &ServerIdentity,
        instance: &Instance,
        repeated: bool,
    ) -> ScriptCall {
        release::encode(server, instance, batch.iter().map(|pending| &pending.request), repeated)
    }

    fn decode(value: &Value) -> Result<(Released, Option<GrantedWaiter>)> {
        let reply = release::decode(value)?;
        Ok((reply.released, reply.granted))
    }
}

/// A request and where its result goes.
pub(super) struct PendingRequest<R: BatchRequest> {
    pub(super) request: R,
    pub(super) deadline: Tick,
    pub(super) caller: Caller<R::Output>,
}

/// Where a result goes.
pub(super) enum Caller<T> {
    /// To a caller that waits.
    Waits(oneshot::Sender<Result<T>>),
    /// Nowhere: the caller was dropped. The request is retried until then, and keeps claims with its token out.
    Dropped { retry_until: Tick, _guard: Option<TokenRelease> },
}

impl<R: BatchRequest> PendingRequest<R> {
    /// Sends the result; a caller that was dropped meanwhile is no error.
    pub(super) fn complete(self, result: Result<R::Output>) {
        if let Caller::Waits(reply) = self.caller {
            let _ = reply.send(result);
        }
    }
}

/// The requests of one verb, in the order they came.
pub(super) struct RequestQueue<R: BatchRequest> {
    pending: VecDeque<PendingRequest<R>>,
    /// The keys of the call being put together.
    keys: HashSet<Key>,
}

impl<R: BatchRequest> Default for RequestQueue<R> {
    fn default() -> Self {
        Self { pending: VecDeque::new(), keys: HashSet::new() }
    }
}

impl<R: BatchRequest> RequestQueue<R> {
    pub(super) fn push(&mut self, pending: PendingRequest<R>) {
        self.pending.push_back(pending);
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// When the first of them must be answered.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.pending.front().map(|pending| pending.deadline)
    }

    /// Fails the requests whose deadline has passed and that were never sent.
    pub(super) fn expire(&mut self, now: Tick) {
        while self.pending.front().is_some_and(|pending| pending.deadline <= now) {
            if let Some(pending) = self.pending.pop_front() {
                pending
                    .complete(Err(Fault::unsent("the server did not answer earlier calls in time").into()));
            }
        }
    }

    /// Takes the requests of the next call. Those for a key that is in it already keep their order and wait.
    pub(super) fn take_batch(&mut self) -> Vec<PendingRequest<R>> {
        let mut batch = Vec::with_capacity(self.pending.len().min(BATCH));
        let mut later = Vec::new();
        self.keys.clear();
        while batch.len() < BATCH && later.len() < BATCH {
            let Some(pending) = self.pending.pop_front() else { break };
            match self.keys.insert(pending.request.key().clone()) {
                true => batch.push(pending),
                false => later.push(pending),
            }
        }
        for pending in later.into_iter().rev() {
            self.pending.push_front(pending);
        }
        batch
    }
}
