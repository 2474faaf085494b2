//! The two directions through the proxy.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use super::trap::Traps;
use super::{Direction, Mode};

/// The state shared by all connections.
pub(super) struct Shared {
    pub(super) upstream: Mutex<SocketAddr>,
    to_server: Lane,
    to_client: Lane,
    pub(super) traps: Traps,
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicU64,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream: Mutex::new(upstream),
            to_server: Lane::new(),
            to_client: Lane::new(),
            traps: Traps::default(),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
        }
    }

    pub(super) fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

/// One direction: its mode and counters.
pub(super) struct Lane {
    pub(super) mode: watch::Sender<Mode>,
    pub(super) received: AtomicU64,
    pub(super) forwarded: AtomicU64,
    pub(super) discarded: AtomicU64,
}

impl Lane {
    fn new() -> Self {
        Self {
            mode: watch::Sender::new(Mode::Pass),
            received: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            discarded: AtomicU64::new(0),
        }
    }
}
