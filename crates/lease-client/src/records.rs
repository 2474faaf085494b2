//! Records and logs as calls.

use async_trait::async_trait;
use tenure_lease::{
    Announcement, Committed, Error, Fence, Key, LogEntry, Op, Page, Prefix, Query, Record, Records, Refusal,
    Result, limits,
};
use tenure_lease_wire::{ENGINE, proto};

use crate::call::Retry;
use crate::error::CallError;
use crate::{Client, ClientState};

impl ClientState {
    async fn commit(&self, fence: Option<&Fence>, ops: &[Op]) -> Result<Committed> {
        // Checked here because the server would not read a message that is too large.
        Op::check(ops)?;
        let request =
            proto::CommitRequest { fence: fence.map(Into::into), ops: ops.iter().map(Into::into).collect() };
        let send = || async {
            let request = self.headers.request(request.clone());
            Ok(self.records.clone().commit(request).await?.into_inner())
        };
        self.call(Retry::IfNotSent, send).await?.try_into()
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        let request = proto::AnnounceRequest { items: items.iter().map(Into::into).collect() };
        let send = || async {
            let request = self.headers.request(request.clone());
            Ok(self.records.clone().announce(request).await?.into_inner())
        };
        let published = self.call(Retry::IfNotSent, send).await?.published;
        if published.len() != items.len() {
            return Err(Error::unknown(ENGINE, "unexpected response: not one result per announcement"));
        }
        Ok(published)
    }
}

/// The largest encoding of an announcement without its message.
const ANNOUNCEMENT_OVERHEAD: usize = 4 * limits::KEY + 256;

/// How many of these announcements one call carries; at least one.
fn count_fitting(items: &[Announcement]) -> usize {
    let mut sum = 0;
    let fits = items.iter().take_while(|item| {
        sum += item.message.len() + ANNOUNCEMENT_OVERHEAD;
        sum <= limits::COMMIT
    });
    fits.count().max(1)
}

#[async_trait]
impl Records for Client {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.0.commit(None, ops).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        self.0.commit(Some(fence), ops).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let state = &*self.0;
        let send = || async {
            let request = proto::GetRequest { key: key.as_str().into() };
            Ok(state.records.clone().get(state.headers.request(request)).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.record.map(Record::try_from).transpose()
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        let state = &*self.0;
        let send = || async {
            let request = state.headers.request(query.into());
            Ok(state.records.clone().scan(request).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.try_into()
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        let state = &*self.0;
        let send = || async {
            let request = state.headers.request(proto::DiscoverRequest { prefix: prefix.as_str().into() });
            let mut pages = state.records.clone().discover(request).await?.into_inner();
            let mut records = Vec::new();
            while let Some(page) = pages.message().await? {
                records.extend(page.items);
                if records.len() > limits::DISCOVERY {
                    let too_many =
                        Refusal::TooMany { what: "records under a prefix", limit: limits::DISCOVERY };
                    return Err(CallError::Rejected(too_many.into()));
                }
            }
            Ok(records)
        };
        let records = state.call(Retry::IfLost, send).await?;
        records.into_iter().map(Record::try_from).collect()
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        if items.len() > limits::BATCH {
            return Err(Refusal::TooMany { what: "announcements in one call", limit: limits::BATCH }.into());
        }
        let mut published = Vec::with_capacity(items.len());
        let mut left = items;
        while !left.is_empty() {
            let (batch, rest) = left.split_at(count_fitting(left));
            published.extend(self.0.announce(batch).await?);
            left = rest;
        }
        Ok(published)
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let state = &*self.0;
        let mut entries: Vec<LogEntry> = Vec::new();
        loop {
            let request = proto::ReadLogRequest {
                log: log.as_str().into(),
                after: entries.last().map_or(after, |last| last.seq),
                limit: u32::try_from(limit.saturating_sub(entries.len())).unwrap_or(u32::MAX),
            };
            let send = || async {
                let request = state.headers.request(request.clone());
                Ok(state.records.clone().read_log(request).await?.into_inner())
            };
            let response = state.call(Retry::IfLost, send).await?;
            let end = !response.more || response.entries.is_empty();
            entries.extend(response.entries.into_iter().map(LogEntry::from));
            if end || entries.len() >= limit {
                return Ok(entries);
            }
        }
    }
}
