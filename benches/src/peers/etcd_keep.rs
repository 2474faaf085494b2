//! etcd's keep-alive stream: one message per lease, with a window of messages in flight.

use anyhow::{Context, Result, ensure};
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use super::etcd::{Client, ResponseHeader};
use crate::callers::Batches;
use crate::clock::Until;

/// Messages in flight on one stream.
const WINDOW: usize = 256;

#[derive(Clone, PartialEq, prost::Message)]
struct KeepAliveRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeepAliveResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

impl Client {
    /// Grants leases.
    pub(crate) async fn grant_all(&self, count: usize) -> Result<Vec<i64>> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let asks = (ids.len()..count.min(ids.len() + 500)).map(|_| {
                let mut client = self.clone();
                async move { client.grant().await }
            });
            ids.extend(futures_util::future::try_join_all(asks).await?);
        }
        Ok(ids)
    }

    /// Keeps leases alive over one stream until the slice is over.
    pub(crate) async fn keep_alive(mut self, ids: &[i64], place: &Batches, until: Until) -> Result<u64> {
        let (asking, mut asked) = mpsc::channel::<KeepAliveRequest>(WINDOW);
        // The server sends no headers before it has received the first message.
        asking.send(KeepAliveRequest { id: place.next(ids)[0] }).await.context("the stream is closed")?;
        self.grpc.ready().await.context("etcd is not ready")?;
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let questions = stream::poll_fn(move |context| asked.poll_recv(context));
        let codec = ProstCodec::<KeepAliveRequest, KeepAliveResponse>::default();
        let mut answers =
            self.grpc.streaming(tonic::Request::new(questions), path, codec).await?.into_inner();
        let (mut under_way, mut done) = (1, 0);
        loop {
            while under_way < WINDOW && !until.over() {
                let id = place.next(ids)[0];
                asking.send(KeepAliveRequest { id }).await.context("the stream is closed")?;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(done);
            }
            let answer = answers.message().await?.context("the stream ended")?;
            ensure!(answer.ttl > 0, "lease {} was lost", answer.id);
            under_way -= 1;
            done += 1;
        }
    }
}
