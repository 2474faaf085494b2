//! The waiting room: participants that join wait until a host admits them.

use tenure_lease::Wall;
use tenure_meet_wire::Id;

use crate::meeting::request::require_host;
use crate::meeting::{
    Change, DirectMessage, Effect, Effects, Join, Meeting, Now, Refusal, Role, Seat, UserRecord, Write,
    limits, mute, user,
};

/// A participant that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingEntry {
    /// The participant's id, also of its later seat.
    pub participant: Id,
    /// The user.
    pub user: String,
    /// The name shown to hosts.
    pub name: String,
    /// The role.
    pub role: Role,
    /// Since when it waits.
    pub since: Wall,
}

/// Whether a join has to wait for a host.
pub(super) fn must_wait(meeting: &Meeting, join: &Join) -> bool {
    let admitted = join.admitted || user::record(meeting, &join.user).admitted;
    meeting.settings.waiting_room && join.role != Role::Host && !admitted
}

/// The participant waits. Nothing is persisted: if the controller is lost, the client joins again.
pub(super) fn wait(meeting: &Meeting, join: &Join, now: Now) -> Result<Effects, Refusal> {
    if meeting.waiting.len() >= limits::WAITING {
        return Err(Refusal::Full);
    }
    let participant = join.ids.participant;
    let entry = WaitingEntry {
        participant,
        user: join.user.clone(),
        name: join.name.clone(),
        role: join.role,
        since: now.wall,
    };
    let effects = Effects::new(Write::None, vec![Change::Waiting(Box::new(entry))], notify_hosts(meeting));
    Ok(Effects { waits: Some(participant), ..effects })
}

/// A participant that waits disconnected.
pub(super) fn stop_waiting(meeting: &Meeting, participant: Id) -> Effects {
    if !meeting.waiting.contains_key(&participant) {
        return Effects::none();
    }
    Effects::new(Write::None, vec![Change::WaitingRemoved(participant)], notify_hosts(meeting))
}

/// Sends the waiting room to all connected hosts.
pub(super) fn notify_hosts(meeting: &Meeting) -> Vec<Effect> {
    let send =
        |host: &Seat| Effect::Send { participant: host.participant, message: DirectMessage::WaitingRoom };
    meeting.hosts().map(send).collect()
}

/// Sends the waiting room to all participants that wait: a host arrived.
pub(super) fn notify_waiting(meeting: &Meeting) -> Vec<Effect> {
    let send =
        |participant: &Id| Effect::Send { participant: *participant, message: DirectMessage::WaitingRoom };
    meeting.waiting.keys().map(send).collect()
}

/// A host admits participants. Those that wait join as admitted; guests that entered muted are unmuted.
pub(super) fn admit(meeting: &Meeting, by: Seat, participants: &[Id], all: bool) -> Result<Effects, Refusal> {
    require_host(&by)?;
    if participants.len() > limits::ADMITTED {
        return Err(Refusal::Invalid("one request admits at most 64 participants by id"));
    }
    let waiting: Vec<Id> = match all {
        true => meeting.waiting.keys().copied().collect(),
        false => participants.iter().copied().filter(|id| meeting.waiting.contains_key(id)).collect(),
    };
    let seated = participants.iter().filter(|_| !all).filter_map(|id| meeting.seats.get(id));
    let mut muted: Vec<&Seat> = Vec::new();
    for seat in seated.filter(|seat| user::entered_muted(meeting, seat)) {
        if muted.iter().all(|other| other.user != seat.user) {
            muted.push(seat);
        }
    }
    if waiting.is_empty() && muted.is_empty() && !all {
        return Err(Refusal::NotFound("no such participant waits or entered muted"));
    }
    let mut changes = vec![Change::Seat(Box::new(by.clone()))];
    let mut then = vec![Effect::Accept];
    let mut epoch = meeting.mute_epoch;
    for seat in muted {
        epoch += 1;
        let record = UserRecord { admitted: true, ..user::record(meeting, &seat.user) };
        let (unmuted, enforced) = mute::set_user_mutes(meeting, &by, &seat.user, record, epoch)?;
        changes.extend(unmuted);
        then.extend(enforced);
    }
    if changes.len() > limits::TIMER_CHANGES {
        return Err(Refusal::Invalid("too many participants to unmute at once"));
    }
    if !waiting.is_empty() {
        then.push(Effect::Admit(waiting));
    }
    Ok(Effects::new(if changes.len() > 1 { Write::Sync } else { Write::Async }, changes, then))
}
