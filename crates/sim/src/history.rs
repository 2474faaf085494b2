//! What happened, in true time: plain data that worlds record and judges read.
//!
//! One [`Event`] per line of JSON, in the order of recording; the first line is the [`Setting`]. True time is
//! in nanoseconds from the start of the run, the same for all hosts: in a simulation it is the simulator's
//! own, in a run of real processes on one machine it is `CLOCK_BOOTTIME`. Tokens never appear: a [`TokenId`]
//! is part of the token's digest.
//!
//! Ownership is recorded from three sides. The caller's: [`What::Invoked`] and [`What::Returned`] around each
//! store operation, [`What::Guard`], [`What::Permit`]. The store's: [`What::Store`], in the store's order. The
//! resource's: [`What::Wrote`]. The judge compares them.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// True time in nanoseconds.
pub type Nanos = u64;
/// A word of a fixed vocabulary, such as `expired` or `busy`.
pub type Word = Cow<'static, str>;
/// One process that holds or asks, over one of its lives: a restart is another client.
pub type Client = u32;
/// Part of a token's digest, below 2^53.
pub type TokenId = u64;
/// The number of an operation, unique in a history.
pub type OpId = u64;
/// The number of a permit, unique in a history.
pub type PermitId = u64;

/// Everything that is known of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// Under which assumptions it ran.
    pub setting: Setting,
    /// What happened; `at` never falls.
    pub events: Vec<Event>,
}

/// The assumptions of a run, from which follows what may be judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The seed, or zero for real processes.
    pub seed: u64,
    /// The engine's name.
    pub engine: Word,
    /// Whether all clock rates stayed within the bound that the margins assume, counted suspend, and (where the
    /// engine expires by wall time) did not step: then two permits on one key are a violation.
    pub clocks_hold: bool,
    /// Whether generations must rise strictly in the order of grants. False only where two masters accept
    /// writes outside of the strict profile: then they must still never repeat.
    pub generations_rise: bool,
    /// Whether the engine promises single holding over whatever faults this run had.
    pub single_holding: bool,
    /// Whether clients hold through a keeper, which counts a parked grant only after a renewal, and so on.
    pub keeper: bool,
    /// How late the store may notice an expiry.
    pub expiry_lag: Nanos,
    /// How long after healing a waiter at the head may wait for a key that is free.
    pub service_bound: Nanos,
    /// How long after it was dropped a claim may be held when nothing is at fault.
    pub reaper_bound: Nanos,
    /// The most a clock may be slow or fast against true time, in parts per million.
    pub drift_ppm: u32,
    /// Whether a request may be sent again below the recorder, so that it takes effect more than once.
    pub resends: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 0,
            engine: Cow::Borrowed("memory"),
            clocks_hold: true,
            generations_rise: true,
            single_holding: true,
            keeper: true,
            expiry_lag: 50_000_000,
            service_bound: 2_000_000_000,
            reaper_bound: 2_000_000_000,
            drift_ppm: 4_000,
            resends: false,
        }
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A client asked a store. Every item of a batch is an operation of its own.
    Invoked {
        /// The operation.
        op: OpId,
        /// Who asked.
        client: Client,
        /// For what.
        call: Call,
    },
    /// The client has an answer, or knows that none will come.
    Returned {
        /// The operation.
        op: OpId,
        /// The answer.
        answer: Answer,
    },
    /// The store did something, in the store's own order; the moment is the one of the decision.
    Store {
        /// Which of several stores.
        store: u32,
        /// The lease key.
        key: String,
        /// What it did.
        step: Step,
        /// The reign.
        generation: u64,
        /// Its token, where the recorder knows it.
        token: Option<TokenId>,
        /// Its holder.
        holder: String,
    },
    /// What a guard believes, when it changed and when it was looked at.
    Guard {
        /// Whose.
        client: Client,
        /// The lease key.
        key: String,
        /// The reign.
        generation: u64,
        /// Its token.
        token: TokenId,
        /// Which belief.
        state: Belief,
    },
    /// A client may act until `until`, in true time.
    Permit {
        /// Its number.
        permit: PermitId,
        /// Whose.
        client: Client,
        /// The lease key.
        key: String,
        /// The reign.
        generation: u64,
        /// Its token.
        token: TokenId,
        /// When the holder's deadline comes, in true time. The permit began when this was recorded.
        until: Nanos,
    },
    /// A client gave a permit up before its deadline, or acted on it for the last time.
    PermitOver {
        /// Its number.
        permit: PermitId,
    },
    /// A write arrived at a resource that is fenced by `key`.
    Wrote {
        /// The lease key that fences it.
        key: String,
        /// Whose write.
        client: Client,
        /// Under which generation.
        generation: u64,
        /// With which token.
        token: TokenId,
        /// Whether the resource let it in.
        accepted: bool,
        /// Whether the lease had to be live for that, or only not older than what wrote before.
        strict: bool,
    },
    /// A client began to live on a host.
    Started {
        /// Its number.
        client: Client,
        /// Where. Store number n is on host n.
        host: u32,
        /// Under which name it holds.
        holder: String,
    },
    /// A client did not come to an end of something that has a bound.
    Stuck {
        /// Which.
        client: Client,
        /// With what.
        text: String,
    },
    /// A client let go of a token: its acquire failed or was dropped, or its guard was given back or dropped.
    Dropped {
        /// Whose.
        client: Client,
        /// The lease key.
        key: String,
        /// The token, if one had been sent.
        token: Option<TokenId>,
    },
    /// How many slots of one name are offered from now on.
    Slots {
        /// The prefix of their keys.
        prefix: String,
        /// How many.
        offered: u32,
    },
    /// Something bad begins.
    Fault {
        /// What: `cut`, `freeze`, `suspend`, `crash`, `step` ….
        name: Word,
        /// The host it affects; none means all hosts. A store is on the host of its number.
        host: Option<u32>,
        /// When it ends; the moment itself for what takes no time, the last moment for what never ends.
        until: Nanos,
    },
    /// Nothing bad is under way from now on, and none will begin.
    Healed,
    /// Something for people who read timelines.
    Note {
        /// The words.
        text: String,
    },
    /// The run is over: nothing after this was looked at.
    End,
}

