//! What must come true once nothing is at fault.

use std::collections::{BTreeMap, BTreeSet};

use tenure_meet_client::State;
use tenure_meet_wire::{Id, MeetingId};

use super::person::name;
use super::running::Running;

/// Why the run has not settled; none if everyone is in one meeting with one owner, each in one seat.
pub(super) fn unsettled(run: &Running) -> Option<String> {
    let mut inside = BTreeSet::new();
    for (number, presence) in run.people.iter().enumerate() {
        let presence = presence.lock();
        match (&presence.out, &presence.client) {
            (Some(_), _) => continue,
            _ if !presence.done => return Some(format!("{} is not done", name(number))),
            (None, None) => return Some(format!("{} has not joined", name(number))),
            (None, Some(client)) if client.state() == State::Connected => inside.insert(name(number)),
            (None, Some(client)) => return Some(format!("{} is {:?}", name(number), client.state())),
        };
    }
    if inside.is_empty() {
        return None;
    }
    seats(run, &inside).or_else(|| views(run)).or_else(|| masks(run))
}

/// Each person that is inside has one seat and is connected; no other seat is left.
fn seats(run: &Running, inside: &BTreeSet<String>) -> Option<String> {
    let judge = run.world.judge.lock();
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for seat in judge.seats.values() {
        *count.entry(&seat.name).or_default() += 1;
        if seat.away_since_us.is_some() {
            return Some(format!("the seat of {} is stored as disconnected", seat.name));
        }
        if judge.must_be_muted(&seat.user).is_some_and(|muted| muted != seat.mutes.audio_host)
            && !judge.ending
        {
            return Some(format!("{} must be muted {:?}", seat.name, judge.must_be_muted(&seat.user)));
        }
    }
    let seated: BTreeSet<String> = count.keys().map(|name| (*name).to_owned()).collect();
    let doubled = count.iter().find(|(_, count)| **count > 1);
    match doubled {
        Some((name, count)) => Some(format!("{name} has {count} seats")),
        None => (seated != *inside).then(|| format!("seats of {seated:?}, and {inside:?} are inside")),
    }
}

/// Every client is connected to the owner and knows all of the meeting.
fn views(run: &Running) -> Option<String> {
    let Some((owner, _)) = run.owner() else { return Some("the meeting has no owner".to_owned()) };
    let (seats, last): (BTreeSet<String>, u64) = {
        let judge = run.world.judge.lock();
        (judge.seats.values().map(|seat| seat.participant.clone()).collect(), judge.last_event())
    };
    for (number, presence) in run.people.iter().enumerate() {
        let presence = presence.lock();
        let (Some(client), Some(life)) = (&presence.client, presence.life) else { continue };
        let peers = run.world.wires.lock().peers_of(life);
        if !peers.iter().any(|peer| peer.host == owner) {
            return Some(format!("{} is connected to {peers:?}, the owner is {owner}", name(number)));
        }
        let why = client.view(|view| {
            let known: BTreeSet<String> = view.people.keys().cloned().collect();
            let mut lines: Vec<&str> = view.lines.iter().map(|line| line.said.text.as_str()).collect();
            let count = lines.len();
            lines.sort_unstable();
            lines.dedup();
            match () {
                () if view.event_seq != last => Some(format!("knows event {} of {last}", view.event_seq)),
                () if known != seats => Some(format!("knows {known:?} of {seats:?}")),
                () if lines.len() != count => Some("shows a chat message twice".to_owned()),
                () => None,
            }
        });
        if let Some(why) = why {
            return Some(format!("{} {why}", name(number)));
        }
    }
    None
}

/// The handler serves the owner and has the host mutes of every seat.
fn masks(run: &Running) -> Option<String> {
    let (_, generation) = run.owner()?;
    let meeting = run.handler.as_ref()?.meeting(&MeetingId::parse(&run.meeting()?)?);
    let Some(meeting) = meeting else { return Some("the handler does not know the meeting".to_owned()) };
    if meeting.owner.generation != generation {
        return Some(format!("the handler serves {}, the owner has {generation}", meeting.owner.generation));
    }
    let judge = run.world.judge.lock();
    let wrong = judge.seats.values().find(|seat| {
        let mask = Id::parse(&seat.participant).and_then(|id| meeting.mask(id));
        mask.is_none_or(|mask| mask.audio != seat.mutes.audio_host)
    });
    wrong.map(|seat| format!("the handler's mask of {} is wrong", seat.name))
}
