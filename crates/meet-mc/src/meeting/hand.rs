//! Raised hands.

use tenure_meet_wire::Id;

use crate::meeting::request::{accept, find_seat, require_host};
use crate::meeting::{Change, Effect, Effects, Event, Meeting, Now, Refusal, Seat, Write};

/// Raises or lowers the participant's own hand, or lowers another one's as host. An unchanged hand is not published.
pub(super) fn raise(
    meeting: &Meeting,
    seat: Seat,
    participant: Option<Id>,
    raised: bool,
    now: Now,
) -> Result<Effects, Refusal> {
    match participant.filter(|participant| *participant != seat.participant) {
        None => {
            let (seat, event) = set(seat, raised, now);
            Ok(accept(seat, event))
        }
        Some(_) if raised => Err(Refusal::Invalid("only a participant itself raises its hand")),
        Some(other) => {
            require_host(&seat)?;
            let (other, event) = set(find_seat(meeting, other)?.clone(), false, now);
            let seats = [seat, other].map(|seat| Change::Seat(Box::new(seat)));
            let changes = seats.into_iter().chain(event.map(Change::Event)).collect();
            Ok(Effects::new(Write::Async, changes, vec![Effect::Accept]))
        }
    }
}

fn set(seat: Seat, raised: bool, now: Now) -> (Seat, Option<Event>) {
    if seat.hand_raised_at.is_some() == raised {
        return (seat, None);
    }
    let hand_raised_at = raised.then_some(now.wall);
    let event = Event::Hand { participant: seat.participant, raised_at: hand_raised_at };
    (Seat { hand_raised_at, ..seat }, Some(event))
}
