//! Records, logs, commits and announcements.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tenure_lease::{Announcement, Fence, Key, Op, Page, Prefix, Query, Record};
use tenure_service::Level;
use tonic::{Request, Response, Status};

use super::access::Access;
use crate::error::ApiError;
use crate::service::LeaseService;
use tenure_lease_wire::proto::records_server::Records;
use tenure_lease_wire::proto::{self, *};

/// Most bytes of values in one response; the rest is left for the next page.
const PAGE_BYTES: usize = 4 << 20;

pub(super) struct RecordsRpc {
    service: Arc<LeaseService>,
}

type RpcResult<T> = Result<Response<T>, Status>;
type RpcStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl RecordsRpc {
    pub(super) const fn new(service: Arc<LeaseService>) -> Self {
        Self { service }
    }

    async fn checked_commit(
        &self,
        request: Request<CommitRequest>,
    ) -> Result<tenure_lease::Committed, ApiError> {
        let access = Access::check(&request, Level::Write)?;
        let request = request.into_inner();
        let fence = request.fence.map(Fence::try_from).transpose()?;
        let ops = request.ops.into_iter().map(Op::try_from).collect::<tenure_lease::Result<Vec<_>>>()?;
        for op in &ops {
            access.require_key(op.key())?;
        }
        let keyspace = access.keyspace(&self.service);
        let ops =
            ops.into_iter().map(|op| keyspace.operation(op)).collect::<tenure_lease::Result<Vec<_>>>()?;
        let Some(fence) = fence else { return Ok(self.service.store.commit(&ops).await?) };
        access.require_key(&fence.key)?;
        Ok(self.service.store.write_fenced(&fence, &ops).await?)
    }

    async fn read_record(&self, request: Request<GetRequest>) -> Result<Option<Record>, ApiError> {
        let access = Access::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key)?;
        if !access.may_read(&key) {
            return Ok(None);
        }
        let keyspace = access.keyspace(&self.service);
        let found = self.service.store.get(&keyspace.stored(&key)?).await?;
        Ok(found.and_then(|record| keyspace.record(record)))
    }

    async fn read_page(&self, request: Request<proto::Query>) -> Result<Page<Record>, ApiError> {
        let access = Access::check(&request, Level::Read)?;
        let keyspace = access.keyspace(&self.service);
        let query = keyspace.query(Query::try_from(request.into_inner())?)?;
        let mut page = self.service.store.scan(&query).await?;
        let kept = count_fitting(page.items.iter().map(|record| record.value.len()));
        if kept < page.items.len() {
            page.items.truncate(kept);
            page.next = page.items.last().map(|record| record.key.clone());
        }
        let mut page = keyspace.page(page);
        page.items.retain(|record| access.may_read(&record.key));
        Ok(page)
    }

    /// Needs the admin scope, because it reads keys of other programs and of Tenure's own services.
    async fn discover_records(&self, request: Request<DiscoverRequest>) -> Result<Vec<Record>, ApiError> {
        Access::check(&request, Level::Admin)?;
        let prefix = Prefix::new(request.into_inner().prefix)?;
        Ok(self.service.store.discover(&prefix).await?)
    }

    async fn checked_announce(&self, request: Request<AnnounceRequest>) -> Result<Vec<bool>, ApiError> {
        let access = Access::check(&request, Level::Write)?;
        let mut items = Vec::new();
        for item in request.into_inner().items {
            let item = Announcement::try_from(item)?;
            for key in [&item.fence.key, &item.channel, &item.latest, &item.log] {
                access.require_key(key)?;
            }
            items.push(access.keyspace(&self.service).announcement(item)?);
        }
        Ok(self.service.store.announce(&items).await?)
    }

    async fn read_entries(&self, request: Request<ReadLogRequest>) -> Result<ReadLogResponse, ApiError> {
        let access = Access::check(&request, Level::Read)?;
        let request = request.into_inner();
        let log = Key::new(request.log)?;
        if !access.may_read(&log) {
            return Ok(ReadLogResponse::default());
        }
        // Stores may add one to it.
        let after = request.after.min(u64::MAX - 1);
        let log = access.keyspace(&self.service).stored(&log)?;
        let mut entries = self.service.store.read_log(&log, after, request.limit as usize).await?;
        let kept = count_fitting(entries.iter().map(|entry| entry.value.len()));
        let more = kept < entries.len();
        entries.truncate(kept);
        Ok(ReadLogResponse { entries: entries.into_iter().map(Into::into).collect(), more })
    }
}

/// The records in messages of limited size.
fn split_pages(records: Vec<Record>) -> impl Iterator<Item = DiscoverResponse> {
    let mut left = records.into_iter();
    std::iter::from_fn(move || {
        let count = count_fitting(
            left.as_slice().iter().map(|record| record.key.as_str().len() + record.value.len()),
        );
        let items: Vec<_> = left.by_ref().take(count).map(Into::into).collect();
        (!items.is_empty()).then_some(DiscoverResponse { items })
    })
}

/// How many values of these sizes fit into one response; at least one.
fn count_fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    sizes
        .enumerate()
        .take_while(|(index, size)| {
            sum += size;
            *index == 0 || sum <= PAGE_BYTES
        })
        .count()
}

#[tonic::async_trait]
impl Records for RecordsRpc {
    type DiscoverStream = RpcStream<DiscoverResponse>;

    async fn commit(&self, request: Request<CommitRequest>) -> RpcResult<CommitResponse> {
        Ok(Response::new(self.checked_commit(request).await?.into()))
    }

    async fn get(&self, request: Request<GetRequest>) -> RpcResult<GetResponse> {
        Ok(Response::new(GetResponse { record: self.read_record(request).await?.map(Into::into) }))
    }

    async fn scan(&self, request: Request<proto::Query>) -> RpcResult<ScanResponse> {
        Ok(Response::new(self.read_page(request).await?.into()))
    }

    async fn discover(&self, request: Request<DiscoverRequest>) -> RpcResult<Self::DiscoverStream> {
        let pages = split_pages(self.discover_records(request).await?);
        Ok(Response::new(stream::iter(pages.map(Ok)).boxed()))
    }

    async fn announce(&self, request: Request<AnnounceRequest>) -> RpcResult<AnnounceResponse> {
        Ok(Response::new(AnnounceResponse { published: self.checked_announce(request).await? }))
    }

    async fn read_log(&self, request: Request<ReadLogRequest>) -> RpcResult<ReadLogResponse> {
        Ok(Response::new(self.read_entries(request).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_at_least_one_value_and_a_limited_size() {
        assert_eq!(count_fitting([].into_iter()), 0);
        assert_eq!(count_fitting([PAGE_BYTES * 2, 1].into_iter()), 1);
        assert_eq!(count_fitting([PAGE_BYTES / 2, PAGE_BYTES / 2, 1].into_iter()), 2);
        assert_eq!(count_fitting([1, 1, 1].into_iter()), 3);
    }
}
