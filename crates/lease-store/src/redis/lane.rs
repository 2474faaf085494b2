//! Requests of one verb that wait for a place in the next call.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;
use lease::{Key, Result, Tick};
use redis::Value;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::job::Job;
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

/// Sends requests as one call and answers each. Gives back those that failed and that nobody waits for.
pub(super) async fn carry<J: Job>(wire: Arc<Wire>, batch: Vec<Waiting<J>>) -> Vec<Waiting<J>> {
    let deadline = batch.iter().map(|waiting| waiting.deadline).min().unwrap_or_default();
    let build = |link: &super::link::Link, again: bool| {
        let mut call = Call::on(J::script(), link, batch.iter().map(|waiting| waiting.job.key()));
        for waiting in &batch {
            waiting.job.write(&mut call, again);
        }
        call.done()
    };
    let answers: Result<Vec<Value>, Fault> =
        match wire.run(Some(J::script()), deadline, Repeat::Freely, build).await {
            Ok(value) => reply::exactly(value, batch.len()).map_err(|error| Fault::sent(error.to_string())),
            Err(fault) => Err(fault),
        };
    match answers {
        Ok(answers) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                let answer = reply::bytes(&answer).and_then(|raw| waiting.job.read(raw));
                waiting.answer(answer);
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
