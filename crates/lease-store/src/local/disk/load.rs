//! From rows back to the table, with the restart rules.

use std::sync::Arc;
use std::time::Duration;

use lease::breaks::{Break, broken};
use lease::rules::{State, Tenant};
use lease::{End, Floor, Origin, Result, Revision, Tick};

use super::base::Base;
use crate::corrupt;
use crate::local::data::Stored;
use crate::local::rows::{self, Loaded, MarkRow, RecordRow, ReignRow, SlotRow, Table as RowTable};
use crate::local::slots::Past;
use crate::local::table::{Now, Table};

/// How late the sign of life may have been when the last renewal was answered.
const LATE: Duration = Duration::from_secs(1);

/// Builds the table of a new incarnation. Leases of this machine's dead process end; those of remote holders
/// get at least the time that their holders may believe in.
pub(crate) fn load(base: &Base, last_alive: Option<Tick>, now: Now) -> Result<Table> {
    let mut floor = Floor::default();
    base.read(&[RowTable::Own.byte()], |key, value| {
        if &key[1..] == b"floor" {
            floor = Floor::from_raw(rows::within(rows::decode(value)?, "the floor")?);
        }
        Ok(())
    })?;
    let floor = floor.raise(now.wall);
    let mut table = Table::new(floor, Revision::new(floor.get()), true);
    table.out.put(RowTable::Own, &[b"floor"], &floor.get());
    load_data(base, &mut table, now)?;
    let renewed = last_alive.map_or(now.tick, |alive| (alive + LATE).min(now.tick));
    let orphans = load_slots(base, &mut table, renewed, now)?;
    load_history(base, &mut table)?;
    for at in orphans {
        table.end_reign(at, End::HolderDied, now)?;
        table.pass_on(at, None, now)?;
    }
    Ok(table)
}

fn load_slots(base: &Base, table: &mut Table, renewed: Tick, now: Now) -> Result<Vec<u32>> {
    let mut orphans = Vec::new();
    let mut holders = std::collections::HashMap::new();
    base.read(&[RowTable::Slot.byte()], |key, value| {
        let at = table.slots.find_or_insert(&rows::plain(&key[1..])?);
        let (last, ended, loaded) = rows::decode::<SlotRow<'_>>(value)?.load()?;
        let slot = table.slot(at)?;
        slot.last = last;
        if ended > 0 {
            slot.rare_mut().ended = ended;
        }
        let state = match loaded {
            Loaded::Free => State::Free,
            Loaded::Delayed { .. } if broken(Break::DelayInMemory) => State::Free,
            Loaded::Delayed { ms } => State::Delayed { until: now.tick + Duration::from_millis(ms) },
            Loaded::Held { holder, digest, generation, ttl, since, meta, origin } => {
                if origin == Origin::Local {
                    orphans.push(at);
                }
                // One name for many leases: most belong to few holders.
                let holder = holders.entry(holder.clone()).or_insert(holder).clone();
                let expires = renewed + ttl.as_duration();
                State::Held(Tenant { holder, digest, generation, ttl, expires, since, meta, origin })
            }
        };
        let (free, held) = (matches!(state, State::Free), matches!(state, State::Held(_)));
        table.slots.set(at, state);
        if held {
            table.slots.terms_mut(at).set_durable();
        }
        if free {
            table.note_free(at, now)?;
        }
        table.slots.arm(at);
        Ok(())
    })?;
    Ok(orphans)
}

fn load_history(base: &Base, table: &mut Table) -> Result<()> {
    let mut reigns: Vec<(u32, Past)> = Vec::new();
    base.read(&[RowTable::Reign.byte()], |key, value| {
        let (key, _) = rows::numbered(&key[1..])?;
        if let Some(at) = table.slots.find(&key) {
            reigns.push((at, rows::decode::<ReignRow<'_>>(value)?.load()?));
        }
        Ok(())
    })?;
    reigns.sort_by_key(|(at, past)| (*at, past.generation));
    for (at, past) in reigns {
        let rare = table.slot(at)?.rare_mut();
        rare.past.push_back(past);
    }
    Ok(())
}

fn load_data(base: &Base, table: &mut Table, now: Now) -> Result<()> {
    base.read(&[RowTable::Record.byte()], |key, value| {
        let row: RecordRow<'_> = rows::decode(value)?;
        let revision = Revision::new(rows::within(row.revision, "a revision")?);
        let left =
            |end: u64, ttl: u64| Duration::from_millis(end.saturating_sub(now.wall.as_millis()).min(ttl));
        let expires = row.expires.zip(row.ttl_ms).map(|(end, ttl)| now.tick + left(end, ttl));
        table.revision = table.revision.max(revision);
        table.data.insert(rows::plain(&key[1..])?, Stored { value: Arc::from(row.value), revision, expires });
        Ok(())
    })?;
    base.read(&[RowTable::LogEntry.byte()], |key, value| {
        let (key, seq) = rows::numbered(&key[1..])?;
        let log = table.data.logs.entry(key).or_default();
        // A log loses entries from its front only.
        if seq == 0 || (log.last != 0 && seq != log.last + 1) {
            return Err(corrupt(format!("a log has entry {seq} after {}", log.last)));
        }
        log.last = seq;
        log.entries.push_back(Arc::from(rows::decode::<&[u8]>(value)?));
        Ok(())
    })?;
    base.read(&[RowTable::Mark.byte()], |key, value| {
        table.data.marks.insert(rows::plain(&key[1..])?, rows::decode::<MarkRow>(value)?.load()?);
        Ok(())
    })
}
