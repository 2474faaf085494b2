//! etcd's Lock service: the server queues claims in order.

use anyhow::Result;

use super::etcd::Client;

#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

impl Client {
    /// Waits for the lock and returns the key that unlocks it.
    pub(crate) async fn lock(&mut self, name: &str) -> Result<Vec<u8>> {
        let request = LockRequest { name: name.as_bytes().to_vec(), lease: self.lease };
        let answer: LockResponse = self.call("/v3lockpb.Lock/Lock", request).await?;
        Ok(answer.key)
    }

    pub(crate) async fn unlock(&mut self, key: Vec<u8>) -> Result<()> {
        let _: UnlockResponse = self.call("/v3lockpb.Lock/Unlock", UnlockRequest { key }).await?;
        Ok(())
    }
}
