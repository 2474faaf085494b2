//! Requests of one verb that wait for a place in the next call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;
use lease::{Key, Result, Tick};
use redis::Value;
use tokio::sync::oneshot;

use super::bell::Bell;
use super::fault::{Fault, strange};
use super::job::Job;
use super::link::Link;
use super::names::Call;
use super::reply;
use super::wire::{Repeat, Wire};

/// Most requests in one call.
const CALL: usize = 128;

/// A request and who waits for its answer.
pub(super) struct Waiting<J: Job> {
    pub(super) job: J,
    pub(super) deadline: Tick,
    /// None when nobody does.
    pub(super) reply: Option<oneshot::Sender<Result<J::Answer>>>,
}

/// The requests of one verb, in the order they came.
pub(super) struct Lane<J: Job> {
    queue: VecDeque<Waiting<J>>,
    /// The keys of the call being put together.
    keys: HashSet<Key>,
}

impl<J: Job> Default for Lane<J> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), keys: HashSet::new() }
    }
}

impl<J: Job> Lane<J> {
    pub(super) fn push(&mut self, waiting: Waiting<J>) {
        self.queue.push_back(waiting);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// When the first of them must be answered.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.queue.front().map(|waiting| waiting.deadline)
    }

    /// Answers those whose time is over and who never left.
    pub(super) fn expire(&mut self, now: Tick) {
        while self.queue.front().is_some_and(|waiting| waiting.deadline <= now) {
            if let Some(waiting) = self.queue.pop_front() {
                waiting.answer(Err(Fault::unsent("the server did not answer others in time").into()));
            }
        }
    }

    /// Takes the next call's requests. Those for a key that is in it already keep their order and wait.
    pub(super) fn take(&mut self) -> Vec<Waiting<J>> {
        let mut batch = Vec::with_capacity(self.queue.len().min(CALL));
        let mut later = Vec::new();
        self.keys.clear();
        while batch.len() < CALL && later.len() < CALL {
            let Some(waiting) = self.queue.pop_front() else { break };
            match self.keys.insert(waiting.job.key().clone()) {
                true => batch.push(waiting),
                false => later.push(waiting),
            }
        }
        for waiting in later.into_iter().rev() {
            self.queue.push_front(waiting);
        }
        batch
    }
}

impl<J: Job> Waiting<J> {
    /// Answers; a caller that left is no error.
    pub(super) fn answer(self, answer: Result<J::Answer>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(answer);
        }
    }
}

/// A call whose answer says which parked claims of this engine were granted. Dropped before that was read, it lets all
/// of them look for themselves.
struct Unheard<'a> {
    bell: &'a Bell,
    /// Whether an answer may be missing.
    missing: bool,
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if self.missing {
            self.bell.ring_all();
        }
    }
}

/// Sends requests as one call.
async fn send<J: Job>(wire: &Wire, bell: &Bell, batch: &[Waiting<J>]) -> Result<Value, Fault> {
    let deadline = batch.iter().map(|waiting| waiting.deadline).min().unwrap_or_default();
    let repeated = AtomicBool::new(false);
    let mut unheard = Unheard { bell, missing: J::TELLS };
    let build = |link: &Link, again: bool| {
        let instance: &[u8] = if J::TELLS { &bell.instance } else { b"" };
        let keys = batch.iter().map(|waiting| waiting.job.key());
        let mut call = Call::by(J::script(), link, keys, instance);
        for waiting in batch {
            waiting.job.write(&mut call, again);
        }
        repeated.fetch_or(again, Ordering::Relaxed);
        call.done()
    };
    let answer = wire.run(Some(J::script()), deadline, Repeat::Freely, build).await;
    unheard.missing &= match &answer {
        // A second answer does not tell what the first one would have told.
        Ok(_) => repeated.into_inner(),
        Err(fault) => fault.sent,
    };
    let value = answer?;
    match &value {
        Value::BulkString(_) => Ok(value),
        Value::Array(answers) if answers.len() == batch.len() => Ok(value),
        other => Err(Fault::sent(strange(&format!("{other:?} to {} requests", batch.len())).to_string())),
    }
}

/// Sends one request as a call of its own.
pub(super) async fn carry_alone<J: Job>(wire: &Wire, bell: &Bell, waiting: Waiting<J>) -> Result<J::Answer> {
    let batch = [waiting];
    match send(wire, bell, &batch).await? {
        Value::Array(answers) => {
            let raw = reply::bytes(&answers[0])?;
            if J::granted(raw).is_some_and(|granted| bell.ring(granted)) {
                // The claim has waited longer than this caller: it runs first.
                tokio::task::yield_now().await;
            }
            batch[0].job.read(raw)
        }
        common => J::read_common(reply::bytes(&common)?, 0, 1),
    }
}

/// Sends requests as one call and answers each. Gives back those that failed and that nobody waits for.
pub(super) async fn carry<J: Job>(
    wire: Arc<Wire>,
    bell: Arc<Bell>,
    batch: Vec<Waiting<J>>,
) -> Vec<Waiting<J>> {
    let count = batch.len();
    match send(&wire, &bell, &batch).await {
        Ok(Value::Array(answers)) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                let read = reply::bytes(&answer).and_then(|raw| waiting.job.read(raw));
                waiting.answer(read);
                // Last of all, so that the claim runs next.
                if let Some(granted) = reply::bytes(&answer).ok().and_then(J::granted) {
                    bell.ring(granted);
                }
            }
            Vec::new()
        }
        Ok(common) => {
            let raw = reply::bytes(&common).unwrap_or_default();
            for (index, waiting) in batch.into_iter().enumerate() {
                waiting.answer(J::read_common(raw, index, count));
            }
            Vec::new()
        }
        Err(fault) => {
            let (waited, orphans): (Vec<_>, Vec<_>) = batch.into_iter().partition(|w| w.reply.is_some());
            for waiting in waited {
                waiting.answer(Err(fault.clone().into()));
            }
            orphans
        }
    }
}
