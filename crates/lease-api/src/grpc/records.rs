//! Records, logs and the write step.

use std::sync::Arc;

use lease::{Fence, Key, Op, Page, Query, Record};
use service::Level;
use tonic::{Request, Response, Status};

use super::rights::Rights;
use crate::site::Site;
use crate::trouble::Trouble;
use crate::wire::records_server::Records;
use crate::wire::{self, *};

/// What the values of one answer may take together; more is left for the next page.
const PAGE: usize = 4 << 20;

pub(super) struct Service {
    site: Arc<Site>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }

    async fn write(&self, request: Request<CommitRequest>) -> Result<lease::Committed, Trouble> {
        let rights = Rights::check(&request, Level::Write)?;
        let asked = request.into_inner();
        let fence = asked.fence.map(Fence::try_from).transpose()?;
        let ops = asked.ops.into_iter().map(Op::try_from).collect::<lease::Result<Vec<_>>>()?;
        for op in &ops {
            rights.key(op.key())?;
        }
        let store = &self.site.store;
        Ok(match fence {
            Some(fence) => store.write_fenced(&fence, &ops).await?,
            None => store.commit(&ops).await?,
        })
    }

    async fn read(&self, request: Request<GetRequest>) -> Result<Option<Record>, Trouble> {
        let rights = Rights::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key)?;
        match rights.reads(&key) {
            true => Ok(self.site.store.get(&key).await?),
            false => Ok(None),
        }
    }

    async fn page(&self, request: Request<wire::Query>) -> Result<Page<Record>, Trouble> {
        let rights = Rights::check(&request, Level::Read)?;
        let query = Query::try_from(request.into_inner())?;
        let mut page = self.site.store.scan(&query).await?;
        let kept = fitting(page.items.iter().map(|record| record.value.len()));
        if kept < page.items.len() {
            page.items.truncate(kept);
            page.next = page.items.last().map(|record| record.key.clone());
        }
        page.items.retain(|record| rights.reads(&record.key));
        Ok(page)
    }

    async fn entries(&self, request: Request<ReadLogRequest>) -> Result<ReadLogResponse, Trouble> {
        let rights = Rights::check(&request, Level::Read)?;
        let asked = request.into_inner();
        let log = Key::new(asked.log)?;
        if !rights.reads(&log) {
            return Ok(ReadLogResponse::default());
        }
        // No log has so many entries, and a store may add one.
        let after = asked.after.min(u64::MAX - 1);
        let mut entries = self.site.store.read_log(&log, after, asked.limit as usize).await?;
        let kept = fitting(entries.iter().map(|entry| entry.value.len()));
        let more = kept < entries.len();
        entries.truncate(kept);
        Ok(ReadLogResponse { entries: entries.into_iter().map(Into::into).collect(), more })
    }
}

/// How many of these sizes one answer takes; never none.
fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    sizes
        .enumerate()
        .take_while(|(index, size)| {
            sum += size;
            *index == 0 || sum <= PAGE
        })
        .count()
}

#[tonic::async_trait]
impl Records for Service {
    async fn commit(&self, request: Request<CommitRequest>) -> Answer<CommitResponse> {
        Ok(Response::new(self.write(request).await?.into()))
    }

    async fn get(&self, request: Request<GetRequest>) -> Answer<GetResponse> {
        Ok(Response::new(GetResponse { record: self.read(request).await?.map(Into::into) }))
    }

    async fn scan(&self, request: Request<wire::Query>) -> Answer<ScanResponse> {
        Ok(Response::new(self.page(request).await?.into()))
    }

    async fn read_log(&self, request: Request<ReadLogRequest>) -> Answer<ReadLogResponse> {
        Ok(Response::new(self.entries(request).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_at_least_one_value_and_is_cut_by_size() {
        assert_eq!(fitting([].into_iter()), 0);
        assert_eq!(fitting([PAGE * 2, 1].into_iter()), 1);
        assert_eq!(fitting([PAGE / 2, PAGE / 2, 1].into_iter()), 2);
        assert_eq!(fitting([1, 1, 1].into_iter()), 3);
    }
}
