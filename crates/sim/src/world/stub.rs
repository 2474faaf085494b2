//! The store as a client has it: requests over the simulated network.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Error, Fence, Key, Leases, LogEntry, Mode, Op, Page,
    Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke,
    Revoked, Status, Token, Transfer, Transferred, Verified, Watch, Watched, Wipe, Wiped,
};
use tokio::sync::{mpsc, oneshot};

use super::clock::HostClock;
use super::net::{Streaming, Waiting};
use super::wire::{Ask, Packet, Reply};
use super::{HostId, SERVER, World};
use crate::history::{Answer, Call, CallVerb, Client, OpId, Outcome, TokenId, What, token_id};
use lease::breaks::{Break, broken};

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
    pub(crate) world: Arc<World>,
    pub(crate) host: HostId,
    pub(crate) client: Client,
    pub(crate) clock: HostClock,
    pub(crate) capabilities: Capabilities,
}

/// A request on its way. Dropped without an answer, its outcome is unknown and the server is told.
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
        let (world, client) = (&self.stub.world, self.stub.client);
        let now = world.now();
        let mut state = world.lock();
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
    async fn call(&self, ask: Ask) -> Result<Reply> {
        let (told, answer) = oneshot::channel();
        let ask = Arc::new(ask);
        let mut asking = {
            let now = self.world.now();
            let mut state = self.world.lock();
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
            state.net.waiting.insert(id, Waiting { host: self.host, client: self.client, told });
            let packet = Packet::Ask { host: self.host, client: self.client, id, ask: ask.clone() };
            state.send(now, self.host, SERVER, packet);
            Asking { stub: self, id, ops, done: false }
        };
        let answer = answer.await.unwrap_or_else(|_| Err(Error::unknown("sim", "the process is gone")));
        self.returned(&mut asking, &answer);
        answer
    }

    /// A known break: slots are counted in the process, and the store hears nothing of it.
    fn from_memory(&self, claim: &Claim) -> Result<Acquired> {
        let generation = lease::Generation::new(1)?;
        let mut state = self.world.lock();
        let token = state.record.sent(ATTEMPT.get(), &claim.key, &claim.token);
        state.record.got(self.client, &claim.key, generation, token);
        let (key, holder) = (claim.key.clone(), claim.holder.clone());
        let lease = lease::Lease { key, holder, generation, ttl: claim.ttl };
        Ok(Acquired::Granted(lease::Grant { lease, parked: false }))
    }

    fn returned(&self, asking: &mut Asking<'_>, answer: &Result<Reply>) {
        asking.done = true;
        let now = self.world.now();
        let mut state = self.world.lock();
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

/// The operations of a request, as a history has them.
fn calls(ask: &Ask) -> Vec<Call> {
    let call = |verb, key: &str, token: Option<&Token>| Call {
        verb,
        key: key.into(),
        token: token.map(|token| token_id(token.digest().as_bytes())),
        generation: None,
        holder: None,
        ttl: None,
        wait: None,
    };
    match ask {
        Ask::Acquire(claim) => {
            let verb = if claim.instead_of.is_some() { CallVerb::Replace } else { CallVerb::Acquire };
            vec![Call {
                generation: claim.instead_of.map(lease::Generation::get),
                holder: Some(claim.holder.to_string()),
                ttl: Some(claim.ttl.as_millis() * 1_000_000),
                wait: claim.wait.map(|wait| wait.as_nanos() as u64),
                ..call(verb, claim.key.as_str(), Some(&claim.token))
            }]
        }
        Ask::Renew(items) => items
            .iter()
            .map(|item| Call {
                generation: Some(item.generation.get()),
                ttl: item.ttl.map(|ttl| ttl.as_millis() * 1_000_000),
                ..call(CallVerb::Renew, item.key.as_str(), Some(&item.token))
            })
            .collect(),
        Ask::Release(release) => vec![Call {
            generation: release.generation.map(lease::Generation::get),
            holder: release.to.as_ref().map(ToString::to_string),
            ..call(CallVerb::Release, release.key.as_str(), Some(&release.token))
        }],
        Ask::Transfer(transfer) => vec![Call {
            generation: Some(transfer.generation.get()),
            holder: Some(transfer.to.to_string()),
            ..call(CallVerb::Transfer, transfer.key.as_str(), Some(&transfer.token))
        }],
        Ask::Revoke(revoke) => vec![Call {
            generation: Some(revoke.generation.get()),
            wait: revoke.delay.map(|delay| delay.as_nanos() as u64),
            ..call(CallVerb::Revoke, revoke.key.as_str(), None)
        }],
        Ask::Verify(key, token) => vec![call(CallVerb::Verify, key.as_str(), Some(token))],
        Ask::Inspect(key) => vec![call(CallVerb::Inspect, key.as_str(), None)],
        Ask::Wipe(wipe) => vec![Call {
            generation: Some(wipe.gate.generation.get()),
            holder: Some(wipe.gate.key.to_string()),
            ..call(CallVerb::Wipe, wipe.prefix.as_str(), Some(&wipe.gate.token))
        }],
        Ask::WriteFenced(fence, _) => {
            let verb = match fence.mode {
                Mode::Strict => CallVerb::WriteStrict,
                Mode::Monotonic => CallVerb::WriteMonotonic,
            };
            let generation = Some(fence.generation.get());
            vec![Call { generation, ..call(verb, fence.key.as_str(), Some(&fence.token)) }]
        }
        Ask::List(_)
        | Ask::History(_)
        | Ask::Watch(..)
        | Ask::Commit(_)
        | Ask::Get(_)
        | Ask::Scan(_)
        | Ask::ReadLog(..) => Vec::new(),
    }
}

/// The key and token of one operation of a request.
fn token_of(ask: &Ask, i: usize) -> Option<(&Key, &Token)> {
    match ask {
        Ask::Acquire(claim) => Some((&claim.key, &claim.token)),
        Ask::Renew(items) => items.get(i).map(|item| (&item.key, &item.token)),
        Ask::Release(release) => Some((&release.key, &release.token)),
        Ask::Transfer(transfer) => Some((&transfer.key, &transfer.token)),
        Ask::Verify(key, token) => Some((key, token)),
        Ask::Wipe(wipe) => Some((&wipe.gate.key, &wipe.gate.token)),
        Ask::WriteFenced(fence, _) => Some((&fence.key, &fence.token)),
        _ => None,
    }
}

/// An answer, as a history has it.
fn say(answer: &Result<Reply>, i: usize) -> Answer {
    use Outcome::{Ok as Yes, Refused, Unknown};
    let plain =
        |outcome, word: &'static str| Answer { outcome, word: word.into(), generation: None, why: None };
    let number = |generation: lease::Generation| Some(generation.get());
    match answer {
        Err(error) => match error {
            Error::Refused(lease::Refusal::TokenSpent) => plain(Refused, "token_spent"),
            Error::Unknown { .. } => plain(Unknown, "unknown"),
            Error::Unavailable { .. } => plain(Refused, "unavailable"),
            Error::Invalid { .. } | Error::Refused(_) => plain(Refused, "refused"),
        },
        Ok(reply) => match reply {
            Reply::Acquired(Acquired::Granted(grant)) => {
                let word = if grant.parked { "parked" } else { "granted" };
                Answer { generation: number(grant.lease.generation), ..plain(Yes, word) }
            }
            Reply::Acquired(Acquired::Busy(busy)) => Answer {
                generation: busy.generation.map(lease::Generation::get),
                why: Some(busy.reason.as_str().into()),
                ..plain(Refused, "busy")
            },
            Reply::Renewed(answers) => match answers.get(i) {
                Some(Renewed::Renewed { .. }) => plain(Yes, "renewed"),
                Some(Renewed::Lost(end)) => {
                    Answer { why: Some(end.as_str().into()), ..plain(Refused, "lost") }
                }
                None => plain(Unknown, "unknown"),
            },
            Reply::Released(Released::Released) => plain(Yes, "released"),
            Reply::Released(Released::NotHeld) => plain(Refused, "not_held"),
            Reply::Transferred(Transferred::Transferred(lease)) => {
                Answer { generation: number(lease.generation), ..plain(Yes, "transferred") }
            }
            Reply::Transferred(Transferred::NotHeld) => plain(Refused, "not_held"),
            Reply::Transferred(Transferred::NoSuccessor) => plain(Refused, "no_successor"),
            Reply::Revoked(Revoked::Revoked { .. }) => plain(Yes, "revoked"),
            Reply::Revoked(Revoked::Stale { current }) => {
                Answer { generation: current.map(lease::Generation::get), ..plain(Refused, "stale") }
            }
            Reply::Verified(Verified::Live { generation, .. }) => {
                Answer { generation: number(*generation), ..plain(Yes, "live") }
            }
            Reply::Verified(Verified::Ended) => plain(Yes, "ended"),
            Reply::Verified(Verified::Wrong) => plain(Yes, "wrong"),
            Reply::Status(status) => {
                let word = match status.phase {
                    lease::Phase::Free => "free",
                    lease::Phase::Held => "held",
                    lease::Phase::Delayed => "delayed",
                    lease::Phase::Reserved => "reserved",
                };
                Answer { generation: status.generation.map(lease::Generation::get), ..plain(Yes, word) }
            }
            Reply::Wiped(Wiped::Wiped { .. }) => plain(Yes, "wiped"),
            Reply::Wiped(Wiped::Unproven) => plain(Refused, "unproven"),
            Reply::Committed(Committed::Written { .. }) => plain(Yes, "written"),
            Reply::Committed(Committed::Conflict { .. }) => plain(Refused, "conflict"),
            Reply::Committed(Committed::FencedOut { current }) => {
                Answer { generation: current.map(lease::Generation::get), ..plain(Refused, "fenced_out") }
            }
            Reply::List(_)
            | Reply::History(_)
            | Reply::Watching
            | Reply::Record(_)
            | Reply::Scan(_)
            | Reply::Log(_) => plain(Yes, "read"),
        },
    }
}

/// The client's end of a watch. Dropped, the server is told.
struct Stream {
    world: Arc<World>,
    host: HostId,
    client: Client,
    id: u64,
    items: mpsc::Receiver<Watched>,
}

impl Stream {
    fn open(stub: &Stub) -> Self {
        let (tell, items) = mpsc::channel(64);
        let mut state = stub.world.lock();
        let id = state.net.number();
        state.net.streams.insert(id, Streaming { client: stub.client, tell, place: 0 });
        Self { world: stub.world.clone(), host: stub.host, client: stub.client, id, items }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.world.lock().net.streams.remove(&self.id);
        let packet = Packet::Cancel { client: self.client, id: self.id };
        self.world.send(self.host, self.client, SERVER, packet);
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

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        if broken(Break::SlotsInMemory) && claim.key.as_str().starts_with("s/") {
            return self.from_memory(&claim);
        }
        ask!(self, Ask::Acquire(claim.remote()), Acquired)
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        ask!(self, Ask::Renew(items.to_vec()), Renewed)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        ask!(self, Ask::Release(release), Released)
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        ask!(self, Ask::Transfer(transfer), Transferred)
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        ask!(self, Ask::Revoke(revoke), Revoked)
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        ask!(self, Ask::Verify(key.clone(), token.clone()), Verified)
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        ask!(self, Ask::Inspect(key.clone()), Status)
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        ask!(self, Ask::List(query.clone()), List)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        ask!(self, Ask::History(key.clone()), History)
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let stream = Stream::open(self);
        match self.call(Ask::Watch(prefix.clone(), from, stream.id)).await? {
            Reply::Watching => Ok(Box::new(stream)),
            _ => odd(),
        }
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        ask!(self, Ask::Wipe(wipe), Wiped)
    }
}

#[async_trait]
impl Records for Stub {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        ask!(self, Ask::Commit(ops.to_vec()), Committed)
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        ask!(self, Ask::WriteFenced(fence.clone(), ops.to_vec()), Committed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        ask!(self, Ask::Get(key.clone()), Record)
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        ask!(self, Ask::Scan(query.clone()), Scan)
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        ask!(self, Ask::ReadLog(log.clone(), after, limit), Log)
    }
}
