//! Requests of participants: what can be requested, and what each request does.
//!
//! A new request is a variant of [`Request`], a line in [`apply_request`] and a line in `convert::requests`.

use bytes::Bytes;
use tenure_meet_wire::{CloseCode, Id};

use crate::meeting::{
    Change, Effect, Effects, Event, LayoutConfig, LeaveReason, Meeting, Now, Phase, Presence, Refusal, Role,
    Seat, StreamKind, Write, chat, hand, kick, mute, streams, waiting,
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
    /// Raise or lower a hand.
    RaiseHand {
        /// The participant; none for the own hand.
        participant: Option<Id>,
        /// Whether it is raised.
        raised: bool,
    },
    /// Ask for new grants for the media handlers.
    MediaGrant,
    /// Admit participants as host.
    Admit {
        /// Participants that wait or entered muted.
        participants: Vec<Id>,
        /// All participants that wait.
        all: bool,
    },
    /// Remove a participant as host, and ban its user.
    Kick {
        /// The target.
        participant: Id,
    },
    /// Let a kicked user join again, as host.
    LiftBan {
        /// The user.
        user: String,
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
        Request::Leave => Ok(leave(&seat)),
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
        Request::RaiseHand { participant, raised } => hand::raise(meeting, seat, *participant, *raised, now),
        Request::MediaGrant => Ok(streams::request_grants(seat)),
        Request::Admit { participants, all } => waiting::admit(meeting, seat, participants, *all),
        Request::Kick { participant } => kick::kick(meeting, seat, *participant, now),
        Request::LiftBan { user } => kick::lift_ban(meeting, seat, user),
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

fn leave(seat: &Seat) -> Effects {
    let (changes, then) = kick::remove(seat, LeaveReason::Voluntary, CloseCode::Done);
    Effects::new(Write::Sync, changes, [vec![Effect::Accept], then].concat())
}

fn end(meeting: &Meeting, by: &Seat) -> Result<Effects, Refusal> {
    require_host(by)?;
    let mut effects = end_for_all(meeting, "ended by the host");
    effects.then.insert(0, Effect::Accept);
    Ok(effects)
}

/// Ends the meeting and closes all connections.
pub(super) fn end_for_all(meeting: &Meeting, reason: &str) -> Effects {
    let ended = Change::Event(Event::Ended { reason: reason.to_owned() });
    let close = |seat: &Seat| Effect::Close {
        participant: seat.participant,
        epoch: seat.epoch,
        code: CloseCode::Done,
    };
    let closes = meeting.seats.values().filter(|seat| seat.presence == Presence::Connected).map(close);
    let then = closes.chain([Effect::End]).collect();
    Effects::new(Write::Sync, vec![ended, Change::Phase(Phase::Complete)], then)
}
