//! Concurrent claims and releases share calls.
//!
//! One task owns the queues. While calls are under way, requests gather; each call takes what has gathered. A request
//! that finds no call under way is sent at once.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::Value;
use tenure_lease::{Error, Released, Result, Tick};
use tokio::sync::{Notify, mpsc, oneshot};

use super::client::{Client, Request as ServerRequest, Retry};
use super::connection::Connection;
use super::fault::{ENGINE, Fault};
use super::in_flight::{InFlightClaims, TokenRelease};
use super::protocol::acquire::{ClaimReply, ClaimRequest};
use super::protocol::release::ReleaseRequest;
use super::protocol::reply;
use super::request_queue::{BatchRequest, Caller, PendingRequest, RequestQueue};
use super::wake_ups::WakeUps;

/// Most requests between callers and the task.
const QUEUE: usize = 4_096;
/// Most calls under way at once.
const CALLS: usize = 2;
/// Most releases of dropped callers that wait for a place in the queue.
const ABANDONED: usize = 65_536;

enum Request {
    Claim(PendingRequest<ClaimRequest>),
    Release(PendingRequest<ReleaseRequest>),
}

/// Takes claims and releases and sends them in batches.
#[derive(Clone)]
pub(super) struct RequestBatcher {
    client: Arc<Client>,
    queue: mpsc::Sender<Request>,
    abandoned: Arc<Abandoned>,
    /// The claims under way.
    pub(super) in_flight: InFlightClaims,
}

/// Releases without a caller that found the queue full.
#[derive(Default)]
struct Abandoned {
    releases: Mutex<VecDeque<PendingRequest<ReleaseRequest>>>,
    arrived: Notify,
}

impl RequestBatcher {
    /// A batcher and its task.
    pub(super) fn new(
        client: Arc<Client>,
        wake_ups: Arc<WakeUps>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let abandoned = Arc::new(Abandoned::default());
        let task = BatchTask {
            client: Arc::clone(&client),
            wake_ups,
            claims: RequestQueue::default(),
            releases: RequestQueue::default(),
            calls: FuturesUnordered::new(),
            last_batch: 0,
        };
        let running = task.run(receiver, Arc::clone(&abandoned));
        (Self { client, queue, abandoned, in_flight: InFlightClaims::default() }, running)
    }

    /// Claims a key.
    pub(super) async fn claim(&self, request: ClaimRequest) -> Result<ClaimReply> {
        let (reply, result) = oneshot::channel();
        let pending =
            PendingRequest { request, deadline: self.client.deadline(), caller: Caller::Waits(reply) };
        self.queue.send(Request::Claim(pending)).await.map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }

    /// Releases a key.
    pub(super) async fn release(&self, request: ReleaseRequest) -> Result<Released> {
        let (reply, result) = oneshot::channel();
        let pending =
            PendingRequest { request, deadline: self.client.deadline(), caller: Caller::Waits(reply) };
        self.queue.send(Request::Release(pending)).await.map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }

    /// Releases a key for a caller that was dropped. Never waits, and is never lost silently.
    pub(super) fn abandon(&self, request: ReleaseRequest, guard: Option<TokenRelease>) {
        let retry_until = self.client.clock.now() + self.client.options.max_ttl.as_duration();
        let caller = Caller::Dropped { retry_until, _guard: guard };
        let pending = PendingRequest { request, deadline: self.client.deadline(), caller };
        let pending = match self.queue.try_send(Request::Release(pending)) {
            Err(mpsc::error::TrySendError::Full(Request::Release(pending))) => pending,
            // The engine is closed: what its process holds ends with its TTL.
            Ok(()) | Err(_) => return,
        };
        let mut releases = self.abandoned.releases.lock();
        if releases.len() < ABANDONED {
            releases.push_back(pending);
            self.abandoned.arrived.notify_one();
        } else {
            warn_lost(&pending.request);
        }
    }
}

