//! From the state and an event to effects.

use meet_wire::binding::Secrets;
use meet_wire::seq::Turn;
use meet_wire::{CloseCode, Id};

use crate::meeting::effect::presence;
use crate::meeting::{
    Change, Effect, Effects, Event, Happening, LeaveReason, Meeting, Now, Phase, Presence, Refusal, Request,
    Role, Seat, Settings, Telling, Write, join, limits, mute, talk,
};

/// What a decision needs to know beside the state.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The moment.
    pub now: Now,
    /// The secrets of bindings.
    pub secrets: &'a Secrets,
}

/// What an event leads to. Changes nothing by itself.
pub fn apply(meeting: &Meeting, event: &Event, context: &Context<'_>) -> Result<Effects, Refusal> {
    match event {
        Event::Join(join) => {
            changing(meeting)?;
            join::join(meeting, join, context)
        }
        Event::Closed { participant, epoch } => Ok(closed(meeting, *participant, *epoch, context.now)),
        Event::Asked { participant, epoch, seq, request } => {
            let seat =
                meeting.seats.get(participant).filter(|seat| seat.is_here(*epoch)).ok_or(Refusal::NoSeat)?;
            changing(meeting)?;
            match seat.applied.turn(*seq) {
                Turn::Missing => Err(Refusal::Invalid("every request carries a seq")),
                Turn::Again => Ok(Effects::new(Write::None, Vec::new(), vec![Effect::Accept])),
                Turn::New => {
                    let seat = Seat { applied: seat.applied.after(*seq), ..seat.clone() };
                    asked(meeting, seat, request, context.now)
                }
            }
        }
        Event::Enforced { participant, epoch, by, missing } => {
            Ok(mute::enforced(meeting, *participant, *epoch, *by, missing))
        }
        Event::Handlers(handlers) => {
            changing(meeting)?;
            Ok(Effects::new(Write::Sync, vec![Change::Handlers(handlers.clone())], vec![Effect::Register]))
        }
        Event::Settings { max_participants, allow_guests } => {
            settings(meeting, *max_participants, *allow_guests)
        }
        Event::Time => Ok(time(meeting, context.now)),
        Event::Freeze => freeze(meeting),
        Event::Thaw => thaw(meeting),
        Event::Move { endpoint, certificates } => {
            let phase = Phase::Migrating { endpoint: endpoint.clone(), certificates: certificates.clone() };
            moved(meeting, phase)
        }
    }
}

/// Refuses what would change a meeting that is moving, gone or over.
fn changing(meeting: &Meeting) -> Result<(), Refusal> {
    match &meeting.phase {
        Phase::Active => Ok(()),
        Phase::ShuttingDown => Err(Refusal::Moving),
        Phase::Migrating { endpoint, certificates } => {
            Err(Refusal::Moved { endpoint: endpoint.clone(), certificates: certificates.clone() })
        }
        Phase::Complete => Err(Refusal::Over),
    }
}

/// Other settings: whoever joins from now on is judged by them, and nobody who has a seat loses it.
fn settings(meeting: &Meeting, max_participants: u32, allow_guests: bool) -> Result<Effects, Refusal> {
    let settings = Settings { max_participants, allow_guests, ..meeting.settings.clone() };
    if settings == meeting.settings {
        return Ok(Effects::none());
    }
    changing(meeting)?;
    Ok(Effects::new(Write::Sync, vec![Change::Settings(settings)], Vec::new()))
}

/// What a new request of a seat leads to. The seat has the request's number already.
fn asked(meeting: &Meeting, seat: Seat, request: &Request, now: Now) -> Result<Effects, Refusal> {
    match request {
        Request::Leave => Ok(leave(&seat, LeaveReason::Voluntary, CloseCode::Done)),
        Request::Mute { audio, video } => Ok(mute::own(seat, *audio, *video)),
        Request::HostMute { participant, audio, video, reason } => {
            mute::by_host(meeting, seat, *participant, (*audio, *video), reason)
        }
        Request::AskUnmute { audio, video } => mute::ask(meeting, seat, *audio, *video, now),
        Request::AnswerUnmute { participant, audio, video } => {
            mute::answer(meeting, seat, *participant, (*audio, *video), now)
        }
        Request::Chat { text } => talk::chat(seat, text, now),
        Request::Data { topic, payload, to } => talk::data(meeting, seat, topic, payload, to),
        Request::Publish { stream_id, kind, metadata } => talk::publish(seat, *stream_id, *kind, metadata),
        Request::Unpublish { stream_id } => talk::unpublish(seat, *stream_id),
        Request::Subscribe { kind, config, streams } => talk::subscribe(seat, *kind, config, streams),
        Request::UpdateLayout { config } => talk::update_layout(seat, config),
        Request::Unsubscribe => Ok(talk::unsubscribe(seat)),
        Request::Kick { participant } => kick(meeting, seat, *participant),
        Request::End => end(meeting, &seat),
    }
}

/// Only a host goes on.
pub(super) fn host(seat: &Seat) -> Result<(), Refusal> {
    if seat.role == Role::Host { Ok(()) } else { Err(Refusal::Forbidden) }
}

/// Somebody in the meeting.
pub(super) fn other(meeting: &Meeting, participant: Id) -> Result<&Seat, Refusal> {
    meeting.seats.get(&participant).ok_or(Refusal::NotFound("there is no such participant"))
}

