//! The operations of a history, key by key.

use std::collections::BTreeMap;

use super::spec::NEVER;
use crate::history::{Call, CallVerb, History, Nanos, Outcome, TokenId, What, Word};

/// One operation on one key.
#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Its number in the history; none for what was not requested.
    pub(super) id: Option<u64>,
    pub(super) asked: OpKind,
    pub(super) token: Option<TokenId>,
    /// The generation that it named.
    pub(super) generation: Option<u64>,
    pub(super) holder: Option<String>,
    pub(super) invoked: Nanos,
    /// When its answer came; never for one that may still happen.
    pub(super) returned: Nanos,
    pub(super) outcome: Outcome,
    pub(super) word: Word,
    pub(super) why: Option<Word>,
    /// The generation in the answer.
    pub(super) answered: Option<u64>,
    /// The caller left without an answer: what it brought may be given back at any moment.
    pub(super) dropped: bool,
    /// A claim that waits asks more than once, and only its last answer is known.
    pub(super) waits: bool,
}

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpKind {
    Acquire {
        ttl: Nanos,
        instead_of: Option<u64>,
    },
    Renew {
        ttl: Option<Nanos>,
    },
    Release,
    Transfer,
    Revoke {
        delay: Option<Nanos>,
    },
    Verify,
    Inspect,
    Wipe,
    /// A write under a fence that wants the lease to be live.
    Write,
    /// The store was opened again.
    Restart,
}

impl Op {
    /// Whether it may have happened, and may not.
    pub(super) fn open(&self) -> bool {
        self.outcome == Outcome::Unknown
    }

    fn restart((from, until): (Nanos, Nanos)) -> Self {
        Self {
            id: None,
            asked: OpKind::Restart,
            token: None,
            generation: None,
            holder: None,
            invoked: from,
            returned: until,
            outcome: Outcome::Ok,
            word: "restarted".into(),
            why: None,
            answered: None,
            dropped: false,
            waits: false,
        }
    }
}

/// The operations of every key in the order in which they were asked. Those that certainly did nothing are left out.
/// Where requests may be sent again on the way, each has a duplicate without an answer. So has a waiting claim whose last
/// answer is that its token is spent: an earlier one of its calls may have kept the reign of that token.
pub(super) fn by_key(history: &History) -> BTreeMap<String, Vec<Op>> {
    let mut open: BTreeMap<u64, (String, Op)> = BTreeMap::new();
    let mut done: Vec<(String, Op)> = Vec::new();
    let mut restarts = Vec::new();
    for event in &history.events {
        match &event.what {
            What::Invoked { op, call, .. } => {
                if let Some(asked) = Op::asked(*op, call, event.at) {
                    open.insert(*op, (call.key.clone(), asked));
                }
            }
            What::Returned { op, answer } => {
                let Some((key, mut entry)) = open.remove(op) else { continue };
                (entry.outcome, entry.word) = (answer.outcome, answer.word.clone());
                (entry.why, entry.answered) = (answer.why.clone(), answer.generation);
                // A waiting claim that fails on its last call may still be in the queue by an earlier one.
                if entry.waits && &*entry.word == "unavailable" {
                    entry.outcome = Outcome::Unknown;
                }
                match entry.outcome {
                    Outcome::Unknown => entry.word = "unknown".into(),
                    _ => (entry.returned, entry.dropped) = (event.at, false),
                }
                done.push((key, entry));
            }
            // The store belongs to all hosts, or is on the host of its number. One that keeps all that it answered, and counts
            // time in its own, does not notice.
            What::Fault { name, host: None | Some(0), until }
                if name.starts_with("crash") && history.setting.engine != "redis" =>
            {
                restarts.push((event.at, *until.max(&event.at)));
            }
            _ => {}
        }
    }
    done.extend(open.into_values());
    let (wipes, done): (Vec<_>, Vec<_>) = done.into_iter().partition(|(_, op)| op.asked == OpKind::Wipe);
    let mut keys: BTreeMap<String, Vec<Op>> = BTreeMap::new();
    for (key, op) in done {
        if (history.setting.resends && op.may_have_a_twin()) || op.may_have_kept_its_reign() {
            let twin = Op {
                id: None,
                outcome: Outcome::Unknown,
                word: "unknown".into(),
                returned: NEVER,
                ..op.clone()
            };
            keys.entry(key.clone()).or_default().push(Op { why: None, answered: None, ..twin });
        }
        if op.matters() {
            keys.entry(key).or_default().push(op);
        }
    }
    for (key, ops) in &mut keys {
        ops.extend(restarts.iter().map(|at| Op::restart(*at)));
        let over = wipes.iter().filter(|(prefix, _)| key.starts_with(prefix)).map(|(_, op)| op.clone());
        // Whether it ended this reign is not known: it may be the gate's own.
        ops.extend(
            over.filter(|op| op.outcome != Outcome::Refused).map(|op| Op { outcome: Outcome::Unknown, ..op }),
        );
        ops.sort_by_key(|op| (op.invoked, op.id));
    }
    keys
}

impl Op {
    /// A call that has no answer yet; none where it is not of the store's.
    fn asked(id: u64, call: &Call, at: Nanos) -> Option<Self> {
        let asked = match call.verb {
            CallVerb::Acquire => OpKind::Acquire { ttl: call.ttl.unwrap_or(0), instead_of: None },
            CallVerb::Replace => OpKind::Acquire { ttl: call.ttl.unwrap_or(0), instead_of: call.generation },
            CallVerb::Renew => OpKind::Renew { ttl: call.ttl },
            CallVerb::Release => OpKind::Release,
            CallVerb::Transfer => OpKind::Transfer,
            CallVerb::Revoke => OpKind::Revoke { delay: call.ttl },
            CallVerb::Verify => OpKind::Verify,
            CallVerb::Inspect => OpKind::Inspect,
            CallVerb::Wipe => OpKind::Wipe,
            CallVerb::WriteStrict => OpKind::Write,
            CallVerb::WriteMonotonic => return None,
        };
        Some(Self {
            id: Some(id),
            asked,
            token: call.token,
            generation: call.generation,
            holder: call.holder.clone(),
            invoked: at,
            returned: NEVER,
            outcome: Outcome::Unknown,
            word: "unknown".into(),
            why: None,
            answered: None,
            dropped: true,
            waits: call.wait.is_some(),
        })
    }

    /// Whether a client sends it again by itself when no answer comes, and that makes a difference: of two
    /// releases only one can have found something, and if neither was answered one of them stands for both.
    fn may_have_a_twin(&self) -> bool {
        match self.asked {
            OpKind::Acquire { .. } | OpKind::Renew { .. } => true,
            OpKind::Release => self.outcome == Outcome::Refused,
            _ => false,
        }
    }

    /// Whether an earlier call of this claim may have taken effect although the last one was refused as spent.
    fn may_have_kept_its_reign(&self) -> bool {
        self.waits && matches!(self.asked, OpKind::Acquire { .. }) && &*self.word == "token_spent"
    }

    /// Whether it can have changed or shown anything.
    fn matters(&self) -> bool {
        let looks = matches!(self.asked, OpKind::Verify | OpKind::Inspect | OpKind::Write);
        match self.outcome {
            Outcome::Unknown => !looks,
            Outcome::Ok => true,
            Outcome::Refused => !matches!(
                &*self.word,
                "unavailable"
                    | "invalid"
                    | "too_many"
                    | "ttl_out_of_range"
                    | "key_is_leased"
                    | "conflict"
                    | "unknown"
                    | "refused"
            ),
        }
    }
}
