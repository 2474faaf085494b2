//! Opening a meeting under a new owner, and removing one that ended.

use std::sync::Arc;

use prost::Message as _;
use tenure_keeper::LeaseHandle;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{LogEntry, Op, Prefix, Query, Record, Wall};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::signaling::ServerMessage;

use crate::ledger::backlog::{Backlog, MAX_OPS};
use crate::ledger::commit::{OwnerRecords, read_store};
use crate::ledger::doubt::WriteEffect;
use crate::ledger::{ControllerState, Ledger, LedgerError, encode_event, refused};
use crate::meeting::{Event, EventLog, HandlerInfo, LoggedEvent, Meeting, Now, Settings};
use crate::rows::MeetingRow;
use crate::{MeetingKeys, convert, metric, rows};

/// Log entries read at once.
const PAGE: usize = 256;

/// Reads the state and records this owner. The lease is held, so no earlier owner can write any more.
pub(super) async fn open(
    shared: ControllerState,
    held: LeaseHandle,
    meeting: &MeetingId,
    settings: &Settings,
    handlers: &[HandlerInfo],
) -> Result<(Ledger, Meeting), LedgerError> {
    let clock = shared.store.clock();
    let mut ledger = Ledger {
        keys: MeetingKeys::new(meeting),
        row: MeetingRow::new(settings, handlers),
        backlog: Backlog::default(),
        doubt: None,
        outcome: None,
        superseded: false,
        generation: None,
        controller: None,
        shared,
        clock,
        held,
    };
    let owners = OwnerRecords::read(&ledger).await?;
    owners.check(ledger.held.generation(), &ledger.shared.mc_id)?;
    (ledger.generation, ledger.controller) = owners.revisions();
    let state = ledger.keys.state().map_err(refused)?;
    let kept = read_store(&ledger.shared, &ledger.clock, ledger.shared.store.get(&state)).await?;
    let kept: Option<MeetingRow> = kept.and_then(|record| serde_json::from_slice(&record.value).ok());
    let log = read_log(&ledger).await?;
    if kept.as_ref().is_some_and(|row| row.ended) {
        // The last owner did not finish removing it.
        remove_records(&mut ledger).await?;
    }
    let kept = kept.filter(|row| !row.ended);
    let mut state = restore(&ledger, kept.as_ref(), meeting, settings, handlers, log).await?;
    ledger.row = MeetingRow {
        mute_epoch: state.mute_epoch,
        guests_enter_muted: state.guests_enter_muted,
        ..MeetingRow::new(&state.settings, &state.handlers)
    };
    let (key, row) = (ledger.keys.state().map_err(refused)?, rows::encode(&ledger.row));
    let row = row.ok_or_else(|| LedgerError::Refused("row not encodable".to_owned()))?;
    ledger.enqueue_heartbeat(ledger.clock.wall())?;
    ledger.backlog.put(key, row);
    ledger.flush().await?;
    let (seats, last) = (state.seats.len(), state.log.last());
    tracing::info!(target: metric::TARGET, %meeting, generation = %ledger.held.generation(), seats, last, "meeting opened");
    if !state.seats.is_empty() {
        state.empty_since = None;
    }
    Ok((ledger, state))
}

