//! Reading without changing: inspect, history, events.

use redis::Value;
use tenure_lease::{
    End, Event, Holder, Key, Meta, Phase, Reign, Result, Revision, Status, Verb, Wall, limits,
};

use super::call::CallBuilder;
use super::script::{HISTORY, INSPECT};
use super::{ScriptCall, ServerIdentity, reply};
use crate::redis::fault::unexpected_reply;

/// Describes keys.
pub fn encode_inspect(keys: &[Key]) -> ScriptCall {
    CallBuilder::new(&INSPECT, keys.iter().map(Key::as_str)).finish()
}

/// The description of one key.
pub fn decode_inspect(key: &Key, value: &Value) -> Result<Status> {
    let fields = INSPECT.read(value)?;
    let name = fields.bytes("holder")?;
    let (phase, holder) = match fields.text("state")? {
        "free" => (Phase::Free, None),
        "delayed" => (Phase::Delayed, None),
        "reserved" => (Phase::Reserved, reply::any_holder(name)),
        "held" | "foreign" => (Phase::Held, reply::any_holder(name)),
        other => return Err(unexpected_reply(other)),
    };
    Ok(Status {
        key: key.clone(),
        phase,
        holder,
        generation: reply::generation(fields.text("generation")?),
        remaining: reply::remaining(fields.int("remaining")?),
        meta: Meta::new(String::from_utf8_lossy(fields.bytes("meta")?))?,
        since: fields.text("since")?.parse().ok().map(Wall::from_micros),
        waiters: fields.count("waiters")? as u32,
    })
}

/// Lists the reigns of a key.
pub fn encode_history(server: &ServerIdentity, key: &Key) -> ScriptCall {
    server.call(&HISTORY, std::iter::once(key.as_str())).finish()
}

/// The reigns of a key, oldest first, and the running one.
pub fn decode_history(value: &Value) -> Result<Vec<Reign>> {
    let fields = HISTORY.read(value)?;
    let entries = fields.list().iter();
    let mut reigns = entries.map(|entry| closed_reign(reply::bytes(entry)?)).collect::<Result<Vec<_>>>()?;
    if !fields.text("generation")?.is_empty() {
        reigns.push(Reign {
            holder: reply::holder(fields.bytes("holder")?)?,
            generation: fields.generation("generation")?,
            from: micros(fields.text("since")?)?,
            until: None,
            end: None,
        });
    }
    let surplus = reigns.len().saturating_sub(limits::REIGNS);
    reigns.drain(..surplus);
    Ok(reigns)
}

/// `end until generation since holder token`
pub fn closed_reign(entry: &[u8]) -> Result<Reign> {
    let mut words = entry.splitn(6, |byte| *byte == b' ');
    let mut word = || {
        let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
        word.ok_or_else(|| unexpected_reply("an incomplete reign"))
    };
    let (end, until, generation, since) = (word()?, word()?, word()?, word()?);
    Ok(Reign {
        holder: reply::holder(word()?.as_bytes())?,
        generation: reply::minted(generation)?,
        from: micros(since)?,
        until: Some(micros(until)?),
        end: End::parse(end),
    })
}

fn micros(digits: &str) -> Result<Wall> {
    digits.parse().map(Wall::from_micros).map_err(|_| unexpected_reply("not a time"))
}

/// One entry of the stream of events: the changes of one call.
#[derive(Debug)]
pub struct StreamEntry {
    /// Its first revision.
    pub first: u64,
    /// Its last revision.
    pub last: u64,
    /// When it was written.
    pub at: Wall,
    /// One event per line.
    pub lines: String,
}

impl StreamEntry {
    /// Reads `[id, [name, value, ...]]`, whose id is `first-0`.
    pub fn decode(entry: &Value) -> Result<Self> {
        let [id, fields] = reply::exactly(entry, 2)? else { return Err(unexpected_reply("not an entry")) };
        // Counted by a script, so it fits into a signed number.
        let number = |text: &str| {
            let number = text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| unexpected_reply(&format!("not a number: {text:?}")))
        };
        let fields = reply::elements(fields)?;
        let field = |name: &str| {
            let pair = fields.chunks_exact(2).find(|pair| reply::text(&pair[0]).is_ok_and(|n| n == name));
            reply::text(&pair.ok_or_else(|| unexpected_reply(&format!("an entry without {name}")))?[1])
        };
        let id = reply::text(id)?;
        let first = number(id.split_once('-').map_or(id, |(first, _)| first))?;
        let last = first + number(field("count")?)?.saturating_sub(1);
        Ok(Self {
            first,
            last,
            at: Wall::from_micros(number(field("at")?)?),
            lines: field("events")?.to_owned(),
        })
    }

    /// Its events, one revision each as far as there are enough.
    pub fn events(&self) -> Result<Vec<Event>> {
        (self.first..)
            .zip(self.lines.lines())
            .map(|(revision, line)| decode_event(line, Revision::new(revision.min(self.last)), self.at))
            .collect()
    }
}

/// `verb key holder generation`
pub fn decode_event(line: &str, revision: Revision, at: Wall) -> Result<Event> {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let verb = Verb::parse(word()).ok_or_else(|| unexpected_reply(line))?;
    let key = Key::new(word())?;
    let (holder, generation) = match verb {
        Verb::Written | Verb::Deleted => (None, None),
        Verb::Granted | Verb::Ended(_) => (Some(Holder::new(word())?), Some(reply::minted(word())?)),
    };
    Ok(Event { revision, at, key, verb, holder, generation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, count: &str) -> Result<StreamEntry> {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let events = "granted k h 42\nreleased k h 42";
        let fields = ["at", "1", "count", count, "events", events].map(text).to_vec();
        StreamEntry::decode(&Value::Array(vec![text(id), Value::Array(fields)]))
    }

    #[test]
    fn an_entry_has_revisions_that_can_be_counted() {
        let good = entry("5-0", "2").unwrap();
        assert_eq!((good.first, good.last), (5, 6));
        assert_eq!(good.events().unwrap().len(), 2);
        for (id, count) in
            [("5-0", "-1"), ("18446744073709551615-0", "2"), ("-1-0", "1"), ("x-0", "1"), ("5-0", "x")]
        {
            assert!(entry(id, count).is_err(), "{id} {count}");
        }
        let highest = entry("9223372036854775807-0", "9223372036854775807").unwrap();
        assert!(highest.events().is_ok());
    }
}
