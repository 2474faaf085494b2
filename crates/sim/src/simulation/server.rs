//! The server: the real engine behind the network, and its own view of what it does.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tenure_lease::{
    Acquired, Claim, Clock, End, Grant, Holder, Key, Phase, Prefix, Renewal, Renewed, Result, Store, Verb,
    Watch, Watched, limits,
};
use tokio::task::AbortHandle;

use super::clock::HostClock;
use super::wire::{Operation, Packet, Reply};
use super::{HostId, SERVER, Simulation};
use crate::history::{Client, Nanos, Step, TokenId, What, token_id};

/// A server that runs.
pub(crate) struct Server {
    simulation: Arc<Simulation>,
    store: Arc<dyn Store>,
    clock: HostClock,
    /// The engine's changes in its own order.
    changes: Mutex<Box<dyn Watch>>,
    /// What is being handled.
    handling: Mutex<BTreeMap<(Client, u64), AbortHandle>>,
    /// The reigns that are live in the engine, to be ended in the history when it dies.
    live: Mutex<BTreeMap<Key, (u64, Holder)>>,
    /// The TTL of every claim in this world, in nanoseconds.
    ttl: Nanos,
}

impl Server {
    /// Starts to serve `store`. Nothing has happened in it yet.
    pub(crate) fn new(
        simulation: &Arc<Simulation>,
        store: Arc<dyn Store>,
        clock: HostClock,
        ttl: Nanos,
    ) -> Result<Arc<Self>> {
        let watch = store.watch(&Prefix::new("")?, None).now_or_never();
        let changes =
            watch.unwrap_or_else(|| Err(tenure_lease::Error::unavailable("sim", "the watch waits")))?;
        Ok(Arc::new(Self {
            simulation: simulation.clone(),
            store,
            clock,
            changes: Mutex::new(changes),
            handling: Mutex::default(),
            live: Mutex::default(),
            ttl,
        }))
    }

    /// A request has come.
    pub(crate) fn serve(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Runtime,
        host: HostId,
        client: Client,
        id: u64,
        ask: Arc<Operation>,
    ) {
        let server = self.clone();
        let task = runtime.spawn(async move {
            let answer = server.handle(host, client, &ask).await;
            server.handling.lock().remove(&(client, id));
            server.simulation.send(SERVER, 0, host, Packet::Reply { client, id, answer });
        });
        self.handling.lock().insert((client, id), task.abort_handle());
    }

    /// No caller waits for the response any more.
    pub(crate) fn cancel(&self, client: Client, id: u64) {
        if let Some(task) = self.handling.lock().remove(&(client, id)) {
            task.abort();
        }
    }

    /// Writes down what the engine did since the last call.
    pub(crate) fn record_changes(&self) {
        let now = self.simulation.now();
        let mut changes = self.changes.lock();
        while let Some(Ok(Watched::Event(event))) = changes.next().now_or_never() {
            let (Some(holder), Some(generation)) = (&event.holder, event.generation) else { continue };
            let mut state = self.simulation.lock();
            let record = &mut state.record;
            match event.verb {
                Verb::Granted => {
                    self.live.lock().insert(event.key.clone(), (generation.get(), holder.clone()));
                    record.granted(now, &event.key, generation.get(), holder.as_str());
                    let step = Step::Renewed { until: now + self.clock.true_span(self.ttl) };
                    record.store(now, &event.key, step, generation.get(), None, holder.as_str());
                }
                Verb::Ended(end) => {
                    self.live.lock().remove(&event.key);
                    let step = Step::Ended(end.as_str().into());
                    record.store(now, &event.key, step, generation.get(), None, holder.as_str());
                    drop(state);
                    if end != End::Expired {
                        self.look_closed(&event.key, now);
                    }
                }
                Verb::Written | Verb::Deleted => {}
            }
        }
    }

    /// Writes down a lock-delay or a reservation.
    fn look_closed(&self, key: &Key, now: Nanos) {
        let Some(Ok(status)) = self.store.inspect(key).now_or_never() else { return };
        if let (Phase::Delayed | Phase::Reserved, Some(left)) = (status.phase, status.remaining) {
            let until = now + self.clock.true_span(left.as_nanos() as u64);
            let holder = status.holder.map(|holder| holder.to_string()).unwrap_or_default();
            self.simulation.lock().record.store(now, key, Step::Closed { until }, 0, None, &holder);
        }
    }

    /// The engine is gone with all that it knew.
    pub(crate) fn died(&self) {
        let now = self.simulation.now();
        let mut state = self.simulation.lock();
        for (key, (generation, holder)) in &*self.live.lock() {
            let step = Step::Ended(End::Gone.as_str().into());
            state.record.store(now, key, step, *generation, None, holder.as_str());
        }
    }

