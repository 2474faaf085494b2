//! Records and logs, as calls.

use async_trait::async_trait;
use lease::{Committed, Fence, Key, LogEntry, Op, Page, Query, Record, Records, Result};

use super::call::Again;
use super::{Client, Inner};
use crate::wire;

impl Inner {
    async fn commit(&self, fence: Option<&Fence>, ops: &[Op]) -> Result<Committed> {
        // What is too large is refused here: the server would not even read it.
        Op::check(ops)?;
        let asked =
            wire::CommitRequest { fence: fence.map(Into::into), ops: ops.iter().map(Into::into).collect() };
        let send = || async {
            let request = self.bearer.on(asked.clone());
            Ok(self.records.clone().commit(request).await?.into_inner())
        };
        self.call(Again::No, send).await?.try_into()
    }
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
        let inner = &*self.0;
        let send = || async {
            let asked = wire::GetRequest { key: key.as_str().into() };
            Ok(inner.records.clone().get(inner.bearer.on(asked)).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.record.map(Record::try_from).transpose()
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        let inner = &*self.0;
        let send = || async {
            let request = inner.bearer.on(query.into());
            Ok(inner.records.clone().scan(request).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.try_into()
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let inner = &*self.0;
        let mut entries: Vec<LogEntry> = Vec::new();
        loop {
            let asked = wire::ReadLogRequest {
                log: log.as_str().into(),
                after: entries.last().map_or(after, |last| last.seq),
                limit: u32::try_from(limit.saturating_sub(entries.len())).unwrap_or(u32::MAX),
            };
            let send = || async {
                let request = inner.bearer.on(asked.clone());
                Ok(inner.records.clone().read_log(request).await?.into_inner())
            };
            let answer = inner.call(Again::Yes, send).await?;
            let end = !answer.more || answer.entries.is_empty();
            entries.extend(answer.entries.into_iter().map(LogEntry::from));
            if end || entries.len() >= limit {
                return Ok(entries);
            }
        }
    }
}