/// The meeting as its last owner left it, with all seats disconnected; or a new one. The settings come from the
/// assignment: they may be newer than the stored ones.
async fn restore(
    ledger: &Ledger,
    kept: Option<&MeetingRow>,
    meeting: &MeetingId,
    settings: &Settings,
    handlers: &[HandlerInfo],
    log: EventLog,
) -> Result<Meeting, LedgerError> {
    let now = Now { tick: ledger.clock.now(), wall: ledger.clock.wall() };
    let mut state = Meeting::new(meeting.clone(), settings.clone(), handlers.to_vec(), now);
    state.log = log;
    let Some(row) = kept else { return Ok(state) };
    // Every seat has a mask with an epoch of at least 1; seats of earlier versions may have none.
    state.mute_epoch = row.mute_epoch.max(1);
    state.guests_enter_muted = row.guests_enter_muted;
    if handlers.is_empty() {
        state.handlers = row.handlers();
    }
    let alive = last_heartbeat(ledger).await?;
    for record in read_records(ledger, ledger.keys.seats()).await? {
        let seat = rows::decode_seat(&record.value, now, alive, state.settings.grace);
        // One participant joins again; the others keep their meeting.
        let Some(mut seat) = seat else {
            skip_row(&record);
            continue;
        };
        seat.mutes.epoch = seat.mutes.epoch.max(1);
        state.seats.insert(seat.participant, seat);
    }
    for record in read_records(ledger, ledger.keys.users()).await? {
        match rows::decode_user(&record.value) {
            Some((user, decided)) => drop(state.users.insert(user, decided)),
            None => skip_row(&record),
        }
    }
    Ok(state)
}

/// A row that this version cannot read stays in the store: a newer version may have written it.
fn skip_row(record: &Record) {
    metric::row_skipped();
    tracing::error!(target: metric::TARGET, key = %record.key, "unreadable row skipped");
}

async fn last_heartbeat(ledger: &Ledger) -> Result<Option<Wall>, LedgerError> {
    let key = ledger.keys.alive().map_err(refused)?;
    let record = read_store(&ledger.shared, &ledger.clock, ledger.shared.store.get(&key)).await?;
    let text = record.and_then(|record| String::from_utf8(record.value.to_vec()).ok());
    Ok(text.and_then(|text| text.parse().ok()).map(Wall::from_micros))
}

async fn read_records(
    ledger: &Ledger,
    prefix: tenure_lease::Result<Prefix>,
) -> Result<Vec<Record>, LedgerError> {
    let mut query = Query::new(prefix.map_err(refused)?);
    let mut found = Vec::new();
    loop {
        let page = read_store(&ledger.shared, &ledger.clock, ledger.shared.store.scan(&query)).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}

async fn read_log(ledger: &Ledger) -> Result<EventLog, LedgerError> {
    let (log, mut after, mut entries) = (ledger.log()?, 0, Vec::new());
    loop {
        let page = read_store(&ledger.shared, &ledger.clock, ledger.shared.store.read_log(&log, after, PAGE))
            .await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        entries.extend(page.iter().filter_map(decode_event));
    }
    let last = if broken(Break::RestartsEventNumbers) { 0 } else { after };
    Ok(EventLog::restore(last, entries))
}

/// An event that this version does not know is a gap: clients that missed it get a snapshot.
fn decode_event(entry: &LogEntry) -> Option<LoggedEvent> {
    let message = ServerMessage::decode(&*entry.value).ok()?;
    Some(LoggedEvent { seq: entry.seq, event: convert::event_from_wire(message.payload?)? })
}

/// Removes the records of seats and users.
async fn remove_records(ledger: &mut Ledger) -> Result<(), LedgerError> {
    let mut records = read_records(ledger, ledger.keys.seats()).await?;
    records.extend(read_records(ledger, ledger.keys.users()).await?);
    for part in records.chunks(MAX_OPS) {
        let ops: Vec<Op> = part.iter().map(|record| Op::Delete { key: record.key.clone() }).collect();
        ledger.commit(ops, None, WriteEffect::None).await?;
    }
    Ok(())
}

/// Removes seats and users first: until the last commit the row says that the meeting ended. The log keeps one entry, so that event
/// numbers continue if the meeting is opened again.
pub(super) async fn clear(ledger: &mut Ledger) -> Result<(), LedgerError> {
    remove_records(ledger).await?;
    let ended = encode_event(&Event::Ended { reason: String::new() });
    let ops = vec![
        Op::Delete { key: ledger.keys.alive().map_err(refused)? },
        Op::Delete { key: ledger.keys.state().map_err(refused)? },
        Op::Append { log: ledger.log()?, value: Arc::clone(&ended), max_len: 1 },
    ];
    ledger.commit(ops, None, WriteEffect::None).await
}
