//! What must hold in every run, and what is known of one while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prost::Message as _;
use serde::Deserialize;
use tenure_lease::{Fence, Generation, Key, Op};
use tenure_meet_wire::frame;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, JoinRequest, ServerMessage};

use super::world::Life;
use crate::history::Nanos;
use crate::simulation::HostId;

/// How long a controller surely repeats the answer to a resume, on any wall clock of a run.
const REPEATED: Nanos = 1_500_000_000;

/// How long after a fault of the servers an owner may still be found dead.
const AFTERMATH: Nanos = 8_000_000_000;

/// The sentences of the judge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sentence {
    /// Every request that was acknowledged as durable is in the log.
    AcknowledgedIsKept,
    /// No request takes effect twice.
    OnceOnly,
    /// What is sent as durable is what the log has under that number.
    OneContent,
    /// A host's mute is lifted by a host only, and handlers know it.
    MutesStay,
    /// No owner writes after a newer one.
    NoStaleWrite,
    /// A binding token gives a seat back once, and only its client has it.
    OneResume,
    /// A client that comes back in time has its seat.
    SeatsStay,
    /// No meeting is taken from an owner that all others reach.
    OwnersStay,
    /// Once nothing is at fault, everyone is in one meeting with one owner, each in one seat.
    OneMeeting,
}

impl Sentence {
    /// The sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::AcknowledgedIsKept => "M1 no acknowledged request is lost",
            Self::OnceOnly => "M2 no request takes effect twice",
            Self::OneContent => "M3 no event number is sent as durable with two contents",
            Self::MutesStay => "M4 only a host lifts a host's mute",
            Self::NoStaleWrite => "M5 no stale owner writes",
            Self::OneResume => "M6 a binding token resumes once",
            Self::SeatsStay => "M7 a client that comes back in time has its seat",
            Self::OwnersStay => "M8 no meeting is taken from an owner that is well",
            Self::OneMeeting => "M9 everyone ends in one meeting with one owner, in one seat",
        }
    }
}

/// A sentence that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at: Nanos,
    /// Which.
    pub sentence: Sentence,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s: {}: {}", self.at as f64 / 1e9, self.sentence.sentence(), self.text)
    }
}

/// A seat as it is stored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SeatRow {
    pub(super) participant: String,
    pub(super) user: String,
    pub(super) name: String,
    pub(super) away_since_us: Option<u64>,
    pub(super) epoch: u64,
    pub(super) mutes: MutesRow,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct MutesRow {
    pub(super) audio_host: bool,
}

/// What a host decided about a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decision {
    /// Acknowledged.
    Muted(bool),
    /// On its way, or without an answer: both are possible.
    Open,
}

/// A session as its frames tell it.
#[derive(Default)]
struct Talk {
    client: Option<HostId>,
    join: Option<JoinRequest>,
    asked: BTreeMap<u64, Ask>,
}

/// The judge of a run.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) violations: Vec<Violation>,
    /// Lines of the history, where they are kept, and the hash of all.
    pub(super) lines: Option<Vec<String>>,
    pub(super) hash: u64,
    pub(super) events: u64,
    /// The log of the meeting: every entry that was ever written.
    log: Vec<Option<Payload>>,
    /// The event of each chat message.
    chats: BTreeMap<String, u64>,
    /// Chat messages whose acknowledgement said that it is not durable.
    volatile: BTreeSet<String>,
    /// The seats by their keys.
    pub(super) seats: BTreeMap<String, SeatRow>,
    decisions: BTreeMap<String, Decision>,
    /// A host asked for the end of the meeting: its decisions and its log may be gone.
    pub(super) ending: bool,
    talks: BTreeMap<u64, Talk>,
    /// Until when servers or the network are at fault.
    at_fault: Nanos,
    /// The attempt that each binding token was spent by.
    spent: BTreeMap<String, String>,
    /// When the last resume of each person was written, by its name.
    resumes: BTreeMap<String, Nanos>,
    /// The last resume of each host that succeeded, for eavesdroppers.
    resumed: BTreeMap<HostId, JoinRequest>,
}

impl Judge {
    pub(super) fn new(keep_lines: bool) -> Self {
        Self { lines: keep_lines.then(Vec::new), ..Self::default() }
    }

