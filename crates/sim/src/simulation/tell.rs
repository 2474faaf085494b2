//! Requests and answers in the words of a history.

use tenure_lease::{
    Acquired, BusyReason, Committed, Error, Generation, Key, Mode, Phase, Released, Renewed, Result, Revoked,
    Status, Token, Transferred, Verified, Wiped,
};

use super::wire::{Operation, Reply};
use crate::history::Outcome::{self, Ok as Yes, Refused, Unknown};
use crate::history::{Answer, Call, CallVerb, token_id};

/// The operations of a request, as a history has them.
pub(super) fn calls(ask: &Operation) -> Vec<Call> {
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
        Operation::Acquire(claim) => {
            let verb = if claim.instead_of.is_some() { CallVerb::Replace } else { CallVerb::Acquire };
            vec![Call {
                generation: claim.instead_of.map(Generation::get),
                holder: Some(claim.holder.to_string()),
                ttl: Some(claim.ttl.as_millis() * 1_000_000),
                wait: claim.wait.map(|wait| wait.as_nanos() as u64),
                ..call(verb, claim.key.as_str(), Some(&claim.token))
            }]
        }
        Operation::Renew(items) => items
            .iter()
            .map(|item| Call {
                generation: Some(item.generation.get()),
                ttl: item.ttl.map(|ttl| ttl.as_millis() * 1_000_000),
                ..call(CallVerb::Renew, item.key.as_str(), Some(&item.token))
            })
            .collect(),
        Operation::Release(release) => vec![Call {
            generation: release.generation.map(Generation::get),
            holder: release.to.as_ref().map(ToString::to_string),
            ..call(CallVerb::Release, release.key.as_str(), Some(&release.token))
        }],
        Operation::Transfer(transfer) => vec![Call {
            generation: Some(transfer.generation.get()),
            holder: Some(transfer.to.to_string()),
            ..call(CallVerb::Transfer, transfer.key.as_str(), Some(&transfer.token))
        }],
        Operation::Revoke(revoke) => vec![Call {
            generation: Some(revoke.generation.get()),
            wait: revoke.delay.map(|delay| delay.as_nanos() as u64),
            ..call(CallVerb::Revoke, revoke.key.as_str(), None)
        }],
        Operation::Verify(key, token) => vec![call(CallVerb::Verify, key.as_str(), Some(token))],
        Operation::Inspect(key) => vec![call(CallVerb::Inspect, key.as_str(), None)],
        Operation::Wipe(wipe) => vec![Call {
            generation: Some(wipe.gate.generation.get()),
            holder: Some(wipe.gate.key.to_string()),
            ..call(CallVerb::Wipe, wipe.prefix.as_str(), Some(&wipe.gate.token))
        }],
        Operation::WriteFenced(fence, _) => {
            let verb = match fence.mode {
                Mode::Strict => CallVerb::WriteStrict,
                Mode::Monotonic => CallVerb::WriteMonotonic,
            };
            let generation = Some(fence.generation.get());
            vec![Call { generation, ..call(verb, fence.key.as_str(), Some(&fence.token)) }]
        }
        Operation::List(_)
        | Operation::History(_)
        | Operation::Watch(..)
        | Operation::Commit(_)
        | Operation::Get(_)
        | Operation::Scan(_)
        | Operation::ReadLog(..) => Vec::new(),
    }
}

/// The key and token of one operation of a request.
pub(super) fn token_of(ask: &Operation, i: usize) -> Option<(&Key, &Token)> {
    match ask {
        Operation::Acquire(claim) => Some((&claim.key, &claim.token)),
        Operation::Renew(items) => items.get(i).map(|item| (&item.key, &item.token)),
        Operation::Release(release) => Some((&release.key, &release.token)),
        Operation::Transfer(transfer) => Some((&transfer.key, &transfer.token)),
        Operation::Verify(key, token) => Some((key, token)),
        Operation::Wipe(wipe) => Some((&wipe.gate.key, &wipe.gate.token)),
        Operation::WriteFenced(fence, _) => Some((&fence.key, &fence.token)),
        _ => None,
    }
}

