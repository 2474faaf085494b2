//! The store as a client has it: requests over the simulated network.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tenure_lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Error, Fence, Key, Leases, LogEntry, Op,
    Page, Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision,
    Revoke, Revoked, Status, Token, Transfer, Transferred, Verified, Watch, Watched, Wipe, Wiped, fallback,
};
use tokio::sync::{mpsc, oneshot};

use super::clock::HostClock;
use super::net::{Streaming, Waiting};
use super::tell::{calls, say, token_of};
use super::wire::{Operation, Packet, Reply};
use super::{HostId, SERVER, Simulation};
use crate::history::{Answer, CallVerb, Client, OpId, Outcome, TokenId, What};
use tenure_lease::breaks::{Break, broken};

thread_local! {
    static ATTEMPT: Cell<u64> = const { Cell::new(0) };
}

/// A future whose requests belong to one attempt.
pub(crate) struct Scoped<F> {
    pub(crate) attempt: u64,
    pub(crate) work: Pin<Box<F>>,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = ATTEMPT.replace(self.attempt);
        let polled = self.work.as_mut().poll(cx);
        ATTEMPT.set(before);
        polled
    }
}

/// One client's way to the store.
pub(crate) struct Stub {
    pub(crate) simulation: Arc<Simulation>,
    pub(crate) host: HostId,
    pub(crate) client: Client,
    pub(crate) clock: HostClock,
    pub(crate) capabilities: Capabilities,
}

/// A request on its way. Dropped without an answer, its outcome is unknown and the server is notified.
struct Asking<'s> {
    stub: &'s Stub,
    id: u64,
    ops: Vec<(OpId, Option<(Key, TokenId)>)>,
    done: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (simulation, client) = (&self.stub.simulation, self.stub.client);
        let now = simulation.now();
        let mut state = simulation.lock();
        state.net.waiting.remove(&self.id);
        for (op, _) in &self.ops {
            let answer =
                Answer { outcome: Outcome::Unknown, word: "dropped".into(), generation: None, why: None };
            state.record.note(now, What::Returned { op: *op, answer });
        }
        if state.lives(self.stub.host, client) {
            state.send(now, self.stub.host, SERVER, Packet::Cancel { client, id: self.id });
        }
    }
}

impl Stub {
    async fn call(&self, ask: Operation) -> Result<Reply> {
        let (reply_to, answer) = oneshot::channel();
        let ask = Arc::new(ask);
        let mut asking = {
            let now = self.simulation.now();
            let mut state = self.simulation.lock();
            if let Some(output) = state.record.secrets.is_some().then(|| format!("{ask:?}\n")) {
                state.record.output.push_str(&output);
            }
            let id = state.net.number();
            let mut ops = Vec::new();
            for call in calls(&ask) {
                let op = state.record.op();
                let kept = token_of(&ask, ops.len()).map(|(key, token)| {
                    let attempt = if call.verb == CallVerb::Acquire || call.verb == CallVerb::Replace {
                        ATTEMPT.get()
                    } else {
                        0
                    };
                    (key.clone(), state.record.sent(attempt, key, token))
                });
                state.record.note(now, What::Invoked { op, client: self.client, call });
                ops.push((op, kept));
            }
            state.net.waiting.insert(id, Waiting { host: self.host, client: self.client, reply_to });
            let packet = Packet::Operation { host: self.host, client: self.client, id, ask: ask.clone() };
            if state.send(now, self.host, SERVER, packet) {
                // What the server may do a second time is an operation of its own, without an answer.
                for call in calls(&ask) {
                    let op = state.record.op();
                    state.record.note(now, What::Invoked { op, client: self.client, call });
                }
            }
            Asking { stub: self, id, ops, done: false }
        };
        let answer = answer.await.unwrap_or_else(|_| Err(Error::unknown("sim", "the process is gone")));
        self.returned(&mut asking, &answer);
        answer
    }