    /// Adds a line to the history. Runs of one seed have the same lines.
    pub(super) fn note(&mut self, at: Nanos, line: impl FnOnce() -> String) {
        let line = line();
        self.events += 1;
        for byte in at.to_le_bytes().iter().chain(line.as_bytes()) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>12.6}  {line}", at as f64 / 1e9));
        }
    }

    pub(super) fn broke(&mut self, at: Nanos, sentence: Sentence, text: String) {
        self.note(at, || format!("VIOLATION {}: {text}", sentence.sentence()));
        self.violations.push(Violation { at, sentence, text });
    }

    /// How many events the log has had.
    pub(super) fn last_event(&self) -> u64 {
        self.log.len() as u64
    }

    /// Servers or the network are at fault until then.
    pub(super) fn faulty_until(&mut self, until: Nanos) {
        self.at_fault = self.at_fault.max(until);
    }

    /// A controller took the lease of a meeting from its owner.
    pub(super) fn took_over(&mut self, at: Nanos, key: &Key, holder: &str) {
        self.note(at, || format!("store: {holder} takes {key} over"));
        if at > self.at_fault + AFTERMATH {
            self.broke(at, Sentence::OwnersStay, format!("{holder} took {key} over while all was well"));
        }
    }

    /// The engine accepted a write without a fence.
    pub(super) fn wrote_unfenced(&mut self, at: Nanos, ops: &[Op]) {
        for op in ops {
            let key = key_of(op);
            if key.starts_with("meeting:") {
                self.broke(at, Sentence::NoStaleWrite, format!("{key} was written without a fence"));
            }
        }
    }

    /// The engine accepted a fenced write while `owner` held the lease.
    pub(super) fn wrote(&mut self, at: Nanos, fence: &Fence, owner: Option<Generation>, ops: &[Op]) {
        let (generation, count) = (fence.generation, ops.len());
        self.note(at, || format!("store: {} under {generation}, {count} operations", fence.key));
        if owner != Some(generation) {
            let text = format!("{} under {generation} while {owner:?} owns it", fence.key);
            self.broke(at, Sentence::NoStaleWrite, text);
        }
        for op in ops {
            match op {
                Op::Append { value, .. } => self.appended(at, value),
                Op::Delete { key } => drop(self.seats.remove(key.as_str())),
                Op::Put { key, value, .. }
                | Op::PutIfAbsent { key, value, .. }
                | Op::PutIfRevision { key, value, .. } => self.put(at, key.as_str(), value),
            }
        }
    }

    fn appended(&mut self, at: Nanos, value: &[u8]) {
        let payload = ServerMessage::decode(value).ok().and_then(|message| message.payload);
        let number = self.last_event() + 1;
        self.note(at, || format!("log: event {number} {}", payload.as_ref().map_or("?".to_owned(), short)));
        if let Some(Payload::ChatMessage(chat)) = &payload
            && let Some(first) = self.chats.insert(chat.text.clone(), number)
        {
            let text = format!("{:?} is event {first} and event {number}", chat.text);
            self.broke(at, Sentence::OnceOnly, text);
        }
        self.log.push(payload);
    }

    fn put(&mut self, at: Nanos, key: &str, value: &[u8]) {
        if !key.contains(":seat:") {
            return;
        }
        let Ok(row) = serde_json::from_slice::<SeatRow>(value) else { return };
        let muted = self.decisions.get(&row.user) == Some(&Decision::Muted(true));
        if muted && !row.mutes.audio_host && !self.ending {
            let text = format!("{} ({}) is stored unmuted", row.name, row.user);
            self.broke(at, Sentence::MutesStay, text);
        }
        let name = row.name.clone();
        let before = self.seats.insert(key.to_owned(), row);
        if before.is_some_and(|before| before.epoch < self.seats[key].epoch) {
            self.resumes.insert(name, at);
        }
    }

    /// A frame leaves a host. `client` is the sender if it is a client, `peer` the receiver.
    pub(super) fn saw_frame(&mut self, at: Nanos, wire: u64, client: Option<Life>, peer: Life, bytes: &[u8]) {
        let Some(body) = bytes.get(frame::HEADER..) else { return };
        match client {
            Some(life) => {
                let Ok(message) = ClientMessage::decode(body) else { return };
                self.asked(at, wire, life.host, message);
            }
            None => {
                let Ok(message) = ServerMessage::decode(body) else { return };
                self.told(at, wire, peer.host, &message);
            }
        }
    }

    fn asked(&mut self, at: Nanos, wire: u64, host: HostId, message: ClientMessage) {
        let Some(ask) = message.payload else { return };
        self.note(at, || format!("wire {wire}: {host} asks {} {}", message.seq, name(&ask)));
        let talk = self.talks.entry(wire).or_default();
        talk.client = Some(host);
        match ask {
            Ask::JoinRequest(join) => talk.join = Some(join),
            ask => drop(talk.asked.insert(message.seq, ask)),
        }
    }

    fn told(&mut self, at: Nanos, wire: u64, to: HostId, message: &ServerMessage) {
        let (number, durable) = (message.event_seq, message.durable != Some(false));
        let what = message.payload.as_ref().map_or("nothing".to_owned(), short);
        self.note(at, || {
            format!("wire {wire}: {to} receives {} event {number} {durable} {what}", message.seq)
        });
        if number > 0 && durable {
            self.told_event(at, to, number, message.payload.as_ref());
        }
        match &message.payload {
            Some(Payload::Accepted(_)) => self.accepted(at, wire, message.seq, durable),
            Some(Payload::JoinResponse(welcome)) if welcome.resumed => self.welcomed_back(at, wire, to),
            _ => {}
        }
    }

    fn told_event(&mut self, at: Nanos, to: HostId, number: u64, told: Option<&Payload>) {
        let kept = self.log.get(number as usize - 1);
        // Those outside the audience of an event learn its number only.
        let same = kept.is_some_and(|kept| told.is_none() || told == kept.as_ref());
        if !same {
            let kept = kept.map(|kept| kept.as_ref().map_or("?".to_owned(), short));
            let told = told.map(short);
            let text = format!("host {to} receives event {number} as {told:?}, the log has {kept:?}");
            self.broke(at, Sentence::OneContent, text);
        }
    }

    fn accepted(&mut self, at: Nanos, wire: u64, seq: u64, durable: bool) {
        let ask = self.talks.get(&wire).and_then(|talk| talk.asked.get(&seq)).cloned();
        let Some(Ask::ChatRequest(chat)) = ask else { return };
        if !durable {
            self.volatile.insert(chat.text);
        } else if !self.chats.contains_key(&chat.text) {
            let text = format!("{:?} is accepted and not in the log", chat.text);
            self.broke(at, Sentence::AcknowledgedIsKept, text);
        }
    }

    fn welcomed_back(&mut self, at: Nanos, wire: u64, host: HostId) {
        let Some(join) = self.talks.get(&wire).and_then(|talk| talk.join.clone()) else { return };
        let before = self.spent.insert(join.binding_token.clone(), join.attempt_id.clone());
        if before.is_some_and(|before| before != join.attempt_id) {
            let text = format!("host {host} resumed with a token that another attempt had spent");
            self.broke(at, Sentence::OneResume, text);
        }
        self.resumed.insert(host, join);
    }

    /// A client got a new seat although it was back in time. A resume that was written, and whose answer was lost, can
    /// be repeated for [`REPEATED`] only.
    pub(super) fn lost_its_seat(&mut self, at: Nanos, name: &str, heard: Nanos) {
        let written = self.resumes.get(name).copied().filter(|written| *written > heard);
        if written.is_none_or(|written| at - written < REPEATED) {
            let text =
                format!("{name} got a new seat {} ms after it was last heard of", (at - heard) / 1_000_000);
            self.broke(at, Sentence::SeatsStay, text);
        }
    }

    /// The last resume of a host, as an eavesdropper would repeat it.
    pub(super) fn overheard(&self, host: HostId) -> Option<JoinRequest> {
        let join = self.resumed.get(&host)?.clone();
        Some(JoinRequest { attempt_id: format!("{}x", &join.attempt_id[1..]), ..join })
    }

    /// A client reports to its user that a chat message was sent.
    pub(super) fn acknowledged(&mut self, at: Nanos, text: &str) {
        if !self.chats.contains_key(text) && !self.volatile.contains(text) && !self.ending {
            let text = format!("{text:?} is acknowledged and not in the log");
            self.broke(at, Sentence::AcknowledgedIsKept, text);
        }
    }

    /// A host is about to mute or unmute a user.
    pub(super) fn deciding(&mut self, user: &str) -> bool {
        let before = self.decisions.insert(user.to_owned(), Decision::Open);
        // After a request without an answer nothing is certain any more.
        before != Some(Decision::Open)
    }

    /// The decision has an answer.
    pub(super) fn decided(&mut self, user: &str, muted: bool) {
        self.decisions.insert(user.to_owned(), Decision::Muted(muted));
    }

    /// Whether a user must be muted, if that is certain.
    pub(super) fn must_be_muted(&self, user: &str) -> Option<bool> {
        match self.decisions.get(user) {
            Some(Decision::Muted(muted)) => Some(*muted),
            Some(Decision::Open) => None,
            None => Some(false),
        }
    }
}

fn key_of(op: &Op) -> &str {
    match op {
        Op::Put { key, .. } | Op::PutIfAbsent { key, .. } | Op::PutIfRevision { key, .. } => key.as_str(),
        Op::Delete { key } => key.as_str(),
        Op::Append { log, .. } => log.as_str(),
    }
}

/// The kind of a request.
fn name(ask: &Ask) -> String {
    match ask {
        Ask::JoinRequest(join) if join.binding_token.is_empty() => "join".to_owned(),
        Ask::JoinRequest(join) => format!("resume from {}", join.last_event_seq),
        Ask::ChatRequest(chat) => format!("chat {:?}", chat.text),
        other => format!("{other:?}").chars().take(60).collect(),
    }
}

/// An answer or event, in short.
fn short(payload: &Payload) -> String {
    match payload {
        Payload::ChatMessage(chat) => format!("chat {:?}", chat.text),
        Payload::JoinResponse(it) => format!("welcome {} resumed {}", it.participant_id, it.resumed),
        other => format!("{other:?}").chars().take(100).collect(),
    }
}
