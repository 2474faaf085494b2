//! A store that writes down what is asked of it and what it answers.

use std::sync::Arc;

use tenure_lease::{
    Acquired, Claim, Committed, Digest, Error, Fence, Generation, Key, Mode, Op, Release, Released, Renewal,
    Renewed, Result, Store, StoreLayer, Token,
};

use super::log::Log;
use crate::disk::operation::failed;
use crate::history::{Answer, Call, CallVerb, OpId, Outcome, TokenId, What, Word, token_id};

/// The verbs that holders use are recorded; the others only passed on.
pub(super) struct Recorder {
    pub(super) store: Arc<dyn Store>,
    pub(super) log: Arc<Log>,
}

pub(super) fn id(digest: &Digest) -> TokenId {
    token_id(digest.as_bytes())
}

fn call(verb: CallVerb, key: &Key, token: &Token) -> Call {
    let token = Some(id(token.digest()));
    Call { verb, key: key.as_str().into(), token, generation: None, holder: None, ttl: None, wait: None }
}

fn yes(word: &'static str, generation: Option<Generation>) -> Answer {
    Answer { outcome: Outcome::Ok, word: word.into(), generation: generation.map(Generation::get), why: None }
}

fn no(word: &'static str, why: Option<Word>) -> Answer {
    Answer { outcome: Outcome::Refused, word: word.into(), generation: None, why }
}

impl Recorder {
    /// A process that cannot write down what it does must not do anything more.
    fn note(&self, what: What) -> Result<()> {
        self.log.note(what).map_err(|e| Error::unavailable("recorder", "the history is lost").because(e))
    }

    fn begin(&self, call: Call) -> Result<OpId> {
        let op = self.log.number();
        self.note(What::Invoked { op, client: self.log.client(), call })?;
        Ok(op)
    }

    fn end<T>(&self, op: OpId, answer: Result<T>, read: impl FnOnce(&T) -> Answer) -> Result<T> {
        let noted = match &answer {
            Ok(answer) => read(answer),
            Err(error) => failed(error),
        };
        self.note(What::Returned { op, answer: noted })?;
        answer
    }
}

impl StoreLayer for Recorder {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        let verb = if claim.instead_of.is_some() { CallVerb::Replace } else { CallVerb::Acquire };
        let mut asked = call(verb, &claim.key, &claim.token);
        asked.generation = claim.instead_of.map(Generation::get);
        asked.holder = Some(claim.holder.as_str().into());
        asked.ttl = Some(claim.ttl.as_millis() * 1_000_000);
        asked.wait = claim.wait.map(|wait| wait.as_nanos() as u64);
        let op = self.begin(asked)?;
        self.end(op, self.store.acquire(claim).await, |answer| match answer {
            Acquired::Granted(grant) => {
                yes(if grant.parked { "parked" } else { "granted" }, Some(grant.lease.generation))
            }
            Acquired::Busy(busy) => {
                let why = Some(busy.reason.as_str().into());
                Answer { generation: busy.generation.map(Generation::get), ..no("busy", why) }
            }
        })
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        let mut ops = Vec::with_capacity(items.len());
        for item in items {
            let mut asked = call(CallVerb::Renew, &item.key, &item.token);
            asked.generation = Some(item.generation.get());
            asked.ttl = item.ttl.map(|ttl| ttl.as_millis() * 1_000_000);
            ops.push(self.begin(asked)?);
        }
        let answers = self.store.renew(items).await;
        for (i, op) in ops.into_iter().enumerate() {
            let answer = match &answers {
                Ok(answers) => match answers.get(i) {
                    Some(Ok(Renewed::Renewed { .. })) => yes("renewed", Some(items[i].generation)),
                    Some(Ok(Renewed::Lost(end))) => no("lost", Some(end.as_str().into())),
                    Some(Err(error)) => failed(error),
                    // An answer that is not there says nothing.
                    None => Answer { outcome: Outcome::Unknown, ..no("unknown", None) },
                },
                Err(error) => failed(error),
            };
            self.note(What::Returned { op, answer })?;
        }
        answers
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let mut asked = call(CallVerb::Release, &release.key, &release.token);
        asked.generation = release.generation.map(Generation::get);
        asked.holder = release.to.as_ref().map(|to| to.as_str().into());
        let op = self.begin(asked)?;
        self.end(op, self.store.release(release).await, |answer| match answer {
            Released::Released => yes("released", None),
            Released::NotHeld => no("not_held", None),
        })
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        let verb = match fence.mode {
            Mode::Strict => CallVerb::WriteStrict,
            Mode::Monotonic => CallVerb::WriteMonotonic,
        };
        let mut asked = call(verb, &fence.key, &fence.token);
        asked.generation = Some(fence.generation.get());
        let op = self.begin(asked)?;
        self.end(op, self.store.write_fenced(fence, ops).await, |answer| match answer {
            // The revision is the store's own order of writes.
            Committed::Written { revision } => {
                Answer { why: Some(revision.get().to_string().into()), ..yes("written", None) }
            }
            Committed::Conflict { .. } => no("conflict", None),
            Committed::FencedOut { current } => {
                Answer { generation: current.map(Generation::get), ..no("fenced_out", None) }
            }
        })
    }
}
