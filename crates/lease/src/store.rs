//! The trait that every engine implements.

use std::sync::Arc;

use async_trait::async_trait;

use crate::event::Sieve;
use crate::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Fence, Key, LogEntry, Mode, Op, Page,
    Prefix, Query, Record, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke,
    Revoked, Status, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped, limits,
};

/// Ownership: the lease verbs.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// What the engine promises.
    fn capabilities(&self) -> Capabilities;

    /// The clock of this process, on which holders keep their deadlines.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Asks for a key. Dropping the future leaves nothing held in process; over a network the caller's
    /// reaper releases by token.
    async fn acquire(&self, claim: Claim) -> Result<Acquired>;

    /// Prolongs many reigns in one round trip; one answer per item, in order. Idempotent: never creates, never
    /// revives, never moves a generation.
    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>>;

    /// Gives a key back and wakes the next in line.
    async fn release(&self, release: Release) -> Result<Released>;

    /// Hands a key to a parked successor in one step.
    async fn transfer(&self, transfer: Transfer) -> Result<Transferred>;

    /// Ends a reign by an operator's force.
    async fn revoke(&self, revoke: Revoke) -> Result<Revoked>;

    /// Says whether a token holds a key, and refreshes nothing.
    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified>;

    /// Says what a key is doing.
    async fn inspect(&self, key: &Key) -> Result<Status>;

    /// Lists the keys that are not free, ordered.
    async fn list(&self, query: &Query) -> Result<Page<Status>>;

    /// The last reigns of a key, oldest first.
    async fn history(&self, key: &Key) -> Result<Vec<Reign>>;

    /// Changes of leases and records under a prefix, after `from` or from now on.
    ///
    /// Renewals are not among them, nor what changes nothing, nor entries of logs, which are read. That the TTL of a
    /// record has ended is told by engines in this process and not by Redis: do not wait for it.
    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>>;

    /// Changes under any of these prefixes, in their order. An engine that can be asked for several at once does
    /// not wake the watcher for others.
    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let watch = self.watch(&Prefix::common(prefixes), from).await?;
        Ok(Box::new(Sieve::new(watch, prefixes)))
    }

    /// Ends every lease under a prefix, with the gate's proof checked in the same step.
    async fn wipe(&self, wipe: Wipe) -> Result<Wiped>;
}

/// Data beside the leases: the write step.
#[async_trait]
pub trait Records: Send + Sync + 'static {
    /// Performs all operations or none.
    async fn commit(&self, ops: &[Op]) -> Result<Committed>;

    /// Performs all operations or none, and none unless the fence admits them in the same step.
    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed>;

    /// Reads a record.
    async fn get(&self, key: &Key) -> Result<Option<Record>>;

    /// Lists records, ordered by key.
    async fn scan(&self, query: &Query) -> Result<Page<Record>>;

    /// Every record under a prefix, ordered by key, whoever wrote it: also what other programs put into the
    /// same server. Costs a look at every key there; what Tenure alone writes is better scanned.
    ///
    /// A record that something else overwrote may still show the revision of Tenure's last write, and what is
    /// left of a TTL is not asked for: [`Records::get`] says both exactly.
    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        let mut query = Query::new(prefix.clone());
        let mut found = Vec::new();
        loop {
            let page = self.scan(&query).await?;
            found.extend(page.items.into_iter().map(|record| Record { remaining: None, ..record }));
            if found.len() > limits::DISCOVERY {
                return Err(
                    Refusal::TooMany { what: "records under a prefix", limit: limits::DISCOVERY }.into()
                );
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Tells news, each only while its lease is live: one answer per item, in order, whether it was told. At
    /// most [`limits::BATCH`] items. Engines without listeners outside of this process only keep it.
    /// An error may come after the first of them were told. News does not give an event on every engine, and a scan may not find it.
    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        let mut told = Vec::with_capacity(items.len());
        for item in items {
            let fence = Fence { mode: Mode::Strict, ..item.fence.clone() };
            let value = item.message.clone();
            let latest = Op::Put { key: item.latest.clone(), value: value.clone(), ttl: Some(item.ttl) };
            let log = Op::Append { log: item.log.clone(), value, max_len: item.max_len };
            let committed = self.write_fenced(&fence, &[latest, log]).await?;
            told.push(matches!(committed, Committed::Written { .. }));
        }
        Ok(told)
    }

    /// Reads a log's entries after `after` (zero: from the oldest kept), at most `limit`.
    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>>;
}

/// A place where leases and records live together.
pub trait Store: Leases + Records {}

impl<T: Leases + Records> Store for T {}
