//! Loading the table from rows after a restart.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::rules::{ActiveReign, State};
use tenure_lease::{End, Floor, Origin, Result, Revision, Tick};

use super::base::Base;
use crate::local::data::Stored;
use crate::local::retention::{REFUSED_FOR, Refused, Tombstone};
use crate::local::rows::{self, Loaded, MarkRow, RecordRow, ReignRow, SlotRow, Table as RowTable, corrupt};
use crate::local::slots::PastReign;
use crate::local::table::{Now, Table};

/// The greatest age of the heartbeat when a renewal was answered.
const MAX_HEARTBEAT_AGE: Duration = Duration::from_secs(1);

/// Builds the table of a new incarnation. Leases of the dead process end; those of remote holders keep at least the time
/// that their holders rely on.
pub(crate) fn load(base: &Base, last_alive: Option<Tick>, now: Now) -> Result<Table> {
    let mut floor = Floor::default();
    base.read(&[RowTable::Own.byte()], |key, value| {
        if &key[1..] == b"floor" {
            floor = Floor::from_raw(rows::checked_counter(rows::decode(value)?, "the floor")?);
        }
        Ok(())
    })?;
    let floor = floor.raise(now.wall);
    let mut table = Table::new(floor, Revision::new(floor.get()), true);
    table.effects.put(RowTable::Own, &[b"floor"], &floor.get());
    load_data(base, &mut table, now)?;
    let renewed = last_alive.map_or(now.tick, |alive| (alive + MAX_HEARTBEAT_AGE).min(now.tick));
    let orphans = load_slots(base, &mut table, renewed, now)?;
    load_history(base, &mut table, now)?;
    load_refused_tokens(base, &mut table, last_alive.is_some(), now)?;
    for at in orphans {
        table.end_reign(at, End::HolderDied, now)?;
        table.grant_to_next(at, None, now)?;
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
            slot.details_mut().ended = ended;
        }
        let state = match loaded {
            Loaded::Free => State::Free,
            Loaded::Delayed { .. } if broken(Break::DelayInMemory) => State::Free,
            Loaded::Delayed { ms } => State::Delayed { until: now.tick + Duration::from_millis(ms) },
            Loaded::Held { holder, digest, generation, ttl, since, meta, origin } => {
                if origin == Origin::Local {
                    orphans.push(at);
                }
                // Share holder names: most leases belong to few holders.
                let holder = holders.entry(holder.clone()).or_insert(holder).clone();
                let expires = renewed + ttl.as_duration();
                State::Held(ActiveReign { holder, digest, generation, ttl, expires, since, meta, origin })
            }
        };
        let (free, held) = (matches!(state, State::Free), matches!(state, State::Held(_)));
        table.slots.set(at, state);
        if held {
            table.slots.hot_mut(at).set_durable();
        }
        if free {
            table.note_free(at, now)?;
        }
        table.slots.arm(at);
        Ok(())
    })?;
    Ok(orphans)
}

fn load_history(base: &Base, table: &mut Table, now: Now) -> Result<()> {
    let mut reigns: Vec<(u32, PastReign)> = Vec::new();
    base.read(&[RowTable::Reign.byte()], |key, value| {
        let (key, _) = rows::numbered(&key[1..])?;
        if let Some(at) = table.slots.find(&key) {
            reigns.push((at, rows::decode::<ReignRow<'_>>(value)?.load(now.tick)?));
        }
        Ok(())
    })?;
    reigns.sort_by_key(|(at, past)| (*at, past.generation));
    for (at, past) in reigns {
        let details = table.slot(at)?.details_mut();
        details.past.push_back(past);
    }
    Ok(())
}

/// Loads the tokens that keys refuse. After a reboot their times mean nothing, so each is refused for its full time again.
fn load_refused_tokens(base: &Base, table: &mut Table, same_boot: bool, now: Now) -> Result<()> {
    let longest = now.tick + REFUSED_FOR;
    for why in Refused::ALL {
        let mut tokens = Vec::new();
        base.read(&[why.rows().byte()], |key, value| {
            let (key, token) = rows::with_token(&key[1..])?;
            let until = Tick::from_nanos(rows::decode(value)?);
            tokens.push((if same_boot { until.min(longest) } else { longest }, key, token));
            Ok(())
        })?;
        tokens.sort();
        for (until, key, token) in tokens {
            if until <= now.tick || broken(Break::TombstonesInMemory) {
                table.effects.delete(why.rows(), &[key.as_str().as_bytes(), &[0], &token]);
                continue;
            }
            let at = table.slots.find_or_insert(&key);
            why.tokens(table.slot(at)?.details_mut()).push(token, until);
            if matches!(why, Refused::GivenUp) {
                table.tombstones.push_back(Tombstone { at, token, until });
            }
            table.slots.arm(at);
        }
    }
    Ok(())
}

fn load_data(base: &Base, table: &mut Table, now: Now) -> Result<()> {
    base.read(&[RowTable::Record.byte()], |key, value| {
        let row: RecordRow<'_> = rows::decode(value)?;
        let revision = Revision::new(rows::checked_counter(row.revision, "a revision")?);
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
            return Err(corrupt(format!("log entry {seq} follows {}", log.last)));
        }
        log.last = seq;
        log.entries.push_back(Arc::from(rows::decode::<&[u8]>(value)?));
        Ok(())
    })?;
    base.read(&[RowTable::HighWaterMark.byte()], |key, value| {
        table.data.marks.insert(rows::plain(&key[1..])?, rows::decode::<MarkRow>(value)?.load()?);
        Ok(())
    })
}