/// What a client asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The verb.
    pub verb: CallVerb,
    /// The lease key; the prefix for a wipe, the record's fence key for a fenced write.
    pub key: String,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The generation named, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The holder's name, where the verb carries one: of the claimant, or of the successor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The TTL asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Nanos>,
    /// How long the claim may be parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Nanos>,
}

/// The verb of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallVerb {
    /// Operation for a key.
    Acquire,
    /// Operation for a key in place of exactly one live generation.
    Replace,
    /// Prolong.
    Renew,
    /// Give back, perhaps to a successor.
    Release,
    /// Hand over.
    Transfer,
    /// End by force.
    Revoke,
    /// Operation whether a token holds.
    Verify,
    /// Operation what a key is doing.
    Inspect,
    /// End all under a prefix with the gate's token and generation as proof.
    Wipe,
    /// Write under a fence where the lease must be live.
    WriteStrict,
    /// Write under a fence where nothing newer may have written.
    WriteMonotonic,
}

/// What came of an operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it took effect.
    pub outcome: Outcome,
    /// The outcome's name: `granted`, `parked` (granted after having been parked), `busy`, `renewed`, `lost`,
    /// `released`, `not_held`, `transferred`, `no_successor`, `revoked`, `stale`, `live`, `ended`, `wrong`, `wiped`,
    /// `unproven`, `written`, `conflict`, `fenced_out`, `token_spent`, `free`, `held`, `delayed`, `reserved`, or
    /// the error's.
    pub word: Word,
    /// The generation named in it: of the grant, or of the reign in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Why a renewal was lost, or a claim busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Word>,
}

/// Whether an operation took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what was asked.
    Ok,
    /// It did not, and changed nothing.
    Refused,
    /// It may have: no answer came.
    Unknown,
}

/// What a store did.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A new reign began.
    Granted,
    /// The reign was prolonged until this moment of true time.
    Renewed {
        /// When it expires without another.
        until: Nanos,
    },
    /// The reign ended; the word is that of `tenure_lease::End`.
    Ended(Word),
    /// A claim was parked in the key's queue; there is no generation yet.
    Parked,
    /// A parked claim left the queue without a grant.
    Left,
    /// The holder named here may be granted the key before the head of the queue, until this moment.
    Successor {
        /// The end of its right.
        until: Nanos,
    },
    /// No claim, or none but the successor's, is granted until this moment: a lock-delay or a reservation.
    Closed {
        /// Its end.
        until: Nanos,
    },
}

/// What a guard believes of its lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Belief {
    /// Fresh.
    Held,
    /// A renewal failed, the deadline has not come.
    Jeopardy,
    /// Past the deadline.
    Suspended,
    /// Over.
    Lost,
}

impl History {
    /// Writes the setting and then one event per line.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut to, &self.setting)?;
        to.write_all(b"\n")?;
        for event in &self.events {
            serde_json::to_writer(&mut to, event)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Reads what [`History::write`] wrote.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let mut lines = from.lines();
        let first = lines.next().unwrap_or_else(|| Ok("{}".into()))?;
        let setting = serde_json::from_str(&first)?;
        let events = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<io::Result<_>>()?;
        Ok(Self { setting, events })
    }

    /// Puts the events in the order of time; those of one moment stay as they were recorded.
    pub fn sort(&mut self) {
        self.events.sort_by_key(|event| event.at);
    }

    /// A number that two histories share only if they are the same, but for an accident of one in 2^64.
    pub fn fingerprint(&self) -> u64 {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail, and a history has no map with keys that JSON cannot write.
        drop(self.write(&mut bytes));
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// The id of a token with this SHA-256 digest.
pub fn token_id(digest: &[u8; 32]) -> TokenId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(bytes) >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let call = Call {
            verb: CallVerb::Acquire,
            key: "k".into(),
            token: Some(7),
            generation: None,
            holder: Some("a".into()),
            ttl: Some(1_000_000_000),
            wait: None,
        };
        let answer = Answer {
            outcome: Outcome::Ok,
            word: "granted".into(),
            generation: Some((1 << 53) - 1),
            why: None,
        };
        let what = [
            What::Invoked { op: 1, client: 0, call },
            What::Store {
                store: 0,
                key: "k".into(),
                step: Step::Ended("expired".into()),
                generation: 3,
                token: None,
                holder: "a".into(),
            },
            What::Returned { op: 1, answer },
            What::Healed,
            What::End,
        ];
        let events = what.into_iter().enumerate().map(|(at, what)| Event { at: at as u64, what }).collect();
        History { setting: Setting::default(), events }
    }

    #[test]
    fn a_history_reads_as_it_was_written() {
        let mut bytes = Vec::new();
        history().write(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().count(), 6);
        assert!(text.lines().nth(1).unwrap().starts_with(r#"{"at":0,"what":"invoked","op":1"#), "{text}");
        assert_eq!(History::read(text.as_bytes()).unwrap(), history());
    }

    #[test]
    fn a_fingerprint_tells_two_histories_apart() {
        let mut other = history();
        assert_eq!(history().fingerprint(), other.fingerprint());
        other.events[0].at += 1;
        assert_ne!(history().fingerprint(), other.fingerprint());
    }
}
