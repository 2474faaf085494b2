//! Announcements: results that a lease holder publishes.

use std::sync::Arc;

use crate::{Fence, Key, Mode, Op, Ttl};

/// One message, published and stored in one step, only while its fence's lease is live.
///
/// On engines with external subscribers, `message` is published to `channel`.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The lease that permits it; checked as [`Mode::Strict`](crate::Mode::Strict) regardless of the mode of the fence.
    pub fence: Fence,
    /// The channel of external subscribers.
    pub channel: Key,
    /// The message.
    pub message: Arc<[u8]>,
    /// The record that keeps the latest message.
    pub latest: Key,
    /// The TTL of that record.
    pub ttl: Ttl,
    /// The log that keeps recent messages.
    pub log: Key,
    /// The number of log entries to keep.
    pub max_len: usize,
}

impl Announcement {
    /// The strictly fenced write that stores the message.
    pub fn fenced_write(&self) -> (Fence, [Op; 2]) {
        let fence = Fence { mode: Mode::Strict, ..self.fence.clone() };
        let value = self.message.clone();
        let latest = Op::Put { key: self.latest.clone(), value: value.clone(), ttl: Some(self.ttl) };
        (fence, [latest, Op::Append { log: self.log.clone(), value, max_len: self.max_len }])
    }
}
