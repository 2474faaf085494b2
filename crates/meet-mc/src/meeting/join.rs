//! Joining a meeting, and resuming a seat after a lost connection.

use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::CloseCode;
use tenure_meet_wire::binding::{BindingToken, Bound};
use tenure_meet_wire::seq::Applied;

use crate::meeting::{
    Binding, Change, Context, DirectMessage, Effect, Effects, Event, Join, Meeting, Mutes, Presence,
    PreviousBinding, Refusal, Replay, ResumeProof, Role, Seat, UserRecord, Welcome, Write, limits, user,
    waiting,
};

/// A valid proof of a seat.
enum Verified<'a> {
    /// The current binding: the resume spends its nonce.
    Current(&'a Seat),
    /// The previous binding, spent by the same attempt a moment ago: the answer was lost and is repeated.
    Retransmitted(&'a Seat),
}

/// Resumes a seat if the proof is valid; otherwise takes a new seat. The answer does not reveal which check failed.
pub(super) fn join(meeting: &Meeting, join: &Join, context: &Context<'_>) -> Result<Effects, Refusal> {
    match join.resume.as_ref().and_then(|proof| verify(meeting, join, proof, context)) {
        Some(Verified::Current(seat)) => Ok(resume(meeting, join, seat, context)),
        Some(Verified::Retransmitted(seat)) => {
            Ok(reconnect(meeting, join, seat, seat.clone(), None, context))
        }
        None => take_new_seat(meeting, join, context),
    }
}

/// Checks in this order: user, token, nonce, time. The JWT was verified before.
fn verify<'a>(
    meeting: &'a Meeting,
    join: &Join,
    proof: &ResumeProof,
    context: &Context<'_>,
) -> Option<Verified<'a>> {
    let seat = meeting.seat_by_correlation(proof.correlation).filter(|seat| seat.user == join.user)?;
    let (previous, now) = (seat.binding.previous.as_ref(), context.now);
    let nonce = match previous {
        Some(old) if old.correlation == proof.correlation => &old.nonce,
        _ => &seat.binding.nonce,
    };
    let bound =
        Bound { meeting: &meeting.id, correlation: proof.correlation, participant: seat.participant, nonce };
    if !context.secrets.verify(&bound, &proof.token) && !broken(Break::AcceptsAnyProof) {
        return None;
    }
    if seat.binding.correlation == proof.correlation {
        // A seat past its deadline is removed by the next timer: it no longer counts.
        let in_time = match seat.presence {
            Presence::Connected => true,
            Presence::Disconnected { until, .. } => {
                let longer = meeting.settings.grace.saturating_sub(meeting.settings.binding_ttl);
                now.tick + longer < until
            }
        };
        return in_time.then_some(Verified::Current(seat));
    }
    let age = now.wall.as_micros().saturating_sub(previous?.at.as_micros());
    let same = !join.attempt.is_empty() && previous?.attempt == join.attempt;
    (same && u128::from(age) < limits::RETRANSMIT.as_micros()).then_some(Verified::Retransmitted(seat))
}

fn issue_token(meeting: &Meeting, seat: &Seat, context: &Context<'_>) -> BindingToken {
    context.secrets.issue(&Bound {
        meeting: &meeting.id,
        correlation: seat.binding.correlation,
        participant: seat.participant,
        nonce: &seat.binding.nonce,
    })
}

fn take_new_seat(meeting: &Meeting, join: &Join, context: &Context<'_>) -> Result<Effects, Refusal> {
    if join.role == Role::Guest && !meeting.settings.allow_guests {
        return Err(Refusal::NoGuests);
    }
    let host = join.role == Role::Host;
    if !host && user::record(meeting, &join.user).ban.is_some() {
        return Err(Refusal::Banned);
    }
    let waiting = meeting.waiting.values().filter(|entry| entry.user == join.user && !join.admitted).count();
    if user::seats_of(meeting, &join.user).count() + waiting >= limits::SEATS_PER_USER {
        return Err(Refusal::RateLimited("this user has too many seats in the meeting"));
    }
    // A host enters a full meeting: it is the one that can make room.
    if !host && meeting.seats.len() >= meeting.settings.max_participants.min(limits::SEATS) as usize {
        return Err(Refusal::Full);
    }
    if meeting.seats.contains_key(&join.ids.participant) {
        return Err(Refusal::Conflict("the participant id is taken"));
    }
    if waiting::must_wait(meeting, join) {
        return waiting::wait(meeting, join, context.now);
    }
    Ok(seat_participant(meeting, join, context))
}

