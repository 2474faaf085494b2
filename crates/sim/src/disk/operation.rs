//! One operation of a store: asked, awaited, and put into the words of a history.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tenure_lease::{
    Acquired, Claim, Committed, Error, Fence, Generation, Key, Mode, Op, Refusal, Release, Released, Renewal,
    Renewed, Revoke, Revoked, Store, Token, Transfer, Transferred, Verified,
};

use crate::history::{Answer, Call, CallVerb, Outcome, TokenId, Word, token_id};

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Acquire(Claim),
    Renew(Renewal),
    Release(Release),
    Transfer(Transfer),
    Revoke(Revoke),
    Verify(Key, Token),
    Inspect(Key),
    Commit(Vec<Op>),
    Fenced(Fence, Vec<Op>),
}

/// An answer on its way.
pub(crate) type PendingAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The id of a token.
pub(crate) fn id(token: &Token) -> TokenId {
    token_id(token.digest().as_bytes())
}

impl Operation {
    /// What a history says of it.
    pub(crate) fn call(&self) -> Call {
        let call = |verb, key: &Key, token: Option<&Token>, generation: Option<Generation>| Call {
            verb,
            key: key.to_string(),
            token: token.map(id),
            generation: generation.map(Generation::get),
            holder: None,
            ttl: None,
            wait: None,
        };
        match self {
            Self::Acquire(c) => {
                let verb = if c.instead_of.is_some() { CallVerb::Replace } else { CallVerb::Acquire };
                Call {
                    holder: Some(c.holder.to_string()),
                    ttl: Some(c.ttl.as_duration().as_nanos() as u64),
                    wait: c.wait.map(|wait| wait.as_nanos() as u64),
                    ..call(verb, &c.key, Some(&c.token), c.instead_of)
                }
            }
            Self::Renew(r) => Call {
                ttl: r.ttl.map(|ttl| ttl.as_duration().as_nanos() as u64),
                ..call(CallVerb::Renew, &r.key, Some(&r.token), Some(r.generation))
            },
            Self::Release(r) => Call {
                holder: r.to.as_ref().map(ToString::to_string),
                ..call(CallVerb::Release, &r.key, Some(&r.token), r.generation)
            },
            Self::Transfer(t) => Call {
                holder: Some(t.to.to_string()),
                ..call(CallVerb::Transfer, &t.key, Some(&t.token), Some(t.generation))
            },
            Self::Revoke(r) => Call {
                ttl: r.delay.map(|delay| delay.as_nanos() as u64),
                ..call(CallVerb::Revoke, &r.key, None, Some(r.generation))
            },
            Self::Verify(key, token) => call(CallVerb::Verify, key, Some(token), None),
            Self::Inspect(key) => call(CallVerb::Inspect, key, None, None),
            Self::Commit(ops) => match ops.first() {
                Some(op) => call(CallVerb::WriteMonotonic, op.key(), None, None),
                None => Call {
                    verb: CallVerb::WriteMonotonic,
                    key: String::new(),
                    token: None,
                    generation: None,
                    holder: None,
                    ttl: None,
                    wait: None,
                },
            },
            Self::Fenced(f, _) => {
                let verb = match f.mode {
                    Mode::Strict => CallVerb::WriteStrict,
                    Mode::Monotonic => CallVerb::WriteMonotonic,
                };
                call(verb, &f.key, Some(&f.token), Some(f.generation))
            }
        }
    }

    /// Asks a store.
    pub(crate) fn start(self, store: Arc<dyn Store>) -> PendingAnswer {
        Box::pin(async move { self.put(&*store).await.unwrap_or_else(|error| failed(&error)) })
    }

