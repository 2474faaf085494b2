//! Connections for calls that stay open: waiting claims and watches.
//!
//! Servers limit the concurrent calls of a connection. Calls that wait for hours must not exhaust that limit for the
//! calls that would end their wait, so they have connections of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_lease::Result;
use tonic::transport::Channel;

use crate::address::Address;
use crate::options::ClientOptions;

const CHANNELS: usize = 8;
/// Calls on one channel before the next one is used; hyper's servers accept 200 by default.
const CALLS_PER_CHANNEL: usize = 100;

/// A few channels that connect when they are first used.
pub(crate) struct ChannelPool(Box<[Arc<PoolEntry>]>);

struct PoolEntry {
    channel: Channel,
    calls: AtomicUsize,
}

/// A channel with one more call on it, until dropped.
pub(crate) struct PooledChannel(Arc<PoolEntry>);

impl ChannelPool {
    pub(crate) fn new(options: &ClientOptions, address: &Address) -> Result<Self> {
        let entry =
            |_| Ok(Arc::new(PoolEntry { channel: options.channel(address)?, calls: AtomicUsize::new(0) }));
        (0..CHANNELS).map(entry).collect::<Result<_>>().map(Self)
    }

    /// The first channel with capacity, or the least used one.
    pub(crate) fn take(&self) -> PooledChannel {
        let calls = |entry: &Arc<PoolEntry>| entry.calls.load(Ordering::Relaxed);
        let free = self.0.iter().find(|entry| calls(entry) < CALLS_PER_CHANNEL);
        let entry = free.or_else(|| self.0.iter().min_by_key(|entry| calls(entry))).unwrap_or(&self.0[0]);
        entry.calls.fetch_add(1, Ordering::Relaxed);
        PooledChannel(entry.clone())
    }
}

impl PooledChannel {
    pub(crate) fn channel(&self) -> Channel {
        self.0.channel.clone()
    }
}

impl Drop for PooledChannel {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
