//! News about what a lease allows to speak for.

use std::sync::Arc;

use crate::{Fence, Key, Ttl};

/// One piece of news, told and kept only while its fence's lease is live, in one step.
///
/// Whoever listens to `channel` outside of this process hears `message`, on engines that have listeners.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The lease that allows it; checked as [`Mode::Strict`](crate::Mode::Strict) whatever the fence says.
    pub fence: Fence,
    /// Whom to tell.
    pub channel: Key,
    /// What.
    pub message: Arc<[u8]>,
    /// The record that always has the last one.
    pub latest: Key,
    /// When to forget that.
    pub ttl: Ttl,
    /// The log that has the last few.
    pub log: Key,
    /// How many those are.
    pub max_len: usize,
}
