//! Histories by hand.

use crate::history::{
    Answer, Belief, Call, CallVerb, Event, History, Nanos, OpId, Outcome, PermitId, Setting, Step, TokenId,
    What,
};

pub(crate) fn history(events: impl IntoIterator<Item = (Nanos, What)>) -> History {
    let events = events.into_iter().map(|(at, what)| Event { at, what }).collect();
    History { setting: Setting::default(), events }
}

pub(crate) fn store(key: &str, generation: u64, token: Option<TokenId>, step: Step) -> What {
    What::Store { store: 0, key: key.into(), step, generation, token, holder: "h".into() }
}

pub(crate) fn granted(key: &str, generation: u64, token: TokenId) -> What {
    store(key, generation, Some(token), Step::Granted)
}

pub(crate) fn renewed(key: &str, generation: u64, until: Nanos) -> What {
    store(key, generation, None, Step::Renewed { until })
}

pub(crate) fn ended(key: &str, generation: u64, why: &'static str) -> What {
    store(key, generation, None, Step::Ended(why.into()))
}

pub(crate) fn parked(key: &str, token: TokenId) -> What {
    store(key, 0, Some(token), Step::Parked)
}

/// A permit of a client; its token is 100 more than the client's number.
pub(crate) fn permit(permit: PermitId, client: u32, key: &str, generation: u64, until: Nanos) -> What {
    What::Permit { permit, client, key: key.into(), generation, token: u64::from(client) + 100, until }
}

pub(crate) fn guard(client: u32, key: &str, generation: u64, state: Belief) -> What {
    What::Guard { client, key: key.into(), generation, token: u64::from(client) + 100, state }
}

pub(crate) fn bare(key: &str, token: TokenId) -> Call {
    Call {
        verb: CallVerb::Acquire,
        key: key.into(),
        token: Some(token),
        generation: None,
        holder: None,
        ttl: None,
        wait: None,
    }
}

pub(crate) fn acquire(op: OpId, client: u32, key: &str, token: TokenId) -> What {
    What::Invoked { op, client, call: bare(key, token) }
}

pub(crate) fn renew(op: OpId, client: u32, key: &str, token: TokenId, generation: u64) -> What {
    let call = Call { verb: CallVerb::Renew, generation: Some(generation), ..bare(key, token) };
    What::Invoked { op, client, call }
}

pub(crate) fn answer(op: OpId, word: &'static str, generation: u64) -> What {
    let outcome = match word {
        "busy" | "lost" | "not_held" | "unproven" => Outcome::Refused,
        "unknown" => Outcome::Unknown,
        _ => Outcome::Ok,
    };
    let generation = (generation > 0).then_some(generation);
    What::Returned { op, answer: Answer { outcome, word: word.into(), generation, why: None } }
}
