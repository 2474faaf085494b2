//! Watches of the stream of events.
//!
//! One task follows the end of the stream on a connection of its own and notifies the watches. Every watch reads on from
//! its own position over the shared connection, so a slow one loses nothing until the stream is trimmed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Value};
use tenure_lease::{Error, Prefix, Result, Revision, Watch, Watched, limits};
use tokio::sync::{Notify, watch};

use super::client::{Client, backoff};
use super::fault::{ENGINE, too_many};
use super::leases::read_revision;
use super::protocol::reply;
use super::protocol::status::StreamEntry;

/// The stream of events.
const EVENTS: &str = "tenure:events";
/// Most entries read at once.
const READ_BATCH: usize = 64;
/// How long one blocking read lasts. A watch reads by itself at least this often.
const BLOCK: Duration = Duration::from_secs(2);

/// Follows the stream for all watches of an engine.
pub(super) struct EventFollower {
    /// Changes when there may be new entries.
    progress: watch::Sender<u64>,
    opened: Notify,
    watches: AtomicUsize,
}

/// One watch.
pub(super) struct EventWatch {
    client: Arc<Client>,
    follower: Arc<EventFollower>,
    progress: watch::Receiver<u64>,
    prefix: Prefix,
    /// The last revision that was read.
    last_revision: u64,
    /// Where in the stream to read on.
    cursor: String,
    ready: VecDeque<Watched>,
}

impl EventFollower {
    pub(super) fn new() -> Arc<Self> {
        let (progress, _) = watch::channel(0);
        Arc::new(Self { progress, opened: Notify::new(), watches: AtomicUsize::new(0) })
    }

    /// Opens a watch after `from`, or from now on.
    pub(super) async fn open(
        self: &Arc<Self>,
        client: &Arc<Client>,
        prefix: &Prefix,
        from: Option<Revision>,
    ) -> Result<EventWatch> {
        let latest = read_revision(client).await?;
        if self.watches.fetch_add(1, Ordering::Relaxed) >= limits::WATCHERS {
            self.watches.fetch_sub(1, Ordering::Relaxed);
            return Err(too_many("watches", limits::WATCHERS));
        }
        let mut watch = EventWatch {
            client: Arc::clone(client),
            follower: Arc::clone(self),
            progress: self.progress.subscribe(),
            prefix: prefix.clone(),
            last_revision: latest.get(),
            cursor: cursor_after(latest.get()),
            ready: VecDeque::new(),
        };
        self.opened.notify_one();
        if let Some(from) = from.filter(|from| *from != latest) {
            watch.resume(from.get(), latest.get()).await?;
        }
        Ok(watch)
    }

    /// Follows the end of the stream until it is dropped. Without watches it pauses.
    pub(super) async fn run(self: Arc<Self>, client: Arc<Client>) {
        let mut failures = 0;
        loop {
            if self.progress.receiver_count() == 0 {
                self.opened.notified().await;
                continue;
            }
            if let Err(error) = self.follow(&client).await {
                tracing::debug!(%error, "cannot follow events");
                failures += 1;
                client.clock.sleep_until(client.clock.now() + backoff(failures)).await;
            } else {
                failures = 0;
            }
        }
    }

    async fn follow(&self, client: &Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(BLOCK * 2));
        let mut conn = client.options.client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut last = format!("{}-{}", read_revision(client).await?.get(), u64::MAX);
        while self.progress.receiver_count() > 0 {
            // The first time, too: entries from before the first read are not reported.
            self.progress.send_modify(|progress| *progress += 1);
            let entries: Value = redis::cmd("XREAD")
                .arg("COUNT")
                .arg(1_000)
                .arg("BLOCK")
                .arg(BLOCK.as_millis() as u64)
                .arg("STREAMS")
                .arg(EVENTS)
                .arg(&last)
                .query_async(&mut conn)
                .await?;
            if let Some(id) = last_id(&entries) {
                last = id;
            }
        }
        Ok(())
    }
}

/// `[[stream, [[id, fields], ...]]]`
fn last_id(reply: &Value) -> Option<String> {
    let Value::Array(streams) = reply else { return None };
    let Value::Array(stream) = streams.first()? else { return None };
    let Value::Array(entries) = stream.get(1)? else { return None };
    let Value::Array(entry) = entries.last()? else { return None };
    reply::text(entry.first()?).ok().map(str::to_owned)
}

impl EventWatch {
    /// Goes back to `from`, which may be in the middle of an entry.
    async fn resume(&mut self, from: u64, latest: u64) -> Result<()> {
        if from > latest {
            // A revision that this server never reached comes from another server.
            self.ready.push_back(Watched::Lagged);
            return Ok(());
        }
        let before = self
            .client
            .read(|| {
                let mut cmd = redis::cmd("XREVRANGE");
                cmd.arg(EVENTS).arg(format!("{}-{}", from + 1, u64::MAX)).arg("-").arg("COUNT").arg(1);
                cmd
            })
            .await?;
        self.last_revision = from;
        self.cursor = match reply::elements(&before)?.first() {
            Some(entry) => reply::text(&reply::exactly(entry, 2)?[0])?.to_owned(),
            None => "-".to_owned(),
        };
        self.fill().await?;
        if self.last_revision == from {
            // The stream was trimmed beyond it.
            self.ready.push_back(Watched::Lagged);
            (self.last_revision, self.cursor) = (latest, cursor_after(latest));
        }
        Ok(())
    }

    /// Reads on from this watch's position. Returns whether there may be more.
    async fn fill(&mut self) -> Result<bool> {
        let cursor = &self.cursor;
        let value = self
            .client
            .read(|| {
                let mut cmd = redis::cmd("XRANGE");
                cmd.arg(EVENTS).arg(cursor).arg("+").arg("COUNT").arg(READ_BATCH);
                cmd
            })
            .await?;
        let entries = reply::elements(&value)?;
        for entry in entries {
            self.add_entry(&StreamEntry::decode(entry)?)?;
        }
        Ok(entries.len() == READ_BATCH)
    }

    fn add_entry(&mut self, entry: &StreamEntry) -> Result<()> {
        self.cursor = format!("({}-0", entry.first);
        if entry.last <= self.last_revision {
            return Ok(());
        }
        if entry.first > self.last_revision + 1 {
            self.ready.push_back(Watched::Lagged);
        }
        for event in entry.events()? {
            if event.revision.get() > self.last_revision && event.key.starts_with(&self.prefix) {
                self.ready.push_back(Watched::Event(event));
            }
        }
        self.last_revision = entry.last;
        Ok(())
    }
}

/// The position after a revision.
fn cursor_after(revision: u64) -> String {
    format!("({revision}-{}", u64::MAX)
}

#[async_trait]
impl Watch for EventWatch {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(next);
            }
            self.progress.mark_unchanged();
            let more = self.fill().await?;
            if self.ready.is_empty() && !more && self.progress.changed().await.is_err() {
                return Err(Error::unavailable(ENGINE, "the store is closed"));
            }
        }
    }
}

impl Drop for EventWatch {
    fn drop(&mut self) {
        self.follower.watches.fetch_sub(1, Ordering::Relaxed);
    }
}
