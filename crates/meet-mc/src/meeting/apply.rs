//! `apply`: the state and an input give effects. The phase table decides first, then the input's own rules.

use tenure_meet_wire::Id;
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::move_ticket::Move;
use tenure_meet_wire::seq::Turn;

use crate::meeting::request::{apply_request, end_for_all};
use crate::meeting::{
    Change, DirectMessage, Effect, Effects, Event, Input, LeaveReason, Meeting, MoveTarget, Now, Phase,
    Presence, Refusal, Rule, Seat, Settings, Trigger, Write, join, layout, limits, mute, waiting,
};

/// What a decision needs beside the state.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The current time.
    pub now: Now,
    /// The secrets of binding tokens.
    pub secrets: &'a Secrets,
}

/// Computes what an input leads to. The state itself is not changed.
pub fn apply(meeting: &Meeting, input: &Input, context: &Context<'_>) -> Result<Effects, Refusal> {
    let rule = meeting.phase.rule(Trigger::of(input));
    let allowed = || meeting.phase.refusal(rule);
    match input {
        Input::Join(join) => {
            allowed()?;
            join::join(meeting, join, context)
        }
        Input::Disconnected { participant, epoch } => {
            Ok(disconnect(meeting, rule, *participant, *epoch, context.now))
        }
        Input::Request { participant, epoch, seq, request } => {
            let seat = meeting.seats.get(participant).filter(|seat| seat.is_connected_with(*epoch));
            let seat = seat.ok_or(Refusal::NoSeat)?;
            allowed()?;
            match seat.applied.turn(*seq) {
                Turn::Missing => Err(Refusal::Invalid("every request needs a seq")),
                Turn::Again => Ok(Effects::new(Write::None, Vec::new(), vec![Effect::Accept])),
                Turn::New => {
                    let seat = Seat { applied: seat.applied.after(*seq), ..seat.clone() };
                    apply_request(meeting, seat, request, context.now)
                }
            }
        }
        Input::MuteEnforced { participant, epoch, by, missing } => {
            Ok(mute::report_enforced(meeting, *participant, *epoch, *by, missing))
        }
        Input::Handlers(handlers) => {
            allowed()?;
            let changes = vec![Change::Handlers(handlers.clone())];
            Ok(Effects::new(Write::Sync, changes, vec![Effect::RegisterHandlers]))
        }
        Input::StoppedWaiting { participant } => Ok(waiting::stop_waiting(meeting, *participant)),
        Input::Settings { max_participants, allow_guests, waiting_room } => {
            let settings = Settings {
                max_participants: *max_participants,
                allow_guests: *allow_guests,
                waiting_room: *waiting_room,
                ..meeting.settings.clone()
            };
            if settings == meeting.settings {
                return Ok(Effects::none());
            }
            allowed()?;
            let waiting: Vec<Id> = meeting.waiting.keys().copied().filter(|_| !*waiting_room).collect();
            let then = if waiting.is_empty() { Vec::new() } else { vec![Effect::Admit(waiting)] };
            // Applies to later joins; no participant loses its seat.
            Ok(Effects::new(Write::Sync, vec![Change::Settings(settings)], then))
        }
        Input::Timer | Input::Speakers { .. } if rule != Rule::Apply => Ok(Effects::none()),
        Input::Timer => Ok(expire(meeting, context.now)),
        Input::Speakers { participants } => {
            let speakers = layout::speakers_after(meeting, participants);
            let changes = vec![Change::Speakers(speakers)];
            Ok(Effects::new(Write::None, changes, Vec::new()))
        }
        Input::End => allowed().map(|()| end_for_all(meeting, "ended by an operator")),
        Input::Freeze => allowed().map(|()| freeze(meeting)),
        Input::PrepareMove(target) => allowed().map(|()| prepare_move(meeting, target, context)),
        Input::Thaw => allowed().map(|()| thaw(meeting, context.now)),
        Input::Move { endpoint, certificates } => {
            allowed().map(|()| redirect(meeting, endpoint.clone(), certificates.clone()))
        }
    }
}

/// A connection ended: its seat is kept for a while. A connection that was superseded changes nothing.
fn disconnect(meeting: &Meeting, rule: Rule, participant: Id, epoch: u64, now: Now) -> Effects {
    let seat = meeting.seats.get(&participant).filter(|seat| seat.is_connected_with(epoch));
    let Some(seat) = seat else { return Effects::none() };
    let grace = meeting.settings.grace;
    let presence = Presence::Disconnected { since: now.wall, until: now.tick + grace };
    let seat = Seat { presence, ..seat.clone() };
    let event = Event::presence(&seat, grace.as_millis() as u32);
    let mut changes = vec![Change::Seat(Box::new(seat))];
    if rule == Rule::Track {
        // Published by a thaw, if the move is aborted.
        return Effects::new(Write::None, changes, Vec::new());
    }
    changes.push(Change::Event(event));
    Effects::new(Write::Async, changes, Vec::new())
}

