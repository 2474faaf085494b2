//! Taking a seat, and coming back to it.

use meet_wire::CloseCode;
use meet_wire::binding::{BindingToken, Bound};
use meet_wire::seq::Applied;

use crate::meeting::effect::presence;
use crate::meeting::{
    Binding, Change, Context, Effect, Effects, Happening, Join, Meeting, Missed, Mutes, Presence, Previous,
    Refusal, Resume, Role, Seat, Telling, Welcome, Write, limits,
};

/// How a proof of a seat was found good.
enum Proof<'a> {
    /// It is the present one: it is spent now.
    Present(&'a Seat),
    /// It was spent a moment ago by this very attempt, whose answer got lost.
    Again(&'a Seat),
}

/// A seat for somebody: the one that was left if the proof is good, a new one otherwise. Which check a bad proof failed cannot be told from
/// the answer.
pub(super) fn join(meeting: &Meeting, join: &Join, context: &Context<'_>) -> Result<Effects, Refusal> {
    match join.resume.as_ref().and_then(|resume| proof(meeting, join, resume, context)) {
        Some(Proof::Present(seat)) => Ok(resume(meeting, join, seat, context)),
        Some(Proof::Again(seat)) => Ok(again(meeting, join, seat, context)),
        None => enter(meeting, join, context),
    }
}

/// The checks, in their order: the user, the token, the nonce, the time. The JWT was checked before.
fn proof<'a>(meeting: &'a Meeting, join: &Join, shown: &Resume, context: &Context<'_>) -> Option<Proof<'a>> {
    let seat = meeting.by_correlation(shown.correlation).filter(|seat| seat.user == join.user)?;
    let (previous, now) = (seat.binding.previous.as_ref(), context.now);
    let nonce = match previous {
        Some(old) if old.correlation == shown.correlation => &old.nonce,
        _ => &seat.binding.nonce,
    };
    let bound =
        Bound { meeting: &meeting.id, correlation: shown.correlation, participant: seat.participant, nonce };
    if !context.secrets.verify(&bound, &shown.token) {
        return None;
    }
    if seat.binding.correlation == shown.correlation {
        // What is past its time is swept in a moment: it is over already.
        let in_time = match seat.presence {
            Presence::Here => true,
            Presence::Away { until, .. } => {
                let longer = meeting.settings.grace.saturating_sub(meeting.settings.binding_ttl);
                now.tick + longer < until
            }
        };
        return in_time.then_some(Proof::Present(seat));
    }
    let age = now.wall.as_micros().saturating_sub(previous?.at.as_micros());
    let same = !join.attempt.is_empty() && previous?.attempt == join.attempt;
    (same && u128::from(age) < limits::RETRANSMIT.as_micros()).then_some(Proof::Again(seat))
}

fn token(meeting: &Meeting, seat: &Seat, context: &Context<'_>) -> BindingToken {
    context.secrets.issue(&Bound {
        meeting: &meeting.id,
        correlation: seat.binding.correlation,
        participant: seat.participant,
        nonce: &seat.binding.nonce,
    })
}

/// A new seat.
fn enter(meeting: &Meeting, join: &Join, context: &Context<'_>) -> Result<Effects, Refusal> {
    if join.role == Role::Guest && !meeting.settings.allow_guests {
        return Err(Refusal::NoGuests);
    }
    if meeting.seats.values().filter(|seat| seat.user == join.user).count() >= limits::SEATS_PER_USER {
        return Err(Refusal::TooOften("this user has too many seats here"));
    }
    if meeting.seats.len() >= meeting.settings.max_participants.min(limits::SEATS) as usize {
        return Err(Refusal::Full);
    }
    if meeting.seats.contains_key(&join.fresh.participant) {
        return Err(Refusal::Conflict("there is such a participant already"));
    }
    let seat = Seat {
        participant: join.fresh.participant,
        user: join.user.clone(),
        name: join.name.clone(),
        role: join.role,
        joined_at: context.now.wall,
        presence: Presence::Here,
        epoch: 1,
        mutes: Mutes::default(),
        ask: None,
        streams: Default::default(),
        layout: None,
        applied: Applied::default(),
        binding: Binding { correlation: join.fresh.correlation, nonce: join.fresh.nonce, previous: None },
    };
    let happened = Change::Happened(Happening::Joined(Box::new(seat.profile())));
    let welcome = Welcome {
        token: token(meeting, &seat, context),
        resumed: false,
        replay: None,
        roster: meeting.seats.values().map(Seat::profile).collect(),
        // Its own arrival is the last that it has seen.
        event_seq: meeting.journal.last() + 1,
        seat: Box::new(seat.clone()),
    };
    let mut then = vec![Effect::Welcome(Box::new(welcome))];
    if meeting.seats.is_empty() {
        then.push(Effect::Register);
    }
    then.extend(open_asks(meeting, &seat, context));
    Ok(Effects::new(Write::Sync, vec![Change::Seat(Box::new(seat)), happened], then))
}

/// The seat that was left, with a new binding and a new connection.
fn resume(meeting: &Meeting, join: &Join, before: &Seat, context: &Context<'_>) -> Effects {
    let previous = Previous {
        correlation: before.binding.correlation,
        nonce: before.binding.nonce,
        attempt: join.attempt.clone(),
        at: context.now.wall,
    };
    let spent = Change::NonceSpent(before.binding.nonce);
    let binding =
        Binding { correlation: join.fresh.correlation, nonce: join.fresh.nonce, previous: Some(previous) };
    let seat = Seat { binding, ..before.clone() };
    back(meeting, join, before, seat, Some(spent), context)
}

/// The seat as the lost answer said, on a new connection.
fn again(meeting: &Meeting, join: &Join, before: &Seat, context: &Context<'_>) -> Effects {
    back(meeting, join, before, before.clone(), None, context)
}

fn back(
    meeting: &Meeting,
    join: &Join,
    before: &Seat,
    seat: Seat,
    spent: Option<Change>,
    context: &Context<'_>,
) -> Effects {
    let seat = Seat { presence: Presence::Here, epoch: before.epoch + 1, ..seat };
    let mut changes: Vec<Change> = spent.into_iter().collect();
    changes.push(Change::Seat(Box::new(seat.clone())));
    let was_away = before.presence != Presence::Here;
    if was_away {
        changes.push(Change::Happened(presence(&seat, 0)));
    }
    let missed = match meeting.journal.since(join.last_event_seq) {
        Missed::These(entries) => Some(entries.into_iter().cloned().collect()),
        Missed::TooMuch => None,
    };
    let others = meeting.seats.values().filter(|other| other.participant != seat.participant);
    let welcome = Welcome {
        token: token(meeting, &seat, context),
        resumed: true,
        roster: if missed.is_some() { Vec::new() } else { others.map(Seat::profile).collect() },
        event_seq: if missed.is_some() { join.last_event_seq } else { meeting.journal.last() },
        replay: missed,
        seat: Box::new(seat.clone()),
    };
    let mut then = Vec::new();
    if !was_away {
        let (participant, epoch) = (before.participant, before.epoch);
        then.push(Effect::Close { participant, epoch, code: CloseCode::Superseded });
    }
    then.push(Effect::Welcome(Box::new(welcome)));
    then.extend(open_asks(meeting, &seat, context));
    Effects::new(Write::Sync, changes, then)
}

/// A host who arrives learns who waits to be unmuted.
fn open_asks(meeting: &Meeting, host: &Seat, context: &Context<'_>) -> Vec<Effect> {
    if host.role != Role::Host {
        return Vec::new();
    }
    let tell = |seat: &Seat| {
        let ask = seat.ask.filter(|ask| context.now.tick < ask.until)?;
        let left = ask.until.since(context.now.tick).as_millis() as u32;
        let telling = Telling::AskedToUnmute {
            participant: seat.participant,
            audio: ask.audio,
            video: ask.video,
            expires_in_ms: left,
        };
        Some(Effect::Tell { participant: host.participant, telling })
    };
    meeting.seats.values().filter_map(tell).collect()
}
