//! The trait that every engine implements.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Fence, Key, LogEntry, Op, Page, Prefix,
    Query, Record, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked,
    Status, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped, limits,
};

/// Ownership: the lease verbs. No method has a default; see [`fallback`].
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// What the engine promises.
    fn capabilities(&self) -> Capabilities;

    /// What the operator of the store should know about how it is run, a sentence each: what an explicit override
    /// accepted, or what its server may lose. Empty where nothing is wrong. It changes with the settings of a server.
    fn warnings(&self) -> Vec<String>;

    /// The clock of this process, on which holders keep their deadlines.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Acquires a key. Dropping the future leaves nothing held in process; over a network the caller's
    /// reaper releases by token.
    async fn acquire(&self, claim: Claim) -> Result<Acquired>;

    /// Extends many reigns in one round trip; one result per item, in order, so that one failure does not become the
    /// failure of all. An error of the whole call concerns every item. Idempotent: never creates, never revives, never
    /// moves a generation.
    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>>;

    /// Releases a key and grants it to the next waiter.
    async fn release(&self, release: Release) -> Result<Released>;

    /// Hands a key to a parked successor in one step.
    async fn transfer(&self, transfer: Transfer) -> Result<Transferred>;

    /// Ends a reign on behalf of an operator.
    async fn revoke(&self, revoke: Revoke) -> Result<Revoked>;

    /// Checks whether a token holds a key, without refreshing it.
    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified>;

    /// The current state of a key.
    async fn inspect(&self, key: &Key) -> Result<Status>;

    /// Lists the keys that are not free, ordered.
    async fn list(&self, query: &Query) -> Result<Page<Status>>;

    /// The last reigns of a key, oldest first.
    async fn history(&self, key: &Key) -> Result<Vec<Reign>>;

    /// Changes of leases and records under a prefix, after `from` or from now on.
    ///
    /// Renewals, calls without effect and log entries emit no event. In-process engines emit one when the TTL of a
    /// record ends, Redis does not: do not wait for it.
    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>>;

    /// Changes under any of these prefixes, in order. [`fallback::watch_any`] filters a watch of their common prefix,
    /// for engines that cannot watch several at once.
    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>>;

    /// Ends every lease under a prefix, with the gate's proof checked in the same step.
    async fn wipe(&self, wipe: Wipe) -> Result<Wiped>;
}

/// Data beside the leases, written atomically and optionally under a fence. No method has a default; see [`fallback`].
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

    /// Every record under a prefix, ordered by key, including those that other programs wrote to the same server.
    /// It reads every key there, so prefer [`Records::scan`] for records that only Tenure writes.
    ///
    /// A record that another program overwrote may still have the revision of Tenure's last write, and `remaining` is
    /// not filled in: [`Records::get`] has both exactly. [`fallback::discover`] is for engines that other programs
    /// cannot write to.
    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>>;

    /// Publishes announcements, each only while its lease is live. Returns for every item, in order, whether it was
    /// published. At most [`limits::BATCH`] items. After an error, the first items may have been published.
    ///
    /// Not every engine emits an event for an announcement, and a scan may not find it. [`fallback::announce`] is for
    /// engines without subscribers outside of this process: it only stores the message.
    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>>;

    /// Reads a log's entries after `after` (zero: from the oldest kept), at most `limit`.
    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>>;
}

/// Leases and records in one place.
pub trait Store: Leases + Records {}

impl<T: Leases + Records> Store for T {}

/// Verbs expressed by other verbs, for engines that have nothing better. No trait method has a default, so that an
/// engine or a network client cannot miss one unnoticed.
pub mod fallback {
    use super::*;
    use crate::event::PrefixFilter;

    /// [`Leases::watch_any`] as a filtered watch of the common prefix.
    pub async fn watch_any(
        leases: &dyn Leases,
        prefixes: &[Prefix],
        from: Option<Revision>,
    ) -> Result<Box<dyn Watch>> {
        let watch = leases.watch(&Prefix::common(prefixes), from).await?;
        Ok(Box::new(PrefixFilter::new(watch, prefixes)))
    }

    /// [`Records::discover`] as a scan of all pages.
    pub async fn discover(records: &dyn Records, prefix: &Prefix) -> Result<Vec<Record>> {
        let mut query = Query::new(prefix.clone());
        let mut found = Vec::new();
        loop {
            let page = records.scan(&query).await?;
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

    /// [`Records::announce`] as one strictly fenced write per item.
    pub async fn announce(records: &dyn Records, items: &[Announcement]) -> Result<Vec<bool>> {
        if items.len() > limits::BATCH {
            return Err(Refusal::TooMany { what: "announcements in one call", limit: limits::BATCH }.into());
        }
        let mut published = Vec::with_capacity(items.len());
        for item in items {
            let (fence, ops) = item.fenced_write();
            let committed = records.write_fenced(&fence, &ops).await?;
            published.push(matches!(committed, Committed::Written { .. }));
        }
        Ok(published)
    }
}