    async fn put(self, store: &dyn Store) -> tenure_lease::Result<Answer> {
        Ok(match self {
            Self::Acquire(claim) => acquired(&store.acquire(claim).await?),
            Self::Renew(item) => match store.renew(&[item]).await?.pop().transpose()? {
                Some(Renewed::Renewed { .. }) => ok("renewed", None),
                Some(Renewed::Lost(end)) => {
                    Answer { why: Some(end.as_str().into()), ..refused("lost", None) }
                }
                None => unknown("nothing"),
            },
            Self::Release(release) => match store.release(release).await? {
                Released::Released => ok("released", None),
                Released::NotHeld => refused("not_held", None),
            },
            Self::Transfer(transfer) => match store.transfer(transfer).await? {
                Transferred::Transferred(lease) => ok("transferred", Some(lease.generation)),
                Transferred::NotHeld => refused("not_held", None),
                Transferred::NoSuccessor => refused("no_successor", None),
            },
            Self::Revoke(revoke) => match store.revoke(revoke).await? {
                Revoked::Revoked { .. } => ok("revoked", None),
                Revoked::Stale { current } => refused("stale", current),
            },
            Self::Verify(key, token) => match store.verify(&key, &token).await? {
                Verified::Live { generation, .. } => ok("live", Some(generation)),
                Verified::Ended => ok("ended", None),
                Verified::Wrong => ok("wrong", None),
            },
            Self::Inspect(key) => {
                let status = store.inspect(&key).await?;
                ok(phase(status.phase), status.generation)
            }
            Self::Commit(ops) => committed(store.commit(&ops).await?),
            Self::Fenced(fence, ops) => committed(store.write_fenced(&fence, &ops).await?),
        })
    }
}

pub(crate) const fn phase(phase: tenure_lease::Phase) -> &'static str {
    match phase {
        tenure_lease::Phase::Free => "free",
        tenure_lease::Phase::Held => "held",
        tenure_lease::Phase::Delayed => "delayed",
        tenure_lease::Phase::Reserved => "reserved",
    }
}

fn ok(word: impl Into<Word>, generation: Option<Generation>) -> Answer {
    let generation = generation.map(Generation::get);
    Answer { outcome: Outcome::Ok, word: word.into(), generation, why: None }
}

fn refused(word: impl Into<Word>, generation: Option<Generation>) -> Answer {
    Answer { outcome: Outcome::Refused, ..ok(word, generation) }
}

/// An answer that never came.
pub(crate) fn unknown(why: impl Into<Word>) -> Answer {
    Answer { outcome: Outcome::Unknown, why: Some(why.into()), ..ok("unknown", None) }
}

pub(crate) fn acquired(answer: &Acquired) -> Answer {
    match answer {
        Acquired::Granted(grant) => {
            ok(if grant.parked { "parked" } else { "granted" }, Some(grant.lease.generation))
        }
        Acquired::Busy(busy) => {
            Answer { why: Some(busy.reason.as_str().into()), ..refused("busy", busy.generation) }
        }
    }
}

fn committed(answer: Committed) -> Answer {
    match answer {
        Committed::Written { revision } => Answer { generation: Some(revision.get()), ..ok("written", None) },
        Committed::Conflict { .. } => refused("conflict", None),
        Committed::FencedOut { current } => refused("fenced_out", current),
    }
}

/// What an error says of what happened.
pub(crate) fn failed(error: &Error) -> Answer {
    let word = match error {
        Error::Refused(Refusal::TokenSpent) => "token_spent",
        Error::Refused(Refusal::KeyIsLeased { .. }) => "key_is_leased",
        Error::Refused(Refusal::TooMany { .. }) => "too_many",
        Error::Refused(Refusal::TtlOutOfRange { .. }) => "ttl_out_of_range",
        Error::Invalid { .. } => "invalid",
        Error::Unavailable { .. } => "unavailable",
        Error::Unknown { .. } => "unknown",
    };
    let outcome = match error.outcome() {
        tenure_lease::Outcome::NotApplied => Outcome::Refused,
        tenure_lease::Outcome::Indeterminate => Outcome::Unknown,
    };
    Answer { outcome, word: word.into(), generation: None, why: Some(error.to_string().into()) }
}
