//! The keep-alive streams of a client: one, and a second under load.
//!
//! All requests on one connection share one thread at either end, and callers that are answered together send together.
//! With a second connection both ends have work for two threads, and some requests wait for the disk while others travel.

use std::sync::OnceLock;

use tenure_executor::ConnectionExecutor;
use tenure_lease::Result;
use tenure_lease_wire::MAX_MESSAGE_BYTES;
use tenure_lease_wire::proto::leases_client::LeasesClient;

use crate::address::Address;
use crate::headers::RequestHeaders;
use crate::keep_alive::KeepAliveStream;
use crate::options::ClientOptions;

/// Requests on the first stream before the second one is used.
const FIRST_STREAM_LOAD: usize = 32;

/// The first stream, which renewals and waiting claims always use, and a second one that is opened when needed.
pub(crate) struct KeepAlivePool {
    pub(crate) first: KeepAliveStream,
    second: OnceLock<Option<KeepAliveStream>>,
    options: ClientOptions,
    address: Address,
    headers: RequestHeaders,
}

impl KeepAlivePool {
    pub(crate) fn new(
        first: KeepAliveStream,
        options: ClientOptions,
        address: Address,
        headers: RequestHeaders,
    ) -> Self {
        Self { first, second: OnceLock::new(), options, address, headers }
    }

    /// The first stream while its load is low, then the less loaded one.
    pub(crate) fn least_busy(&self) -> &KeepAliveStream {
        let load = self.first.load();
        if load < FIRST_STREAM_LOAD {
            return &self.first;
        }
        // If the second one cannot be started, the first one serves alone.
        match self.second.get_or_init(|| self.start_second().ok()) {
            Some(second) if second.load() < load => second,
            _ => &self.first,
        }
    }

    fn start_second(&self) -> Result<KeepAliveStream> {
        let executor = ConnectionExecutor::default();
        let channel = self.options.channel_on(executor.clone(), &self.address)?;
        let leases = LeasesClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(KeepAliveStream::start(leases, self.headers.clone(), executor))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures_util::poll;
    use tenure_lease_wire::proto::ReleaseRequest;

    use super::*;

    /// Streams to a server that never responds.
    fn pool(server: &TcpListener) -> KeepAlivePool {
        let address = Address::parse(&format!("tenure://{}", server.local_addr().unwrap())).unwrap();
        let (options, headers) = (ClientOptions::default(), RequestHeaders::default());
        let executor = ConnectionExecutor::default();
        let leases = LeasesClient::new(options.channel_on(executor.clone(), &address).unwrap());
        let first = KeepAliveStream::start(leases, headers.clone(), executor);
        KeepAlivePool::new(first, options, address, headers)
    }

    #[tokio::test]
    async fn requests_share_a_stream_until_its_load_is_high_and_then_use_the_less_loaded_one() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = pool(&server);
        let mut on_first = Vec::new();
        for _ in 0..FIRST_STREAM_LOAD {
            assert!(std::ptr::eq(pool.least_busy(), &pool.first), "{} are few", on_first.len());
            on_first.push(Box::pin(pool.first.release(ReleaseRequest::default())));
            assert!(poll!(on_first.last_mut().unwrap()).is_pending());
        }
        let second = pool.least_busy();
        assert!(!std::ptr::eq(second, &pool.first));
        let mut on_second = Vec::new();
        for _ in 0..FIRST_STREAM_LOAD {
            assert!(std::ptr::eq(pool.least_busy(), second));
            on_second.push(Box::pin(second.release(ReleaseRequest::default())));
            assert!(poll!(on_second.last_mut().unwrap()).is_pending());
        }
        assert!(std::ptr::eq(pool.least_busy(), &pool.first), "both have the same load");
        drop(on_first);
        assert!(std::ptr::eq(pool.least_busy(), &pool.first), "the first one is idle again");
    }

    #[tokio::test]
    async fn a_waiting_claim_does_not_count_as_load() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = pool(&server);
        let mut waiting: Vec<_> = (0..FIRST_STREAM_LOAD)
            .map(|_| {
                Box::pin(pool.first.acquire_waiting(pool.first.waiter_permit().unwrap(), Default::default()))
            })
            .collect();
        for claim in &mut waiting {
            assert!(poll!(claim).is_pending());
        }
        assert_eq!(pool.first.load(), 0);
    }
}
