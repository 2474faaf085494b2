//! Chat messages and application data.

use bytes::Bytes;
use tenure_meet_wire::{Id, limits as wire};

use crate::meeting::request::{accept, find_seat};
use crate::meeting::{Effects, Event, Meeting, Now, Refusal, Seat, limits};

pub(super) fn send_chat(seat: Seat, text: &str, now: Now) -> Result<Effects, Refusal> {
    if text.is_empty() || text.len() > wire::CHAT {
        return Err(Refusal::Invalid("a chat message has 1 to 4096 bytes"));
    }
    let (participant, name) = (seat.participant, seat.name.clone());
    let event = Event::Chat { participant, name, text: text.to_owned(), at: now.wall };
    Ok(accept(seat, Some(event)))
}

pub(super) fn send_data(
    meeting: &Meeting,
    seat: Seat,
    topic: &str,
    payload: &Bytes,
    to: &[Id],
) -> Result<Effects, Refusal> {
    if topic.len() > wire::TOPIC || payload.len() > wire::DATA || to.len() > limits::RECEIVERS {
        let bounds = "a data message has at most 32768 bytes, a topic of 128 bytes and 64 receivers";
        return Err(Refusal::Invalid(bounds));
    }
    for participant in to {
        find_seat(meeting, *participant)?;
    }
    let event = Event::Data {
        participant: seat.participant,
        topic: topic.to_owned(),
        payload: payload.clone(),
        to: to.to_vec(),
    };
    Ok(accept(seat, Some(event)))
}