/// Removes seats and unmute requests whose time has passed, and ends a meeting that stayed empty. At most
/// [`limits::TIMER_CHANGES`] at a time: the rest is due at once.
fn expire(meeting: &Meeting, now: Now) -> Effects {
    if meeting.empty_since.is_some_and(|since| now.tick >= since + limits::EMPTY) {
        return Effects::new(Write::Sync, vec![Change::Phase(Phase::Complete)], vec![Effect::End]);
    }
    let (mut changes, mut then, mut write) = (Vec::new(), Vec::new(), Write::None);
    for seat in meeting.seats.values() {
        if changes.len() >= limits::TIMER_CHANGES {
            break;
        }
        let expired = matches!(seat.presence, Presence::Disconnected { until, .. } if now.tick >= until);
        let (participant, epoch, reason) = (seat.participant, seat.epoch, LeaveReason::Timeout);
        if expired {
            write = Write::Sync;
            changes.push(Change::SeatRemoved(participant));
            changes.push(Change::Event(Event::Left { participant, reason }));
            then.push(Effect::ReleaseParticipant { participant, epoch, reason });
        } else if seat.unmute_request.is_some_and(|request| now.tick >= request.until) {
            write = if write == Write::None { Write::Async } else { write };
            changes.push(Change::Seat(Box::new(Seat { unmute_request: None, ..seat.clone() })));
        }
    }
    Effects::new(write, changes, then)
}

/// Every connected participant gets a ticket with which it may wait at the target.
fn prepare_move(meeting: &Meeting, target: &MoveTarget, context: &Context<'_>) -> Effects {
    let expiry = context.now.wall.as_millis() + limits::MOVE_TICKET.as_millis() as u64;
    let connected = meeting.seats.values().filter(|seat| seat.presence == Presence::Connected);
    let send = |seat: &Seat| {
        let (participant, generation) = (seat.participant, target.generation);
        let moved = Move { meeting: &meeting.id, participant, target: &target.mc_id, generation };
        let message = DirectMessage::PrepareMove {
            endpoint: target.endpoint.clone(),
            certificates: target.certificates.clone(),
            ticket: moved.issue(context.secrets, expiry),
            mc_id: target.mc_id.clone(),
            generation: target.generation + 1,
        };
        Effect::Send { participant, message }
    };
    Effects::new(Write::None, Vec::new(), connected.map(send).collect())
}

fn freeze(meeting: &Meeting) -> Effects {
    let frozen = DirectMessage::Frozen { event_seq: meeting.log.last() };
    enter(Phase::ShuttingDown, send_to_connected(meeting, &frozen))
}

/// Aborts a move and publishes the disconnects that happened meanwhile. Seats have their whole time again: they could not
/// resume while the meeting was frozen.
fn thaw(meeting: &Meeting, now: Now) -> Effects {
    let mut effects = enter(Phase::Active, send_to_connected(meeting, &DirectMessage::Thawed));
    let (grace, mut changes) = (meeting.settings.grace, Vec::new());
    for seat in meeting.seats.values() {
        let Presence::Disconnected { since, .. } = seat.presence else { continue };
        let presence = Presence::Disconnected { since, until: now.tick + grace };
        let seat = Seat { presence, ..seat.clone() };
        changes.push(Change::Event(Event::presence(&seat, grace.as_millis() as u32)));
        changes.push(Change::Seat(Box::new(seat)));
        effects.write = Write::Async;
    }
    effects.changes.extend(changes);
    effects
}

fn redirect(meeting: &Meeting, endpoint: String, certificates: Vec<Vec<u8>>) -> Effects {
    let redirect = DirectMessage::Redirect { endpoint: endpoint.clone(), certificates: certificates.clone() };
    enter(Phase::Migrating { endpoint, certificates }, send_to_connected(meeting, &redirect))
}

fn enter(phase: Phase, then: Vec<Effect>) -> Effects {
    Effects::new(Write::None, vec![Change::Phase(phase)], then)
}

fn send_to_connected(meeting: &Meeting, message: &DirectMessage) -> Vec<Effect> {
    let connected = meeting.seats.values().filter(|seat| seat.presence == Presence::Connected);
    let send = |seat: &Seat| Effect::Send { participant: seat.participant, message: message.clone() };
    connected.map(send).collect()
}
