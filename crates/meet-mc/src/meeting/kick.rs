//! Kicking a participant, which bans its user, and lifting the ban.

use tenure_meet_wire::{CloseCode, Id};

use crate::meeting::request::{find_seat, require_host};
use crate::meeting::waiting::notify_hosts;
use crate::meeting::{
    Ban, Change, DirectMessage, Effect, Effects, Event, LeaveReason, Meeting, Now, Refusal, Role, Seat,
    UserRecord, WaitingEntry, Write, user,
};

/// Removes a seat; the participant is closed and its media ends.
pub(super) fn remove(seat: &Seat, reason: LeaveReason, code: CloseCode) -> (Vec<Change>, Vec<Effect>) {
    let (participant, epoch) = (seat.participant, seat.epoch);
    let changes = vec![Change::SeatRemoved(participant), Change::Event(Event::Left { participant, reason })];
    let then = vec![
        Effect::Close { participant, epoch, code },
        Effect::ReleaseParticipant { participant, epoch, reason },
    ];
    (changes, then)
}

/// A host removes a participant with all seats of its user, which cannot join again. The seats of hosts, and other
/// seats of the same user, are removed without a ban.
pub(super) fn kick(meeting: &Meeting, by: Seat, participant: Id, now: Now) -> Result<Effects, Refusal> {
    require_host(&by)?;
    if participant == by.participant {
        return Err(Refusal::Invalid("a host cannot kick itself; leave instead"));
    }
    if let Some(entry) = meeting.waiting.get(&participant) {
        return Ok(turn_away(meeting, by, entry, now));
    }
    let target = find_seat(meeting, participant)?;
    let bans = target.user != by.user && target.role != Role::Host;
    let (mut changes, mut then) = (Vec::new(), vec![Effect::Accept]);
    let removed =
        user::seats_of(meeting, &target.user).filter(|seat| bans || seat.participant == participant);
    for seat in removed {
        let (removed, closed) = remove(seat, LeaveReason::Kicked, CloseCode::Kicked);
        changes.extend(removed);
        then.extend(closed);
    }
    changes.push(Change::Seat(Box::new(by)));
    if bans {
        changes.extend(user::guests_enter_muted(meeting, target.role));
        changes.extend(ban(meeting, &target.user, &target.name, now));
        let (left, turned_away) = turn_away_user(meeting, &target.user);
        changes.extend(left);
        then.extend(turned_away);
        then.extend(notify_of_bans(meeting));
    }
    Ok(Effects::new(Write::Sync, changes, then))
}

/// A host turns away a participant that waits; its user is banned like a kicked one.
fn turn_away(meeting: &Meeting, by: Seat, entry: &WaitingEntry, now: Now) -> Effects {
    let (mut changes, turned_away) = turn_away_user(meeting, &entry.user);
    changes.push(Change::Seat(Box::new(by)));
    changes.extend(ban(meeting, &entry.user, &entry.name, now));
    let then = [vec![Effect::Accept], turned_away, notify_of_bans(meeting)].concat();
    Effects::new(Write::Sync, changes, then)
}

fn turn_away_user(meeting: &Meeting, user: &str) -> (Vec<Change>, Vec<Effect>) {
    let waiting: Vec<Id> =
        meeting.waiting.values().filter(|entry| entry.user == user).map(|entry| entry.participant).collect();
    let changes = waiting.iter().map(|participant| Change::WaitingRemoved(*participant)).collect();
    let mut then: Vec<Effect> =
        waiting.iter().map(|participant| Effect::TurnAway { participant: *participant }).collect();
    if !waiting.is_empty() {
        then.extend(notify_hosts(meeting));
    }
    (changes, then)
}

/// The changes that ban a user. Without room for another record the user is removed without a ban.
fn ban(meeting: &Meeting, user: &str, name: &str, now: Now) -> Vec<Change> {
    let ban = Some(Ban { name: name.to_owned(), at: now.wall });
    let record = UserRecord { ban, admitted: false, ..user::record(meeting, user) };
    user::set_record(meeting, user, record).unwrap_or_default()
}

/// Sends the banned users to all connected hosts.
fn notify_of_bans(meeting: &Meeting) -> Vec<Effect> {
    let send =
        |host: &Seat| Effect::Send { participant: host.participant, message: DirectMessage::BannedUsers };
    meeting.hosts().map(send).collect()
}

/// A host lets a kicked user join again.
pub(super) fn lift_ban(meeting: &Meeting, by: Seat, user: &str) -> Result<Effects, Refusal> {
    require_host(&by)?;
    let record = user::record(meeting, user);
    if record.ban.is_none() {
        return Err(Refusal::NotFound("the user is not banned"));
    }
    let mut changes = vec![Change::Seat(Box::new(by))];
    changes.extend(user::set_record(meeting, user, UserRecord { ban: None, ..record })?);
    let then = [vec![Effect::Accept], notify_of_bans(meeting)].concat();
    Ok(Effects::new(Write::Sync, changes, then))
}
