//! Watching the stream of events.
//!
//! One task follows the end of the stream on a connection of its own and says how far it got. Every watch reads
//! on from its own place over the shared connection, so a slow one loses nothing until the stream forgets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease::{Error, Event, Holder, Key, Prefix, Result, Revision, Verb, Wall, Watch, Watched, limits};
use redis::{AsyncConnectionConfig, Value};
use tokio::sync::{Notify, watch};

use super::fault::{ENGINE, strange, too_many};
use super::hold;
use super::look::tip;
use super::names::EVENTS;
use super::reply;
use super::wire::{Wire, pause};

/// Most entries read at once.
const READ: usize = 64;
/// How long one blocking read lasts. A watch looks for itself at least this often.
const BLOCK: Duration = Duration::from_secs(2);

/// What all watches of an engine share.
pub(super) struct Tower {
    tip: watch::Sender<u64>,
    opened: Notify,
    watching: AtomicUsize,
}

/// One watch.
pub(super) struct Watcher {
    wire: Arc<Wire>,
    tower: Arc<Tower>,
    tip: watch::Receiver<u64>,
    prefix: Prefix,
    /// The last revision that was read.
    at: u64,
    /// Where in the stream to read on.
    cursor: String,
    ready: VecDeque<Watched>,
}

impl Tower {
    pub(super) fn new() -> Arc<Self> {
        let (tip, _) = watch::channel(0);
        Arc::new(Self { tip, opened: Notify::new(), watching: AtomicUsize::new(0) })
    }

    /// Opens a watch after `from`, or from now on.
    pub(super) async fn open(
        self: &Arc<Self>,
        wire: &Arc<Wire>,
        prefix: &Prefix,
        from: Option<Revision>,
    ) -> Result<Watcher> {
        let latest = reply::revision(&tip(wire).await?)?;
        if self.watching.fetch_add(1, Ordering::Relaxed) >= limits::WATCHERS {
            self.watching.fetch_sub(1, Ordering::Relaxed);
            return Err(too_many("watches", limits::WATCHERS));
        }
        let (wire, tower, tip, prefix) =
            (Arc::clone(wire), Arc::clone(self), self.tip.subscribe(), prefix.clone());
        let (at, cursor, ready) = (latest.get(), after(latest.get()), VecDeque::new());
        let mut watcher = Watcher { wire, tower, tip, prefix, at, cursor, ready };
        self.opened.notify_one();
        if let Some(from) = from.filter(|from| *from != latest) {
            watcher.resume(from.get(), latest.get()).await?;
        }
        Ok(watcher)
    }

    /// Follows the end of the stream for ever. Without watches it stands still.
    pub(super) async fn follow(self: Arc<Self>, wire: Arc<Wire>) {
        let mut failures = 0;
        loop {
            if self.tip.receiver_count() == 0 {
                self.opened.notified().await;
                continue;
            }
            if let Err(error) = self.read_on(&wire).await {
                tracing::debug!(%error, "cannot follow the events");
                failures += 1;
                wire.clock.sleep_until(wire.clock.now() + pause(failures)).await;
            } else {
                failures = 0;
            }
        }
    }

    async fn read_on(&self, wire: &Wire) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(BLOCK * 2));
        let mut conn = wire.options.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut last = format!("{}-{}", tip(wire).await?, u64::MAX);
        while self.tip.receiver_count() > 0 {
            // The first time, too: what came before the reading began is not announced.
            self.tip.send_modify(|tip| *tip += 1);
            let answer: Value = redis::cmd("XREAD")
                .arg("COUNT")
                .arg(1_000)
                .arg("BLOCK")
                .arg(BLOCK.as_millis() as u64)
                .arg("STREAMS")
                .arg(EVENTS)
                .arg(&last)
                .query_async(&mut conn)
                .await?;
            if let Some(id) = last_id(&answer) {
                last = id;
            }
        }
        Ok(())
    }
}

/// `[[stream, [[id, fields], ...]]]`
fn last_id(answer: &Value) -> Option<String> {
    let Value::Array(streams) = answer else { return None };
    let Value::Array(stream) = streams.first()? else { return None };
    let Value::Array(entries) = stream.get(1)? else { return None };
    let Value::Array(entry) = entries.last()? else { return None };
    reply::text(entry.first()?).ok().map(str::to_owned)
}

impl Watcher {
    /// Goes back to `from`, which may be in the middle of an entry.
    async fn resume(&mut self, from: u64, latest: u64) -> Result<()> {
        if from > latest {
            // A revision that this server never reached was given by one that is gone.
            self.ready.push_back(Watched::Lagged);
            return Ok(());
        }
        let around = self
            .wire
            .plain(|| {
                let mut cmd = redis::cmd("XREVRANGE");
                cmd.arg(EVENTS).arg(format!("{}-{}", from + 1, u64::MAX)).arg("-").arg("COUNT").arg(1);
                cmd
            })
            .await?;
        self.at = from;
        self.cursor = match reply::array(around)?.into_iter().next() {
            Some(entry) => reply::text(&reply::exactly(entry, 2)?[0])?.to_owned(),
            None => "-".to_owned(),
        };
        self.fill().await?;
        if self.at == from {
            // The stream has forgotten all of it.
            self.ready.push_back(Watched::Lagged);
            (self.at, self.cursor) = (latest, after(latest));
        }
        Ok(())
    }