/// The end of a connection: the seat is kept. That of an earlier connection harms nobody.
fn closed(meeting: &Meeting, participant: Id, epoch: u64, now: Now) -> Effects {
    let Some(seat) = meeting.seats.get(&participant).filter(|seat| seat.is_here(epoch)) else {
        return Effects::none();
    };
    let grace = meeting.settings.grace;
    let away = Presence::Away { since: now.wall, until: now.tick + grace };
    let seat = Seat { presence: away, ..seat.clone() };
    let told = presence(&seat, grace.as_millis() as u32);
    let mut changes = vec![Change::Seat(Box::new(seat))];
    if meeting.phase != Phase::Active {
        // Nothing is written while the meeting moves; if it stays after all, everybody is told then.
        return Effects::new(Write::None, changes, Vec::new());
    }
    changes.push(Change::Happened(told));
    Effects::new(Write::Async, changes, Vec::new())
}

fn leave(seat: &Seat, reason: LeaveReason, code: CloseCode) -> Effects {
    let participant = seat.participant;
    let changes =
        vec![Change::SeatGone(participant), Change::Happened(Happening::Left { participant, reason })];
    let close = Effect::Close { participant, epoch: seat.epoch, code };
    Effects::new(Write::Sync, changes, vec![Effect::Accept, close])
}

fn kick(meeting: &Meeting, by: Seat, participant: Id) -> Result<Effects, Refusal> {
    host(&by)?;
    if participant == by.participant {
        return Err(Refusal::Invalid("a host who wants to go leaves"));
    }
    let mut effects = leave(other(meeting, participant)?, LeaveReason::Kicked, CloseCode::Kicked);
    effects.changes.push(Change::Seat(Box::new(by)));
    Ok(effects)
}

fn end(meeting: &Meeting, by: &Seat) -> Result<Effects, Refusal> {
    host(by)?;
    let ended = Change::Happened(Happening::Ended { reason: "ended by the host".to_owned() });
    let close = |seat: &Seat| Effect::Close {
        participant: seat.participant,
        epoch: seat.epoch,
        code: CloseCode::Done,
    };
    let closes = meeting.seats.values().filter(|seat| seat.presence == Presence::Here).map(close);
    let then = [Effect::Accept].into_iter().chain(closes).chain([Effect::End]).collect();
    Ok(Effects::new(Write::Sync, vec![ended, Change::Phase(Phase::Complete)], then))
}

/// Seats whose time is over, wishes that lapsed, a meeting that nobody wants any more. Some at a time: what is left is due at once.
fn time(meeting: &Meeting, now: Now) -> Effects {
    if meeting.phase != Phase::Active {
        return Effects::none();
    }
    if meeting.empty_since.is_some_and(|since| now.tick >= since + limits::EMPTY) {
        return Effects::new(Write::Sync, vec![Change::Phase(Phase::Complete)], vec![Effect::End]);
    }
    let (mut changes, mut write) = (Vec::new(), Write::None);
    for seat in meeting.seats.values() {
        if changes.len() >= limits::SWEEP {
            break;
        }
        let gone = matches!(seat.presence, Presence::Away { until, .. } if now.tick >= until);
        let participant = seat.participant;
        if gone {
            write = Write::Sync;
            changes.push(Change::SeatGone(participant));
            changes.push(Change::Happened(Happening::Left { participant, reason: LeaveReason::Timeout }));
        } else if seat.ask.is_some_and(|ask| now.tick >= ask.until) {
            write = if write == Write::None { Write::Async } else { write };
            changes.push(Change::Seat(Box::new(Seat { ask: None, ..seat.clone() })));
        }
    }
    Effects::new(write, changes, Vec::new())
}

fn freeze(meeting: &Meeting) -> Result<Effects, Refusal> {
    let mut effects = moved(meeting, Phase::ShuttingDown)?;
    let event_seq = meeting.journal.last();
    effects.then = told(meeting, &Telling::Frozen { event_seq });
    Ok(effects)
}

/// Everything goes on, and what was lost meanwhile is told.
fn thaw(meeting: &Meeting) -> Result<Effects, Refusal> {
    let mut effects = moved(meeting, Phase::Active)?;
    let grace_ms = meeting.settings.grace.as_millis() as u32;
    for seat in meeting.seats.values().filter(|seat| seat.presence != Presence::Here) {
        effects.write = Write::Async;
        effects.changes.push(Change::Happened(presence(seat, grace_ms)));
    }
    Ok(effects)
}

/// The next phase. It is not written: who takes over decides by the lease, not by what the last owner thought.
fn moved(meeting: &Meeting, next: Phase) -> Result<Effects, Refusal> {
    if !meeting.phase.leads_to(&next) {
        return Err(Refusal::Conflict("the meeting is not in a phase that leads there"));
    }
    let then = match &next {
        Phase::Migrating { endpoint, certificates } => {
            let redirect =
                Telling::Redirect { endpoint: endpoint.clone(), certificates: certificates.clone() };
            told(meeting, &redirect)
        }
        _ => Vec::new(),
    };
    Ok(Effects::new(Write::None, vec![Change::Phase(next)], then))
}

/// Everybody who is there is told.
fn told(meeting: &Meeting, telling: &Telling) -> Vec<Effect> {
    let here = meeting.seats.values().filter(|seat| seat.presence == Presence::Here);
    here.map(|seat| Effect::Tell { participant: seat.participant, telling: telling.clone() }).collect()
}