fn say_error(error: &Error) -> Answer {
    match error {
        Error::Refused(tenure_lease::Refusal::TokenSpent) => plain(Refused, "token_spent"),
        Error::Unknown { .. } => plain(Unknown, "unknown"),
        Error::Unavailable { .. } => plain(Refused, "unavailable"),
        Error::Invalid { .. } | Error::Refused(_) => plain(Refused, "refused"),
    }
}

/// An answer, as a history has it.
pub(super) fn say(answer: &Result<Reply>, i: usize) -> Answer {
    match answer {
        Err(error) => say_error(error),
        Ok(Reply::Acquired(acquired)) => say_acquired(acquired),
        Ok(Reply::Renewed(answers)) => match answers.get(i) {
            Some(Ok(Renewed::Renewed { .. })) => plain(Yes, "renewed"),
            Some(Ok(Renewed::Lost(end))) => {
                Answer { why: Some(end.as_str().into()), ..plain(Refused, "lost") }
            }
            Some(Err(error)) => say_error(error),
            None => plain(Unknown, "unknown"),
        },
        Ok(Reply::Released(Released::Released)) => plain(Yes, "released"),
        Ok(Reply::Released(Released::NotHeld)) => plain(Refused, "not_held"),
        Ok(Reply::Transferred(Transferred::Transferred(lease))) => {
            Answer { generation: Some(lease.generation.get()), ..plain(Yes, "transferred") }
        }
        Ok(Reply::Transferred(Transferred::NotHeld)) => plain(Refused, "not_held"),
        Ok(Reply::Transferred(Transferred::NoSuccessor)) => plain(Refused, "no_successor"),
        Ok(Reply::Revoked(Revoked::Revoked { .. })) => plain(Yes, "revoked"),
        Ok(Reply::Revoked(Revoked::Stale { current })) => {
            Answer { generation: current.map(Generation::get), ..plain(Refused, "stale") }
        }
        Ok(Reply::Verified(Verified::Live { generation, .. })) => {
            Answer { generation: Some(generation.get()), ..plain(Yes, "live") }
        }
        Ok(Reply::Verified(Verified::Ended)) => plain(Yes, "ended"),
        Ok(Reply::Verified(Verified::Wrong)) => plain(Yes, "wrong"),
        Ok(Reply::Status(status)) => say_status(status),
        Ok(Reply::Wiped(Wiped::Wiped { .. })) => plain(Yes, "wiped"),
        Ok(Reply::Wiped(Wiped::Unproven)) => plain(Refused, "unproven"),
        Ok(Reply::Committed(Committed::Written { .. })) => plain(Yes, "written"),
        Ok(Reply::Committed(Committed::Conflict { .. })) => plain(Refused, "conflict"),
        Ok(Reply::Committed(Committed::FencedOut { current })) => {
            Answer { generation: current.map(Generation::get), ..plain(Refused, "fenced_out") }
        }
        Ok(Reply::List(_) | Reply::History(_) | Reply::Watching) => plain(Yes, "read"),
        Ok(Reply::Record(_) | Reply::Scan(_) | Reply::Log(_)) => plain(Yes, "read"),
    }
}

fn plain(outcome: Outcome, word: &'static str) -> Answer {
    Answer { outcome, word: word.into(), generation: None, why: None }
}

fn say_acquired(acquired: &Acquired) -> Answer {
    match acquired {
        Acquired::Granted(grant) => {
            let word = if grant.parked { "parked" } else { "granted" };
            Answer { generation: Some(grant.lease.generation.get()), ..plain(Yes, word) }
        }
        Acquired::Busy(busy) => Answer {
            // Of a free key it would be the last generation minted, perhaps by a grant that was not delivered.
            generation: busy.generation.filter(|_| busy.reason == BusyReason::Held).map(Generation::get),
            why: Some(busy.reason.as_str().into()),
            ..plain(Refused, "busy")
        },
    }
}

fn say_status(status: &Status) -> Answer {
    let word = match status.phase {
        Phase::Free => "free",
        Phase::Held => "held",
        Phase::Delayed => "delayed",
        Phase::Reserved => "reserved",
    };
    let generation = status.generation.filter(|_| status.phase == Phase::Held);
    Answer { generation: generation.map(Generation::get), ..plain(Yes, word) }
}
