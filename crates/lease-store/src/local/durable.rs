//! What the engine shares with the writer, the checkpoint and the heartbeat when it has a disk.

use std::sync::atomic::AtomicBool;
#[cfg(feature = "embedded")]
use std::{sync::atomic::Ordering, time::Duration};

#[cfg(feature = "embedded")]
use tenure_lease::Tick;

#[cfg(feature = "embedded")]
use super::embedded::Heartbeat;
use crate::sync::{AtomicU64, Condvar, Mutex, Notify};

/// The durable half of an engine.
pub(crate) struct DurableState {
    #[cfg(feature = "embedded")]
    heartbeat: Mutex<Heartbeat>,
    /// Wakes the writer.
    pub(crate) wake: Condvar,
    /// Wakes the checkpoint thread when the store is closed.
    pub(crate) closing: Condvar,
    /// When the heartbeat was last written, in nanoseconds.
    pub(crate) last_heartbeat: AtomicU64,
    /// Bytes that fit into the journal before the next checkpoint completes.
    pub(crate) room: AtomicU64,
    /// The largest room that there can be.
    pub(crate) capacity: u64,
    /// Notified when room was freed, and when the store failed.
    pub(crate) room_freed: Notify,
    /// The last revision that is on disk.
    pub(crate) synced_revision: AtomicU64,
    /// A longer TTL is being written.
    pub(crate) raising_ttl: AtomicBool,
    /// Why checkpoints fail, if they do: then waiting for room is pointless.
    pub(crate) checkpoint_error: Mutex<Option<String>>,
}

#[cfg(feature = "embedded")]
impl DurableState {
    pub(crate) fn new(heartbeat: Heartbeat, last_heartbeat: Tick, capacity: u64) -> Self {
        Self {
            heartbeat: Mutex::new(heartbeat),
            wake: Condvar::new(),
            closing: Condvar::new(),
            last_heartbeat: AtomicU64::new(last_heartbeat.as_nanos()),
            room: AtomicU64::new(capacity),
            capacity,
            room_freed: Notify::new(),
            synced_revision: AtomicU64::new(0),
            raising_ttl: AtomicBool::new(false),
            checkpoint_error: Mutex::new(None),
        }
    }

    /// Writes a heartbeat if the last one is older than `age`.
    pub(crate) fn write_heartbeat(&self, now: Tick, age: Duration) -> std::io::Result<()> {
        if now.since(Tick::from_nanos(self.last_heartbeat.load(Ordering::Acquire))) > age {
            self.heartbeat.lock().write(now)?;
            self.last_heartbeat.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
        Ok(())
    }

    /// Records that a sync of the base has failed.
    pub(crate) fn mark_base_unsynced(&self) -> std::io::Result<()> {
        self.heartbeat.lock().mark_base_unsynced()
    }
}