    async fn handle(self: &Arc<Self>, host: HostId, client: Client, ask: &Operation) -> Result<Reply> {
        self.record_changes();
        let store = &self.store;
        let answer = match ask {
            Operation::Acquire(claim) => self.acquire(claim).await.map(Reply::Acquired),
            Operation::Renew(items) => {
                let answers = store.renew(items).await;
                self.record_changes();
                self.promise(items, answers.as_deref().unwrap_or_default());
                answers.map(Reply::Renewed)
            }
            Operation::Release(release) => {
                self.successor(&release.key, release.to.as_ref());
                store.release(release.clone()).await.map(Reply::Released)
            }
            Operation::Transfer(transfer) => {
                self.successor(&transfer.key, Some(&transfer.to));
                store.transfer(transfer.clone()).await.map(Reply::Transferred)
            }
            Operation::Revoke(revoke) => store.revoke(revoke.clone()).await.map(Reply::Revoked),
            Operation::Verify(key, token) => store.verify(key, token).await.map(Reply::Verified),
            Operation::Inspect(key) => store.inspect(key).await.map(Reply::Status),
            Operation::List(query) => store.list(query).await.map(Reply::List),
            Operation::History(key) => store.history(key).await.map(Reply::History),
            Operation::Watch(prefix, from, stream) => {
                let watch = store.watch(prefix, *from).await?;
                self.stream(host, client, *stream, watch);
                Ok(Reply::Watching)
            }
            Operation::Wipe(wipe) => store.wipe(wipe.clone()).await.map(Reply::Wiped),
            Operation::Commit(ops) => store.commit(ops).await.map(Reply::Committed),
            Operation::WriteFenced(fence, ops) => {
                let answer = store.write_fenced(fence, ops).await;
                self.record_changes();
                if let Ok(committed) = &answer {
                    let accepted = matches!(committed, tenure_lease::Committed::Written { .. });
                    self.simulation.note(What::Wrote {
                        key: fence.key.to_string(),
                        client,
                        generation: fence.generation.get(),
                        token: token_id(fence.token.digest().as_bytes()),
                        accepted,
                        strict: fence.mode == tenure_lease::Mode::Strict,
                    });
                }
                answer.map(Reply::Committed)
            }
            Operation::Get(key) => store.get(key).await.map(Reply::Record),
            Operation::Scan(query) => store.scan(query).await.map(Reply::Scan),
            Operation::ReadLog(log, after, limit) => {
                store.read_log(log, *after, *limit).await.map(Reply::Log)
            }
        };
        self.record_changes();
        answer
    }

    async fn acquire(&self, claim: &Claim) -> Result<Acquired> {
        let token = token_id(claim.token.digest().as_bytes());
        let mut work = pin!(self.store.acquire(claim.clone()));
        let first = once(work.as_mut()).await;
        self.record_changes();
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let place = ParkedClaim::take(self, claim, token);
                let answer = work.await;
                // A claim that left did so before another one was served in its place.
                place.leave(matches!(answer, Ok(Acquired::Granted(_))));
                self.record_changes();
                answer
            }
        };
        if let Ok(Acquired::Granted(Grant { lease, parked })) = &answer {
            let until = self.clock.true_time(self.clock.now() + lease.ttl.as_duration());
            let (now, generation) = (self.simulation.now(), lease.generation.get());
            let mut state = self.simulation.lock();
            state.record.name(&lease.key, generation, token);
            // A parked grant may be over by now; what it promised was written down when it was made.
            if !parked {
                let step = Step::Renewed { until };
                state.record.store(now, &lease.key, step, generation, Some(token), lease.holder.as_str());
            }
        }
        answer
    }

    /// Writes down until when renewed reigns last.
    fn promise(&self, items: &[Renewal], answers: &[Result<Renewed>]) {
        let now = self.simulation.now();
        let mut state = self.simulation.lock();
        for (item, answer) in items.iter().zip(answers) {
            if let Ok(Renewed::Renewed { remaining }) = answer {
                let until = now + self.clock.true_span(remaining.as_nanos() as u64);
                let token = Some(token_id(item.token.digest().as_bytes()));
                let step = Step::Renewed { until };
                state.record.store(now, &item.key, step, item.generation.get(), token, "");
            }
        }
    }

    /// Writes down who may be granted a key out of turn.
    fn successor(&self, key: &Key, successor: Option<&Holder>) {
        let Some(successor) = successor else { return };
        let now = self.simulation.now();
        let until = now + 2 * limits::RESERVATION_MS * 1_000_000;
        self.simulation.lock().record.store(now, key, Step::Successor { until }, 0, None, successor.as_str());
    }

    /// Sends what a watch gives, in order, until the client goes away.
    fn stream(self: &Arc<Self>, host: HostId, client: Client, stream: u64, mut watch: Box<dyn Watch>) {
        let server = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "aborted by the client's cancel, or gone with the host"
        )]
        let task = tokio::spawn(async move {
            let mut place = 0;
            while let Ok(watched) = watch.next().await {
                server.simulation.send(SERVER, 0, host, Packet::Item { client, stream, place, watched });
                place += 1;
            }
        });
        self.handling.lock().insert((client, stream), task.abort_handle());
    }
}

/// Polls once.
async fn once<F: Future>(mut work: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await
}

/// A place in a queue, for the history: left when it is dropped.
struct ParkedClaim<'s> {
    server: &'s Server,
    key: Key,
    holder: Holder,
    token: TokenId,
    left: bool,
}

impl<'s> ParkedClaim<'s> {
    fn take(server: &'s Server, claim: &Claim, token: TokenId) -> Self {
        let place = Self { server, key: claim.key.clone(), holder: claim.holder.clone(), token, left: false };
        place.note(Step::Parked);
        place
    }

    fn leave(mut self, granted: bool) {
        self.left = granted;
    }

    fn note(&self, step: Step) {
        let now = self.server.simulation.now();
        let mut state = self.server.simulation.lock();
        state.record.store(now, &self.key, step, 0, Some(self.token), self.holder.as_str());
    }
}

impl Drop for ParkedClaim<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.note(Step::Left);
        }
    }
}
