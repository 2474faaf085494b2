//! Taking a meeting over, and putting it away.

use std::sync::Arc;

use lease::{LogEntry, Op, Query, Record, Wall};
use lease_keeper::Held;
use meet_wire::MeetingId;
use meet_wire::signaling::ServerMessage;
use prost::Message as _;

use crate::ledger::backlog::{Backlog, STEP};
use crate::ledger::commit::{Signs, read};
use crate::ledger::{Desk, Ledger, LedgerError, entry, refused};
use crate::meeting::{Entry, Handler, Happening, Journal, Meeting, Now, Settings};
use crate::rows::MeetingRow;
use crate::{Keys, convert, metric, rows};

/// Entries of the log in one page.
const PAGE: usize = 256;

/// Reads what there is and signs. The lease is held: whoever wrote before cannot any more, so what is read stays as it is.
pub(super) async fn open(
    desk: Desk,
    held: Held,
    meeting: &MeetingId,
    settings: &Settings,
    handlers: &[Handler],
) -> Result<(Ledger, Meeting), LedgerError> {
    let clock = desk.store.clock();
    let mut ledger = Ledger {
        keys: Keys::new(meeting),
        row: MeetingRow::new(settings, handlers),
        backlog: Backlog::default(),
        outdone: false,
        generation: None,
        controller: None,
        desk,
        clock,
        held,
    };
    let signs = Signs::read(&ledger).await?;
    signs.admit(ledger.held.generation(), &ledger.desk.mc_id)?;
    (ledger.generation, ledger.controller) = signs.revisions();
    let state = ledger.keys.state().map_err(refused)?;
    let kept = read(&ledger.desk, &ledger.clock, ledger.desk.store.get(&state)).await?;
    let kept: Option<MeetingRow> = kept.and_then(|record| serde_json::from_slice(&record.value).ok());
    let journal = journal(&ledger).await?;
    if kept.as_ref().is_some_and(|row| row.ended) {
        // Its last owner did not come to put it away.
        remove_seats(&mut ledger).await?;
    }
    let kept = kept.filter(|row| !row.ended);
    let mut state = restored(&ledger, kept.as_ref(), meeting, settings, handlers, journal).await?;
    ledger.row =
        MeetingRow { mute_epoch: state.mute_epoch, ..MeetingRow::new(&state.settings, &state.handlers) };
    let (key, row) = (ledger.keys.state().map_err(refused)?, rows::encode(&ledger.row));
    let row = row.ok_or_else(|| LedgerError::Refused("a row cannot be encoded".to_owned()))?;
    ledger.note_alive(ledger.clock.wall())?;
    ledger.backlog.put(key, row);
    ledger.flush().await?;
    let (seats, last) = (state.seats.len(), state.journal.last());
    tracing::info!(target: metric::TARGET, %meeting, generation = %ledger.held.generation(), seats, last, "took the meeting");
    if !state.seats.is_empty() {
        state.empty_since = None;
    }
    Ok((ledger, state))
}

/// The meeting as its last owner left it, with everybody away; or a new one. The settings are those that it was assigned with: they may have
/// changed since the last owner wrote.
async fn restored(
    ledger: &Ledger,
    kept: Option<&MeetingRow>,
    meeting: &MeetingId,
    settings: &Settings,
    handlers: &[Handler],
    journal: Journal,
) -> Result<Meeting, LedgerError> {
    let now = Now { tick: ledger.clock.now(), wall: ledger.clock.wall() };
    let mut state = Meeting::new(meeting.clone(), settings.clone(), handlers.to_vec(), now);
    state.journal = journal;
    let Some(row) = kept else { return Ok(state) };
    state.mute_epoch = row.mute_epoch;
    if handlers.is_empty() {
        state.handlers = row.handlers();
    }
    let alive = alive(ledger).await?;
    for record in seats(ledger).await? {
        let seat = rows::read_seat(&record.value, now, alive, state.settings.grace);
        let seat = seat.ok_or_else(|| LedgerError::Refused(format!("{} is no seat", record.key)))?;
        state.seats.insert(seat.participant, seat);
    }
    Ok(state)
}

async fn alive(ledger: &Ledger) -> Result<Option<Wall>, LedgerError> {
    let key = ledger.keys.alive().map_err(refused)?;
    let record = read(&ledger.desk, &ledger.clock, ledger.desk.store.get(&key)).await?;
    let text = record.and_then(|record| String::from_utf8(record.value.to_vec()).ok());
    Ok(text.and_then(|text| text.parse().ok()).map(Wall::from_micros))
}

async fn seats(ledger: &Ledger) -> Result<Vec<Record>, LedgerError> {
    let mut query = Query::new(ledger.keys.seats().map_err(refused)?);
    let mut found = Vec::new();
    loop {
        let page = read(&ledger.desk, &ledger.clock, ledger.desk.store.scan(&query)).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}

async fn journal(ledger: &Ledger) -> Result<Journal, LedgerError> {
    let (log, mut after, mut entries) = (ledger.log()?, 0, Vec::new());
    loop {
        let page = read(&ledger.desk, &ledger.clock, ledger.desk.store.read_log(&log, after, PAGE)).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        entries.extend(page.iter().filter_map(decoded));
    }
    Ok(Journal::restore(after, entries))
}

/// An entry that this version does not know is a gap: whoever missed it gets the roster.
fn decoded(entry: &LogEntry) -> Option<Entry> {
    let message = ServerMessage::decode(&*entry.value).ok()?;
    Some(Entry { seq: entry.seq, happening: convert::happening(message.payload?)? })
}

async fn remove_seats(ledger: &mut Ledger) -> Result<(), LedgerError> {
    for part in seats(ledger).await?.chunks(STEP) {
        let ops: Vec<Op> = part.iter().map(|record| Op::Delete { key: record.key.clone() }).collect();
        ledger.commit(&ops, None).await?;
    }
    Ok(())
}

/// Seats first: until the last step the row says that the meeting is over. The log is cut to one entry; its numbers go on if the meeting is
/// ever held again.
pub(super) async fn clear(ledger: &mut Ledger) -> Result<(), LedgerError> {
    remove_seats(ledger).await?;
    let over = entry(&Happening::Ended { reason: String::new() });
    let ops = [
        Op::Delete { key: ledger.keys.alive().map_err(refused)? },
        Op::Delete { key: ledger.keys.state().map_err(refused)? },
        Op::Append { log: ledger.log()?, value: Arc::clone(&over), max_len: 1 },
    ];
    ledger.commit(&ops, None).await
}
