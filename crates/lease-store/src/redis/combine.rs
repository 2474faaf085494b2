//! Many concurrent claims and releases become a few calls.
//!
//! One task owns the queues. While a small number of calls is on its way, requests gather; each call takes
//! whatever is there. Alone, a request leaves at once, straight from its caller.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lease::{Error, Result, Tick};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use super::bell::Bell;
use super::fault::ENGINE;
use super::job::{Claimed, Claiming, Releasing};
use super::lane::{Lane, Waiting, carry, carry_alone};
use super::twins::Twins;
use super::wire::Wire;

/// Most requests between callers and the task.
const QUEUE: usize = 4_096;
/// Most calls on their way at once.
const CALLS: usize = 2;
/// Most requests of dropped callers that wait for a place in the queue.
const ORPHANS: usize = 65_536;

/// A request.
pub(super) enum Request {
    Claim(Waiting<Claiming>),
    Release(Waiting<Releasing>),
}

/// Where requests are handed in.
#[derive(Clone)]
pub(super) struct Desk {
    wire: Arc<Wire>,
    bell: Arc<Bell>,
    /// How many calls are on their way.
    busy: Arc<AtomicUsize>,
    queue: mpsc::Sender<Request>,
    orphans: Arc<Orphans>,
    /// The claims under way.
    pub(super) twins: Twins,
}

/// Releases that nobody waits for and that found the queue full.
#[derive(Default)]
struct Orphans {
    waiting: Mutex<VecDeque<Releasing>>,
    arrived: Notify,
}

impl Desk {
    /// A desk and the task behind it.
    pub(super) fn open(
        wire: Arc<Wire>,
        bell: Arc<Bell>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let orphans = Arc::new(Orphans::default());
        let busy = Arc::new(AtomicUsize::new(0));
        let (claims, releases, calls) = (Lane::default(), Lane::default(), FuturesUnordered::new());
        let counter = Counter {
            wire: Arc::clone(&wire),
            bell: Arc::clone(&bell),
            busy: Arc::clone(&busy),
            claims,
            releases,
            calls,
            carried: 0,
        };
        let (queue, twins) = (sender, Twins::default());
        let desk = Self { wire, bell, busy, queue, orphans: Arc::clone(&orphans), twins };
        (desk, serve(counter, receiver, orphans))
    }

