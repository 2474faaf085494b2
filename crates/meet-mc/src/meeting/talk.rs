//! Chat, data, streams and layouts.

use bytes::Bytes;
use meet_wire::{Id, limits as wire};

use crate::meeting::apply::other;
use crate::meeting::{
    Change, Effect, Effects, Happening, Layout, LayoutConfig, Meeting, Now, Refusal, Seat, Stream,
    StreamKind, Write, limits,
};

/// The seat has the request's number; this happened as well.
fn noted(seat: Seat, happening: Option<Happening>) -> Effects {
    let changes = [Change::Seat(Box::new(seat))].into_iter().chain(happening.map(Change::Happened));
    Effects::new(Write::Async, changes.collect(), vec![Effect::Accept])
}

pub(super) fn chat(seat: Seat, text: &str, now: Now) -> Result<Effects, Refusal> {
    if text.is_empty() || text.len() > wire::CHAT {
        return Err(Refusal::Invalid("a chat message has 1 to 4096 bytes"));
    }
    let (participant, name) = (seat.participant, seat.name.clone());
    let said = Happening::Chat { participant, name, text: text.to_owned(), at: now.wall };
    Ok(noted(seat, Some(said)))
}

pub(super) fn data(
    meeting: &Meeting,
    seat: Seat,
    topic: &str,
    payload: &Bytes,
    to: &[Id],
) -> Result<Effects, Refusal> {
    if topic.len() > wire::TOPIC || payload.len() > wire::DATA || to.len() > limits::TO {
        return Err(Refusal::Invalid(
            "a data message has at most 32768 bytes, a topic of 128 and 64 receivers",
        ));
    }
    for participant in to {
        other(meeting, *participant)?;
    }
    let said = Happening::Data {
        participant: seat.participant,
        topic: topic.to_owned(),
        payload: payload.clone(),
        to: to.to_vec(),
    };
    Ok(noted(seat, Some(said)))
}

pub(super) fn publish(
    mut seat: Seat,
    stream_id: u32,
    kind: StreamKind,
    metadata: &str,
) -> Result<Effects, Refusal> {
    if metadata.len() > limits::METADATA {
        return Err(Refusal::Invalid("the metadata of a stream has at most 1024 bytes"));
    }
    if !seat.streams.contains_key(&stream_id) && seat.streams.len() >= limits::STREAMS {
        return Err(Refusal::TooOften("a participant has at most 16 streams"));
    }
    let stream = Stream { kind, metadata: metadata.to_owned() };
    let participant = seat.participant;
    let same = seat.streams.insert(stream_id, stream.clone()).is_some_and(|old| old == stream);
    Ok(noted(seat, (!same).then_some(Happening::Published { participant, stream_id, stream })))
}

pub(super) fn unpublish(mut seat: Seat, stream_id: u32) -> Result<Effects, Refusal> {
    seat.streams.remove(&stream_id).ok_or(Refusal::NotFound("there is no such stream"))?;
    let participant = seat.participant;
    Ok(noted(seat, Some(Happening::Unpublished { participant, stream_id })))
}

fn checked(config: &LayoutConfig) -> Result<(), Refusal> {
    if config.pinned.len() > limits::NAMED || config.excluded.len() > limits::NAMED {
        return Err(Refusal::Invalid("a layout names at most 64 users"));
    }
    if config.pinned.iter().chain(&config.excluded).any(|user| user.len() > wire::USER_ID) {
        return Err(Refusal::Invalid("the id of a user has at most 128 bytes"));
    }
    Ok(())
}

pub(super) fn subscribe(
    seat: Seat,
    kind: i32,
    config: &LayoutConfig,
    streams: &[u32],
) -> Result<Effects, Refusal> {
    checked(config)?;
    if streams.len() > limits::NAMED {
        return Err(Refusal::Invalid("a layout names at most 64 streams"));
    }
    let layout = Some(Layout { kind, config: config.clone(), streams: streams.to_vec() });
    Ok(noted(Seat { layout, ..seat }, None))
}

pub(super) fn update_layout(seat: Seat, config: &LayoutConfig) -> Result<Effects, Refusal> {
    checked(config)?;
    let before = seat.layout.clone().ok_or(Refusal::Conflict("there is no layout to update"))?;
    let layout = Some(Layout { config: config.clone(), ..before });
    Ok(noted(Seat { layout, ..seat }, None))
}

pub(super) fn unsubscribe(seat: Seat) -> Effects {
    noted(Seat { layout: None, ..seat }, None)
}
