//! Joining a meeting, and resuming a seat after a lost connection.

use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::CloseCode;
use tenure_meet_wire::binding::{BindingToken, Bound};
use tenure_meet_wire::seq::Applied;

use crate::meeting::{
    Binding, Change, Context, DirectMessage, Effect, Effects, Event, Join, Meeting, Mutes, Presence,
    PreviousBinding, Refusal, Replay, ResumeProof, Role, Seat, Welcome, Write, limits,
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
    if meeting.seats.values().filter(|seat| seat.user == join.user).count() >= limits::SEATS_PER_USER {
        return Err(Refusal::RateLimited("this user has too many seats in the meeting"));
    }
    if meeting.seats.len() >= meeting.settings.max_participants.min(limits::SEATS) as usize {
        return Err(Refusal::Full);
    }
    if meeting.seats.contains_key(&join.ids.participant) {
        return Err(Refusal::Conflict("the participant id is taken"));
    }
    let seat = Seat {
        participant: join.ids.participant,
        user: join.user.clone(),
        name: join.name.clone(),
        role: join.role,
        joined_at: context.now.wall,
        presence: Presence::Connected,
        epoch: 1,
        mutes: Mutes::default(),
        unmute_request: None,
        streams: Default::default(),
        layout: None,
        applied: Applied::default(),
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
    then.extend(open_unmute_requests(meeting, &seat, context));
    let changes = vec![Change::Seat(Box::new(seat)), joined];
    Ok(Effects::new(Write::Sync, changes, then).with_welcome(welcome))
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
    let seat = Seat { presence: Presence::Connected, epoch: before.epoch + 1, ..seat };
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
    then.extend(open_unmute_requests(meeting, &seat, context));
    Effects::new(Write::Sync, changes, then).with_welcome(welcome)
}

/// A host that connects receives the open unmute requests.
fn open_unmute_requests(meeting: &Meeting, host: &Seat, context: &Context<'_>) -> Vec<Effect> {
    if host.role != Role::Host {
        return Vec::new();
    }
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