/// A call. It returns the releases without a caller that failed.
type BatchCall = Pin<Box<dyn Future<Output = Vec<PendingRequest<ReleaseRequest>>> + Send>>;

struct BatchTask {
    client: Arc<Client>,
    wake_ups: Arc<WakeUps>,
    claims: RequestQueue<ClaimRequest>,
    releases: RequestQueue<ReleaseRequest>,
    calls: FuturesUnordered<BatchCall>,
    /// How many requests the last call had.
    last_batch: usize,
}

impl BatchTask {
    async fn run(mut self, mut queue: mpsc::Receiver<Request>, abandoned: Arc<Abandoned>) {
        let mut inbox = Vec::with_capacity(QUEUE);
        loop {
            let room = QUEUE.saturating_sub(self.len());
            let first_deadline = self.first_deadline();
            let clock = Arc::clone(&self.client.clock);
            tokio::select! {
                biased;
                Some(failed) = self.calls.next(), if !self.calls.is_empty() => self.retry(failed),
                received = queue.recv_many(&mut inbox, room), if room > 0 => {
                    if received == 0 {
                        return;
                    }
                    inbox.drain(..).for_each(|request| self.push(request));
                }
                () = abandoned.arrived.notified(), if room > 0 => {
                    let releases: Vec<_> = abandoned.releases.lock().drain(..).collect();
                    let deadline = self.client.deadline();
                    for release in releases {
                        self.releases.push(PendingRequest { deadline, ..release });
                    }
                }
                () = async move { clock.sleep_until(first_deadline.unwrap_or_default()).await },
                    if first_deadline.is_some() =>
                {
                    let now = self.client.clock.now();
                    self.claims.expire(now);
                    self.releases.expire(now);
                }
            }
            if !self.calls.is_empty() {
                // The server is busy: callers that were just answered may send again before the next call leaves.
                tokio::task::yield_now().await;
                while self.len() < QUEUE
                    && let Ok(request) = queue.try_recv()
                {
                    self.push(request);
                }
            }
            self.send_batches();
        }
    }

    fn len(&self) -> usize {
        self.claims.len() + self.releases.len()
    }

    fn push(&mut self, request: Request) {
        match request {
            Request::Claim(pending) => self.claims.push(pending),
            Request::Release(pending) => self.releases.push(pending),
        }
    }

    /// Retries abandoned releases while the lease that they would release may still be held.
    fn retry(&mut self, failed: Vec<PendingRequest<ReleaseRequest>>) {
        let now = self.client.clock.now();
        for pending in failed {
            // A failure that came at once would come again at once.
            let waited = pending.deadline.since(now) < self.client.options.op_timeout / 2;
            match pending.caller {
                Caller::Dropped { retry_until, .. } if waited && now < retry_until => {
                    self.releases.push(PendingRequest { deadline: self.client.deadline(), ..pending });
                }
                _ => warn_lost(&pending.request),
            }
        }
    }

    fn first_deadline(&self) -> Option<Tick> {
        [self.claims.deadline(), self.releases.deadline()].into_iter().flatten().min()
    }

    /// Sends what has gathered, the longer queue first.
    fn send_batches(&mut self) {
        let longer = |task: &Self| task.claims.len().max(task.releases.len());
        while should_send(self.calls.len(), longer(self), self.last_batch) {
            let before = self.len();
            let (client, wake_ups) = (Arc::clone(&self.client), Arc::clone(&self.wake_ups));
            let call: BatchCall = match self.claims.len() > self.releases.len() {
                true => {
                    let batch = self.claims.take_batch();
                    Box::pin(async move {
                        send_batch(client, wake_ups, batch).await;
                        Vec::new()
                    })
                }
                false => Box::pin(send_batch(client, wake_ups, self.releases.take_batch())),
            };
            self.last_batch = before - self.len();
            self.calls.push(call);
        }
    }
}

