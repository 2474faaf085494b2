//! Requests of participants: what can be requested, and what each request does.
//!
//! A new request is a variant of [`Request`], a line in [`apply_request`] and a line in `convert::requests`.

use bytes::Bytes;
use tenure_meet_wire::{CloseCode, Id};

use crate::meeting::{
    Change, Effect, Effects, Event, LayoutConfig, LeaveReason, Meeting, Now, Phase, Presence, Refusal, Role,
    Seat, StreamKind, Write, chat, mute, streams,
};

/// A request of a participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Leave the meeting.
    Leave,
    /// Report the own microphone and camera as muted or not.
    Mute {
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
    },
    /// Mute a participant as host. `false` lifts the host's mute.
    HostMute {
        /// The target.
        participant: Id,
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
        /// The reason shown to the participant.
        reason: String,
    },
    /// Ask the hosts to lift a mute.
    RequestUnmute {
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
    },
    /// Answer an unmute request as host.
    AnswerUnmute {
        /// The participant that asked.
        participant: Id,
        /// Whether the microphone is unmuted.
        audio: bool,
        /// Whether the camera is unmuted.
        video: bool,
    },
    /// Send a chat message to all participants.
    Chat {
        /// The text.
        text: String,
    },
    /// Send application data.
    Data {
        /// The topic.
        topic: String,
        /// The payload.
        payload: Bytes,
        /// The receivers; empty for all participants.
        to: Vec<Id>,
    },
    /// Publish a stream.
    Publish {
        /// The stream's number, chosen by the participant.
        stream_id: u32,
        /// The kind of media.
        kind: StreamKind,
        /// Application metadata.
        metadata: String,
    },
    /// Stop publishing a stream.
    Unpublish {
        /// The stream's number.
        stream_id: u32,
    },
    /// Subscribe to a layout.
    Subscribe {
        /// The layout type's number on the wire.
        kind: i32,
        /// The layout's parameters.
        config: LayoutConfig,
        /// Streams requested by number.
        streams: Vec<u32>,
    },
    /// Change the parameters of the current layout.
    UpdateLayout {
        /// The layout's parameters.
        config: LayoutConfig,
    },
    /// Unsubscribe from the layout.
    Unsubscribe,
    /// Remove a participant as host.
    Kick {
        /// The target.
        participant: Id,
    },
    /// End the meeting as host.
    End,
}

/// Applies a request that has not been applied before. `seat` already carries the request's sequence number.
pub(super) fn apply_request(
    meeting: &Meeting,
    seat: Seat,
    request: &Request,
    now: Now,
) -> Result<Effects, Refusal> {
    match request {
        Request::Leave => Ok(leave(&seat, LeaveReason::Voluntary, CloseCode::Done)),
        Request::Mute { audio, video } => Ok(mute::mute_self(seat, *audio, *video)),
        Request::HostMute { participant, audio, video, reason } => {
            mute::mute_by_host(meeting, seat, *participant, (*audio, *video), reason)
        }
        Request::RequestUnmute { audio, video } => mute::request_unmute(meeting, seat, *audio, *video, now),
        Request::AnswerUnmute { participant, audio, video } => {
            mute::answer_unmute(meeting, seat, *participant, (*audio, *video), now)
        }
        Request::Chat { text } => chat::send_chat(seat, text, now),
        Request::Data { topic, payload, to } => chat::send_data(meeting, seat, topic, payload, to),
        Request::Publish { stream_id, kind, metadata } => streams::publish(seat, *stream_id, *kind, metadata),
        Request::Unpublish { stream_id } => streams::unpublish(seat, *stream_id),
        Request::Subscribe { kind, config, streams } => streams::subscribe(seat, *kind, config, streams),
        Request::UpdateLayout { config } => streams::update_layout(seat, config),
        Request::Unsubscribe => Ok(streams::unsubscribe(seat)),
        Request::Kick { participant } => kick(meeting, seat, *participant),
        Request::End => end(meeting, &seat),
    }
}

/// Refuses a request of a participant that is not a host.
pub(super) fn require_host(seat: &Seat) -> Result<(), Refusal> {
    if seat.role == Role::Host { Ok(()) } else { Err(Refusal::Forbidden) }
}

/// The seat that a request names.
pub(super) fn find_seat(meeting: &Meeting, participant: Id) -> Result<&Seat, Refusal> {
    meeting.seats.get(&participant).ok_or(Refusal::NotFound("no such participant"))
}

/// The seat now carries the request's number; `event` is published as well.
pub(super) fn accept(seat: Seat, event: Option<Event>) -> Effects {
    let changes = [Change::Seat(Box::new(seat))].into_iter().chain(event.map(Change::Event));
    Effects::new(Write::Async, changes.collect(), vec![Effect::Accept])
}

fn leave(seat: &Seat, reason: LeaveReason, code: CloseCode) -> Effects {
    let participant = seat.participant;
    let changes = vec![Change::SeatRemoved(participant), Change::Event(Event::Left { participant, reason })];
    let close = Effect::Close { participant, epoch: seat.epoch, code };
    Effects::new(Write::Sync, changes, vec![Effect::Accept, close])
}

fn kick(meeting: &Meeting, by: Seat, participant: Id) -> Result<Effects, Refusal> {
    require_host(&by)?;
    if participant == by.participant {
        return Err(Refusal::Invalid("a host cannot kick itself; leave instead"));
    }
    let mut effects = leave(find_seat(meeting, participant)?, LeaveReason::Kicked, CloseCode::Kicked);
    effects.changes.push(Change::Seat(Box::new(by)));
    Ok(effects)
}

fn end(meeting: &Meeting, by: &Seat) -> Result<Effects, Refusal> {
    require_host(by)?;
    let ended = Change::Event(Event::Ended { reason: "ended by the host".to_owned() });
    let close = |seat: &Seat| Effect::Close {
        participant: seat.participant,
        epoch: seat.epoch,
        code: CloseCode::Done,
    };
    let closes = meeting.seats.values().filter(|seat| seat.presence == Presence::Connected).map(close);
    let then = [Effect::Accept].into_iter().chain(closes).chain([Effect::End]).collect();
    Ok(Effects::new(Write::Sync, vec![ended, Change::Phase(Phase::Complete)], then))
}