    /// A known break: slots are counted in the process, and the store hears nothing of it.
    fn count_in_memory(&self, claim: &Claim) -> Result<Acquired> {
        let generation = tenure_lease::Generation::new(1)?;
        let mut state = self.simulation.lock();
        let token = state.record.sent(ATTEMPT.get(), &claim.key, &claim.token);
        state.record.got(self.client, &claim.key, generation, token);
        let (key, holder) = (claim.key.clone(), claim.holder.clone());
        let lease = tenure_lease::Lease { key, holder, generation, ttl: claim.ttl };
        Ok(Acquired::Granted(tenure_lease::Grant { lease, parked: false }))
    }

    fn returned(&self, asking: &mut Asking<'_>, answer: &Result<Reply>) {
        asking.done = true;
        let now = self.simulation.now();
        let mut state = self.simulation.lock();
        if state.record.secrets.is_some() {
            let text = match answer {
                Ok(reply) => format!("{reply:?}\n"),
                Err(error) => format!("{error:?} {error}\n"),
            };
            state.record.output.push_str(&text);
        }
        for (i, (op, kept)) in asking.ops.iter().enumerate() {
            let said = say(answer, i);
            if let (Some((key, token)), Ok(Reply::Acquired(Acquired::Granted(grant)))) = (kept, answer) {
                state.record.got(self.client, key, grant.lease.generation, *token);
            }
            state.record.note(now, What::Returned { op: *op, answer: said });
        }
    }
}

/// The client's end of a watch. Dropping it notifies the server.
struct Stream {
    simulation: Arc<Simulation>,
    host: HostId,
    client: Client,
    id: u64,
    items: mpsc::Receiver<Watched>,
}

impl Stream {
    fn open(stub: &Stub) -> Self {
        let (tell, items) = mpsc::channel(64);
        let mut state = stub.simulation.lock();
        let id = state.net.number();
        state.net.streams.insert(id, Streaming { client: stub.client, tell, place: 0 });
        Self { simulation: stub.simulation.clone(), host: stub.host, client: stub.client, id, items }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.simulation.lock().net.streams.remove(&self.id);
        let packet = Packet::Cancel { client: self.client, id: self.id };
        self.simulation.send(self.host, self.client, SERVER, packet);
    }
}

#[async_trait]
impl Watch for Stream {
    async fn next(&mut self) -> Result<Watched> {
        self.items.recv().await.ok_or_else(|| Error::unavailable("sim", "the stream broke"))
    }
}

/// An answer of another kind than the question: cannot happen, and is treated as no answer.
fn odd<T>() -> Result<T> {
    Err(Error::unknown("sim", "the answer does not fit the question"))
}

macro_rules! ask {
    ($self:ident, $ask:expr, $reply:ident) => {
        match $self.call($ask).await? {
            Reply::$reply(answer) => Ok(answer),
            _ => odd(),
        }
    };
}

#[async_trait]
impl Leases for Stub {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        if broken(Break::SlotsInMemory) && claim.key.as_str().starts_with("s/") {
            return self.count_in_memory(&claim);
        }
        ask!(self, Operation::Acquire(claim.remote()), Acquired)
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        ask!(self, Operation::Renew(items.to_vec()), Renewed)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        ask!(self, Operation::Release(release), Released)
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        ask!(self, Operation::Transfer(transfer), Transferred)
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        ask!(self, Operation::Revoke(revoke), Revoked)
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        ask!(self, Operation::Verify(key.clone(), token.clone()), Verified)
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        ask!(self, Operation::Inspect(key.clone()), Status)
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        ask!(self, Operation::List(query.clone()), List)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        ask!(self, Operation::History(key.clone()), History)
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let stream = Stream::open(self);
        match self.call(Operation::Watch(prefix.clone(), from, stream.id)).await? {
            Reply::Watching => Ok(Box::new(stream)),
            _ => odd(),
        }
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        fallback::watch_any(self, prefixes, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        ask!(self, Operation::Wipe(wipe), Wiped)
    }
}

#[async_trait]
impl Records for Stub {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        ask!(self, Operation::Commit(ops.to_vec()), Committed)
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        ask!(self, Operation::WriteFenced(fence.clone(), ops.to_vec()), Committed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        ask!(self, Operation::Get(key.clone()), Record)
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        ask!(self, Operation::Scan(query.clone()), Scan)
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        fallback::discover(self, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        fallback::announce(self, items).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        ask!(self, Operation::ReadLog(log.clone(), after, limit), Log)
    }
}