/// Whether to send a call with so many requests beside those under way. Not if it would be much smaller than the last
/// one: a call by itself costs as much as six requests, and its requests share that.
const fn should_send(under_way: usize, waiting: usize, last_batch: usize) -> bool {
    waiting > 0 && (under_way == 0 || under_way < CALLS && waiting * 4 >= last_batch * 3)
}

/// Has all waiting claims of this process check by themselves when it is dropped, unless the reply was read that says
/// which of them were granted.
struct RecheckOnDrop<'a> {
    wake_ups: &'a WakeUps,
    armed: bool,
}

impl Drop for RecheckOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.wake_ups.recheck_all();
        }
    }
}

/// Sends requests as one call and completes each. Returns those that failed and have no caller.
async fn send_batch<R: BatchRequest>(
    client: Arc<Client>,
    wake_ups: Arc<WakeUps>,
    batch: Vec<PendingRequest<R>>,
) -> Vec<PendingRequest<R>> {
    let reply = call_batch(&client, &wake_ups, &batch).await;
    let replies = reply.and_then(|value| match reply::exactly(&value, batch.len()) {
        Ok(_) => Ok(value),
        Err(error) => Err(Fault::sent(error.to_string())),
    });
    match replies {
        Ok(value) => {
            for (pending, value) in batch.into_iter().zip(reply::elements(&value).unwrap_or_default()) {
                match R::decode(value) {
                    Ok((output, granted)) => {
                        pending.complete(Ok(output));
                        // Woken last, so that it runs next.
                        if let Some((waiter, generation)) = granted {
                            wake_ups.wake(&waiter, generation);
                        }
                    }
                    Err(error) => pending.complete(Err(error)),
                }
            }
            Vec::new()
        }
        Err(fault) => {
            let (waiting, dropped): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|pending| matches!(pending.caller, Caller::Waits(_)));
            waiting.into_iter().for_each(|pending| pending.complete(Err(fault.clone().into())));
            dropped
        }
    }
}

async fn call_batch<R: BatchRequest>(
    client: &Client,
    wake_ups: &WakeUps,
    batch: &[PendingRequest<R>],
) -> Result<Value, Fault> {
    let deadline = batch.iter().map(|pending| pending.deadline).min().unwrap_or_default();
    let was_repeated = AtomicBool::new(false);
    let mut recheck = RecheckOnDrop { wake_ups, armed: R::GRANTS_WAITERS };
    let build = |connection: &Connection, repeated: bool| {
        was_repeated.fetch_or(repeated, Ordering::Relaxed);
        ServerRequest::Script(R::encode(batch, &connection.identity(), &wake_ups.instance, repeated))
    };
    let reply = client.send(deadline, Retry::Idempotent, build).await;
    recheck.armed &= match &reply {
        // The reply to a repetition does not name the claims that the first attempt granted.
        Ok(_) => was_repeated.into_inner(),
        Err(fault) => fault.sent,
    };
    Ok(reply?.0)
}

fn warn_lost(release: &ReleaseRequest) {
    metrics::counter!("tenure_store_redis_orphans_lost_total").increment(1);
    tracing::warn!(key = %release.key, "could not release the lease of a dropped claim; it ends with its ttl");
}

fn closed() -> Error {
    Error::unavailable(ENGINE, "the store is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_sent_alone_at_once_and_beside_another_only_if_it_is_about_as_large() {
        assert!(should_send(0, 1, 0) && should_send(0, 1, CALLS * 100), "alone at once");
        assert!(should_send(1, 1, 1), "a second caller does not wait for the first");
        assert!(!should_send(1, 1, 64) && !should_send(1, 47, 64), "a few wait for more");
        assert!(should_send(1, 48, 64) && should_send(1, 64, 64));
        assert!(!should_send(CALLS, 64, 1), "never more than the bound");
        assert!(!should_send(0, 0, 0) && !should_send(1, 0, 0), "never an empty one");
    }
}
