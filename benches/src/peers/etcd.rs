//! etcd: a lease granted once per client, then a key created and deleted in transactions.
//!
//! The few messages are defined here, with the field numbers of etcd's `rpc.proto`.

use anyhow::{Context, Result, ensure};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::clock::Until;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    /// 0 means equal.
    #[prost(int32, tag = "1")]
    result: i32,
    /// 1 means the revision of creation.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    /// Optional, so that a zero is sent as well.
    #[prost(int64, optional, tag = "5")]
    create_revision: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(oneof = "Request", tags = "2, 3")]
    request: Option<Request>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Request {
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

/// A client with a lease.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) grpc: Grpc<Channel>,
    pub(super) lease: i64,
    key: Vec<u8>,
}

/// `count` clients over `connections` connections.
pub(crate) async fn clients(endpoint: &str, count: usize, connections: usize) -> Result<Vec<Client>> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(Endpoint::from_shared(endpoint.to_owned())?.tcp_nodelay(true).connect().await?);
    }
    let mut clients = Vec::new();
    for me in 0..count {
        let grpc = Grpc::new(channels[me % connections].clone());
        let key = format!("cycle/{connections}/{me}").into_bytes();
        let mut client = Client { grpc, lease: 0, key };
        client.lease = client.grant().await?;
        clients.push(client);
    }
    Ok(clients)
}

impl Client {
    /// A lease of an hour.
    pub(super) async fn grant(&mut self) -> Result<i64> {
        let request = LeaseGrantRequest { ttl: 3_600, id: 0 };
        let granted: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        Ok(granted.id)
    }

    pub(super) async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.grpc.ready().await.context("etcd is not ready")?;
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, A>::default();
        Ok(self.grpc.unary(tonic::Request::new(request), path, codec).await?.into_inner())
    }

    /// Performs `then` if the key was created at `revision`; 0 means that it does not exist.
    async fn txn(&mut self, revision: i64, then: Request) -> Result<i64> {
        let compare =
            Compare { result: 0, target: 1, key: self.key.clone(), create_revision: Some(revision) };
        let success = vec![RequestOp { request: Some(then) }];
        let request = TxnRequest { compare: vec![compare], success };
        let answer: TxnResponse = self.call("/etcdserverpb.KV/Txn", request).await?;
        ensure!(answer.succeeded, "the condition of the transaction failed");
        Ok(answer.header.context("a response without a header")?.revision)
    }

    /// Acquires and releases until the slice is over.
    pub(crate) async fn cycles(mut self, until: Until) -> Result<u64> {
        let mut done = 0;
        while !until.over() {
            let put = PutRequest { key: self.key.clone(), value: b"caller".to_vec(), lease: self.lease };
            let created = self.txn(0, Request::Put(put)).await?;
            let delete = DeleteRangeRequest { key: self.key.clone() };
            self.txn(created, Request::Delete(delete)).await?;
            done += 1;
        }
        Ok(done)
    }
}