fn seat_participant(meeting: &Meeting, join: &Join, context: &Context<'_>) -> Effects {
    let record = user::mutes_at_join(meeting, &join.user, join.role);
    // Every seat has a mask from the start: handlers forward nothing of a participant without one.
    let epoch = meeting.mute_epoch + 1;
    let mutes = Mutes {
        audio_host: record.audio_muted,
        video_host: record.video_muted,
        by: record.muted_by.clone(),
        reason: record.mute_reason.clone(),
        epoch,
        ..Mutes::default()
    };
    let seat = Seat {
        participant: join.ids.participant,
        user: join.user.clone(),
        name: join.name.clone(),
        role: join.role,
        joined_at: context.now.wall,
        presence: Presence::Connected,
        epoch: 1,
        mutes,
        unmute_request: None,
        streams: Default::default(),
        layout: None,
        applied: Applied::default(),
        hand_raised_at: None,
        binding: Binding { correlation: join.ids.correlation, nonce: join.ids.nonce, previous: None },
    };
    let joined = Change::Event(Event::Joined(Box::new(seat.profile())));
    let welcome = Welcome {
        token: issue_token(meeting, &seat, context),
        resumed: false,
        replay: None,
        roster: meeting.seats.values().map(Seat::profile).collect(),
        // The answer covers the participant's own join event.
        event_seq: meeting.log.last() + 1,
        seat: Box::new(seat.clone()),
    };
    let mut then = Vec::new();
    if meeting.seats.is_empty() {
        then.push(Effect::RegisterHandlers);
    }
    let (participant, mutes) = (seat.participant, seat.mutes.clone());
    then.push(Effect::EnforceMute { participant, mutes, by: None });
    then.extend(inform_host(meeting, &seat, context));
    let mut changes = vec![Change::MuteEpoch(epoch), Change::Seat(Box::new(seat)), joined];
    if join.admitted {
        let record = UserRecord { admitted: true, ..user::record(meeting, &join.user) };
        changes.extend(user::set_record(meeting, &join.user, record).unwrap_or_default());
        changes.push(Change::WaitingRemoved(participant));
        then.extend(waiting::notify_hosts(meeting));
    }
    Effects::new(Write::Sync, changes, then).with_welcome(welcome)
}

/// Resumes a seat: its nonce is spent, and the connection gets a new binding.
fn resume(meeting: &Meeting, join: &Join, before: &Seat, context: &Context<'_>) -> Effects {
    let previous = PreviousBinding {
        correlation: before.binding.correlation,
        nonce: before.binding.nonce,
        attempt: join.attempt.clone(),
        at: context.now.wall,
    };
    let spent = Change::NonceSpent(before.binding.nonce);
    let binding =
        Binding { correlation: join.ids.correlation, nonce: join.ids.nonce, previous: Some(previous) };
    if broken(Break::ReusesNonce) {
        return reconnect(meeting, join, before, before.clone(), None, context);
    }
    let seat = Seat { binding, ..before.clone() };
    reconnect(meeting, join, before, seat, Some(spent), context)
}

fn reconnect(
    meeting: &Meeting,
    join: &Join,
    before: &Seat,
    seat: Seat,
    spent: Option<Change>,
    context: &Context<'_>,
) -> Effects {
    let applied = if broken(Break::ForgetsApplied) { Applied::default() } else { seat.applied };
    let seat = Seat { presence: Presence::Connected, epoch: before.epoch + 1, applied, ..seat };
    let mut changes: Vec<Change> = spent.into_iter().collect();
    changes.push(Change::Seat(Box::new(seat.clone())));
    let was_disconnected = before.presence != Presence::Connected;
    if was_disconnected {
        changes.push(Change::Event(Event::presence(&seat, 0)));
    }
    let replay = match meeting.log.since(join.last_event_seq) {
        Replay::Events(events) => Some(events.into_iter().cloned().collect()),
        Replay::Unavailable => None,
    };
    let others = meeting.seats.values().filter(|other| other.participant != seat.participant);
    let welcome = Welcome {
        token: issue_token(meeting, &seat, context),
        resumed: true,
        roster: if replay.is_some() { Vec::new() } else { others.map(Seat::profile).collect() },
        event_seq: if replay.is_some() { join.last_event_seq } else { meeting.log.last() },
        replay,
        seat: Box::new(seat.clone()),
    };
    let mut then = Vec::new();
    if !was_disconnected {
        let (participant, epoch) = (before.participant, before.epoch);
        then.push(Effect::Close { participant, epoch, code: CloseCode::Superseded });
    }
    then.extend(inform_host(meeting, &seat, context));
    Effects::new(Write::Sync, changes, then).with_welcome(welcome)
}

/// A host that connects receives the open unmute requests, the waiting room and the banned users. Participants that
/// wait learn that a host arrived.
fn inform_host(meeting: &Meeting, host: &Seat, context: &Context<'_>) -> Vec<Effect> {
    if host.role != Role::Host {
        return Vec::new();
    }
    let participant = host.participant;
    let mut then = open_unmute_requests(meeting, host, context);
    if !meeting.waiting.is_empty() {
        then.push(Effect::Send { participant, message: DirectMessage::WaitingRoom });
        then.extend(waiting::notify_waiting(meeting));
    }
    if meeting.users.values().any(|record| record.ban.is_some()) {
        then.push(Effect::Send { participant, message: DirectMessage::BannedUsers });
    }
    then
}

fn open_unmute_requests(meeting: &Meeting, host: &Seat, context: &Context<'_>) -> Vec<Effect> {
    let send = |seat: &Seat| {
        let request = seat.unmute_request.filter(|request| context.now.tick < request.until)?;
        let message = DirectMessage::UnmuteRequested {
            participant: seat.participant,
            audio: request.audio,
            video: request.video,
            expires_in_ms: request.until.since(context.now.tick).as_millis() as u32,
        };
        Some(Effect::Send { participant: host.participant, message })
    };
    meeting.seats.values().filter_map(send).collect()
}
