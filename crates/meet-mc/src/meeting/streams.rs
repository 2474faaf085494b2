//! Published streams and subscribed layouts.

use tenure_meet_wire::limits as wire;

use crate::meeting::request::accept;
use crate::meeting::{
    Change, Effect, Effects, Event, Layout, LayoutConfig, Refusal, Seat, Stream, StreamKind, Write, limits,
};

pub(super) fn publish(
    mut seat: Seat,
    stream_id: u32,
    kind: StreamKind,
    metadata: &str,
) -> Result<Effects, Refusal> {
    if metadata.len() > limits::METADATA {
        return Err(Refusal::Invalid("stream metadata has at most 1024 bytes"));
    }
    if !seat.streams.contains_key(&stream_id) && seat.streams.len() >= limits::STREAMS {
        return Err(Refusal::RateLimited("a participant has at most 16 streams"));
    }
    let stream = Stream { kind, metadata: metadata.to_owned() };
    let participant = seat.participant;
    let same = seat.streams.insert(stream_id, stream.clone()).is_some_and(|old| old == stream);
    Ok(accept(seat, (!same).then_some(Event::Published { participant, stream_id, stream })))
}

pub(super) fn unpublish(mut seat: Seat, stream_id: u32) -> Result<Effects, Refusal> {
    seat.streams.remove(&stream_id).ok_or(Refusal::NotFound("no such stream"))?;
    let participant = seat.participant;
    Ok(accept(seat, Some(Event::Unpublished { participant, stream_id })))
}

fn check_config(config: &LayoutConfig) -> Result<(), Refusal> {
    if config.pinned.len() > limits::LAYOUT_NAMES || config.excluded.len() > limits::LAYOUT_NAMES {
        return Err(Refusal::Invalid("a layout names at most 64 users"));
    }
    if config.pinned.iter().chain(&config.excluded).any(|user| user.len() > wire::USER_ID) {
        return Err(Refusal::Invalid("a user id has at most 128 bytes"));
    }
    Ok(())
}

pub(super) fn subscribe(
    seat: Seat,
    kind: i32,
    config: &LayoutConfig,
    streams: &[u32],
) -> Result<Effects, Refusal> {
    check_config(config)?;
    if streams.len() > limits::LAYOUT_NAMES {
        return Err(Refusal::Invalid("a layout names at most 64 streams"));
    }
    let layout = Some(Layout { kind, config: config.clone(), streams: streams.to_vec() });
    Ok(accept(Seat { layout, ..seat }, None))
}

pub(super) fn update_layout(seat: Seat, config: &LayoutConfig) -> Result<Effects, Refusal> {
    check_config(config)?;
    let before = seat.layout.clone().ok_or(Refusal::Conflict("no layout to update"))?;
    let layout = Some(Layout { config: config.clone(), ..before });
    Ok(accept(Seat { layout, ..seat }, None))
}

/// Only the request's number is recorded: grants are not persisted.
pub(super) fn request_grants(seat: Seat) -> Effects {
    Effects::new(Write::Async, vec![Change::Seat(Box::new(seat))], vec![Effect::AnswerWithMediaServers])
}

pub(super) fn unsubscribe(seat: Seat) -> Effects {
    accept(Seat { layout: None, ..seat }, None)
}