    /// Claims a key.
    pub(super) async fn claim(&self, job: Claiming) -> Result<Claimed> {
        if let Some(_place) = Place::alone(&self.busy) {
            let waiting = Waiting { job, deadline: self.wire.budget(), reply: None };
            return carry_alone(&self.wire, &self.bell, waiting).await;
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { job, deadline: self.wire.budget(), reply: Some(reply) };
        self.queue.send(Request::Claim(waiting)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Gives a key back.
    pub(super) async fn release(&self, job: Releasing) -> Result<lease::Released> {
        if let Some(_place) = Place::alone(&self.busy) {
            let waiting = Waiting { job, deadline: self.wire.budget(), reply: None };
            return carry_alone(&self.wire, &self.bell, waiting).await;
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { job, deadline: self.wire.budget(), reply: Some(reply) };
        self.queue.send(Request::Release(waiting)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Gives a key back for a caller that is gone. Never waits and is never lost silently.
    pub(super) fn abandon(&self, mut job: Releasing) {
        job.until = Some(self.wire.clock.now() + self.wire.options.max_ttl.as_duration());
        let waiting = Waiting { job, deadline: self.wire.budget(), reply: None };
        let job = match self.queue.try_send(Request::Release(waiting)) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(Request::Release(waiting))) => waiting.job,
            // The engine is closed: what its process held ends with its ttl.
            Err(_) => return,
        };
        let mut orphans = self.orphans.waiting.lock();
        if orphans.len() < ORPHANS {
            orphans.push_back(job);
            self.orphans.arrived.notify_one();
        } else {
            lost(&job);
        }
    }
}

/// A call, which leaves behind the releases that failed and that nobody waits for.
type OnItsWay = Pin<Box<dyn Future<Output = Vec<Waiting<Releasing>>> + Send>>;

/// The place of a call that its caller makes by itself.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    /// If there is no call on its way: then a request needs no company and no task in between.
    fn alone(busy: &'a AtomicUsize) -> Option<Self> {
        let first = busy.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        // Made only when it was taken: dropping one gives it back.
        first.is_ok().then(|| Self(busy))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Counter {
    wire: Arc<Wire>,
    bell: Arc<Bell>,
    busy: Arc<AtomicUsize>,
    claims: Lane<Claiming>,
    releases: Lane<Releasing>,
    calls: FuturesUnordered<OnItsWay>,
    /// How many requests the last call took with it.
    carried: usize,
}

async fn serve(mut counter: Counter, mut queue: mpsc::Receiver<Request>, orphans: Arc<Orphans>) {
    let mut inbox = Vec::with_capacity(QUEUE);
    loop {
        let room = QUEUE.saturating_sub(counter.len());
        let overdue = counter.overdue();
        let clock = Arc::clone(&counter.wire.clock);
        tokio::select! {
            biased;
            Some(left) = counter.calls.next(), if !counter.calls.is_empty() => {
                counter.busy.fetch_sub(1, Ordering::Relaxed);
                counter.again(left);
            }
            taken = queue.recv_many(&mut inbox, room), if room > 0 => {
                if taken == 0 {
                    return;
                }
                inbox.drain(..).for_each(|request| counter.push(request));
            }
            () = orphans.arrived.notified(), if room > 0 => {
                let jobs: Vec<_> = orphans.waiting.lock().drain(..).collect();
                let deadline = counter.wire.budget();
                for job in jobs {
                    counter.releases.push(Waiting { job, deadline, reply: None });
                }
            }
            () = async move { clock.sleep_until(overdue.unwrap_or_default()).await }, if overdue.is_some() => {
                let now = counter.wire.clock.now();
                counter.claims.expire(now);
                counter.releases.expire(now);
            }
        }
        if !counter.calls.is_empty() {
            // The server has work: those who just got their answers may ask again before the next call leaves.
            tokio::task::yield_now().await;
            while counter.len() < QUEUE
                && let Ok(request) = queue.try_recv()
            {
                counter.push(request);
            }
        }
        counter.launch();
    }
}

impl Counter {
    fn len(&self) -> usize {
        self.claims.len() + self.releases.len()
    }

    fn push(&mut self, request: Request) {
        match request {
            Request::Claim(waiting) => self.claims.push(waiting),
            Request::Release(waiting) => self.releases.push(waiting),
        }
    }

    /// Tries abandoned releases again while what they would give back can still be held.
    fn again(&mut self, left: Vec<Waiting<Releasing>>) {
        let now = self.wire.clock.now();
        for waiting in left {
            // A fault that came at once would come again at once.
            let waited = waiting.deadline.since(now) < self.wire.options.op_timeout / 2;
            match waited && waiting.job.until.is_some_and(|until| now < until) {
                true => self.releases.push(Waiting { deadline: self.wire.budget(), ..waiting }),
                false => lost(&waiting.job),
            }
        }
    }

    /// When the first waiting request runs out of time.
    fn overdue(&self) -> Option<Tick> {
        [self.claims.deadline(), self.releases.deadline()].into_iter().flatten().min()
    }

    /// Sends what waits, as long as it is worth a call.
    fn launch(&mut self) {
        let longer = |counter: &Self| counter.claims.len().max(counter.releases.len());
        while worth(self.calls.len(), longer(self), self.carried) {
            let before = self.len();
            let (wire, bell) = (Arc::clone(&self.wire), Arc::clone(&self.bell));
            let call: OnItsWay = match self.claims.len() > self.releases.len() {
                true => {
                    let batch = self.claims.take();
                    Box::pin(async move {
                        carry(wire, bell, batch).await;
                        Vec::new()
                    })
                }
                false => Box::pin(carry(wire, bell, self.releases.take())),
            };
            self.carried = before - self.len();
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.calls.push(call);
        }
    }
}

/// Whether a call with so many requests is to leave beside those that are under way. Not if it would be much smaller
/// than the last one: what a call costs by itself, as much as six requests, is shared by all that it takes along.
const fn worth(under_way: usize, waiting: usize, carried: usize) -> bool {
    waiting > 0 && (under_way == 0 || under_way < CALLS && waiting * 4 >= carried * 3)
}

fn lost(job: &Releasing) {
    metrics::counter!("tenure_redis_orphans_lost_total").increment(1);
    tracing::warn!(key = %job.key, "a dropped claim could not be given back: what it holds ends with its ttl");
}

fn closed() -> Error {
    Error::unavailable(ENGINE, "the store is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_refused_is_not_given_back() {
        let busy = AtomicUsize::new(0);
        let first = Place::alone(&busy);
        assert!(first.is_some() && Place::alone(&busy).is_none() && Place::alone(&busy).is_none());
        assert_eq!(busy.load(Ordering::Relaxed), 1);
        drop(first);
        assert_eq!(busy.load(Ordering::Relaxed), 0);
        assert!(Place::alone(&busy).is_some());
    }

    #[test]
    fn a_call_leaves_when_none_is_under_way_and_beside_another_only_if_it_is_about_as_large() {
        assert!(worth(0, 1, 0) && worth(0, 1, CALLS * 100), "alone at once");
        assert!(worth(1, 1, 1), "a second caller does not wait for the first");
        assert!(!worth(1, 1, 64) && !worth(1, 47, 64), "a few wait for company");
        assert!(worth(1, 48, 64) && worth(1, 64, 64));
        assert!(!worth(CALLS, 64, 1), "never more than the bound");
        assert!(!worth(0, 0, 0) && !worth(1, 0, 0), "never an empty one");
    }
}
