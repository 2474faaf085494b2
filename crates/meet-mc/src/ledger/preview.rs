//! Reading a meeting that another controller still owns, before it moves here.

use std::collections::HashMap;

use tenure_lease::Query;
use tenure_meet_wire::{Id, MeetingId};

use crate::ledger::commit::read_store;
use crate::ledger::{ControllerState, LedgerError, refused};
use crate::meeting::{Now, Settings, limits};
use crate::rows::MeetingRow;
use crate::{MeetingKeys, SeatTimeouts, rows};

/// The participants of a meeting by the correlation ids of their connections, as stored.
pub(crate) async fn read_seats(
    shared: &ControllerState,
    meeting: &MeetingId,
) -> Result<HashMap<Id, Id>, LedgerError> {
    let clock = shared.store.clock();
    let now = Now { tick: clock.now(), wall: clock.wall() };
    let mut query = Query::new(MeetingKeys::new(meeting).seats().map_err(refused)?);
    let mut seats = HashMap::new();
    loop {
        let page = read_store(shared, &clock, shared.store.scan(&query)).await?;
        let decoded =
            page.items.iter().filter_map(|record| rows::decode_seat(&record.value, now, None, limits::GRACE));
        seats.extend(decoded.map(|seat| (seat.binding.correlation, seat.participant)));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(seats),
        }
    }
}

/// The stored settings of a meeting; the defaults if there are none.
pub(crate) async fn read_settings(
    shared: &ControllerState,
    meeting: &MeetingId,
    SeatTimeouts { grace, binding_ttl }: SeatTimeouts,
) -> Result<Settings, LedgerError> {
    let clock = shared.store.clock();
    let key = MeetingKeys::new(meeting).state().map_err(refused)?;
    let record = read_store(shared, &clock, shared.store.get(&key)).await?;
    let row: Option<MeetingRow> = record.and_then(|record| serde_json::from_slice(&record.value).ok());
    let settings = Settings { grace, binding_ttl, ..Settings::default() };
    Ok(row.map_or(settings.clone(), |row| Settings {
        max_participants: row.max_participants,
        allow_guests: row.allow_guests,
        waiting_room: row.waiting_room,
        ..settings
    }))
}

/// Whether `last_event` is the last stored event of a meeting.
pub(crate) async fn ends_with(
    shared: &ControllerState,
    meeting: &MeetingId,
    last_event: u64,
) -> Result<bool, LedgerError> {
    let clock = shared.store.clock();
    let log = MeetingKeys::new(meeting).log().map_err(refused)?;
    let after = last_event.saturating_sub(1);
    let entries = read_store(shared, &clock, shared.store.read_log(&log, after, 2)).await?;
    Ok(entries.last().map_or(0, |entry| entry.seq) == last_event)
}