    /// Reads on from this watch's place. Says whether there may be more.
    async fn fill(&mut self) -> Result<bool> {
        let cursor = &self.cursor;
        let answer = self
            .wire
            .plain(|| {
                let mut cmd = redis::cmd("XRANGE");
                cmd.arg(EVENTS).arg(cursor).arg("+").arg("COUNT").arg(READ);
                cmd
            })
            .await?;
        let entries = reply::array(answer)?;
        let more = entries.len() == READ;
        for entry in entries {
            self.take(entry)?;
        }
        Ok(more)
    }

    fn take(&mut self, entry: Value) -> Result<()> {
        let Entry { first, last, at, lines } = Entry::read(entry)?;
        self.cursor = format!("({first}-0");
        if last <= self.at {
            return Ok(());
        }
        if first > self.at + 1 {
            self.ready.push_back(Watched::Lagged);
        }
        for event in events(first, last, at, &lines)? {
            if event.revision.get() > self.at && event.key.starts_with(&self.prefix) {
                self.ready.push_back(Watched::Event(event));
            }
        }
        self.at = last;
        Ok(())
    }
}

/// One entry of the stream: the changes of one call.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) at: Wall,
    pub(super) lines: String,
}

impl Entry {
    /// `[id, [e, events]]`, where the first line of the events is `time revisions`.
    pub(super) fn read(entry: Value) -> Result<Self> {
        let parts = reply::exactly(entry, 2)?;
        let id = reply::text(&parts[0])?;
        // Counted by a script, so far below where Rust's numbers end.
        let number = |text: &str| text.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
        let first = id.split_once('-').and_then(|(ms, _)| number(ms));
        let first = first.ok_or_else(|| strange("not a revision"))?;
        let fields = reply::array(parts.into_iter().nth(1).unwrap_or_default())?;
        let [_, text] = fields.as_slice() else { return Err(strange("not an event")) };
        let text = reply::text(text)?;
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let (at, revisions) = head.split_once(' ').ok_or_else(|| strange(head))?;
        let at = Wall::from_micros(number(at).ok_or_else(|| strange(head))?);
        let last = first + number(revisions).ok_or_else(|| strange(head))?.saturating_sub(1);
        Ok(Self { first, last, at, lines: lines.to_owned() })
    }
}

/// The events of an entry, one revision each as far as there are enough.
pub(super) fn events(first: u64, last: u64, at: Wall, lines: &str) -> Result<Vec<Event>> {
    (first..).zip(lines.lines()).map(|(n, line)| event(line, Revision::new(n.min(last)), at)).collect()
}

/// The place after a revision.
fn after(revision: u64) -> String {
    format!("({revision}-{}", u64::MAX)
}

/// A letter and `key holder generation`
pub(super) fn event(line: &str, revision: Revision, at: Wall) -> Result<Event> {
    let verb = line.as_bytes().first().and_then(|letter| match letter {
        b'+' => Some(Verb::Granted),
        b'p' => Some(Verb::Written),
        b'd' => Some(Verb::Deleted),
        end => hold::end(*end).map(Verb::Ended),
    });
    let verb = verb.ok_or_else(|| strange(line))?;
    let mut words = line.get(1..).unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default();
    let key = Key::new(word())?;
    let (holder, generation) = match verb {
        Verb::Written | Verb::Deleted => (None, None),
        Verb::Granted | Verb::Ended(_) => (Some(Holder::new(word())?), Some(reply::minted(word())?)),
    };
    Ok(Event { revision, at, key, verb, holder, generation })
}

#[async_trait]
impl Watch for Watcher {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(next);
            }
            self.tip.mark_unchanged();
            let more = self.fill().await?;
            if self.ready.is_empty() && !more && self.tip.changed().await.is_err() {
                return Err(Error::unavailable(ENGINE, "the store is closed"));
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.tower.watching.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, revisions: &str) -> Result<Entry> {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = vec![text("e"), text(&format!("1 {revisions}\n+k h 42\nrk h 42"))];
        Entry::read(Value::Array(vec![text(id), Value::Array(fields)]))
    }

    #[test]
    fn an_entry_has_revisions_that_can_be_counted() {
        let good = entry("5-0", "2").unwrap();
        assert_eq!((good.first, good.last), (5, 6));
        assert_eq!(events(good.first, good.last, good.at, &good.lines).unwrap().len(), 2);
        for (id, revisions) in
            [("5-0", "-1"), ("18446744073709551615-0", "2"), ("-1-0", "1"), ("x-0", "1"), ("5-0", "x")]
        {
            assert!(entry(id, revisions).is_err(), "{id} {revisions}");
        }
        let highest = entry("9223372036854775807-0", "9223372036854775807").unwrap();
        assert!(events(highest.first, highest.last, highest.at, &highest.lines).is_ok());
    }
}
