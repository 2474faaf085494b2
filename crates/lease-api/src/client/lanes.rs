//! Connections for calls that stay open: claims that wait, and watches.
//!
//! Servers bound the calls under way on one connection. Calls that wait for hours must not use up that bound
//! before the calls that would end their wait, so they have connections of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lease::Result;
use tonic::transport::Channel;

use super::address::Address;
use super::dial::Dial;

const LANES: usize = 8;
/// Calls on one connection before the next one is used; hyper's servers take 200 unless told otherwise.
const COMFORTABLE: usize = 100;

/// A few connections, made when they are needed.
pub(super) struct Lanes(Box<[Arc<Lane>]>);

struct Lane {
    channel: Channel,
    open: AtomicUsize,
}

/// A connection with one more call on it, until dropped.
pub(super) struct Seat(Arc<Lane>);

impl Lanes {
    pub(super) fn new(dial: &Dial, address: &Address) -> Result<Self> {
        let lane = |_| Ok(Arc::new(Lane { channel: dial.channel(address)?, open: AtomicUsize::new(0) }));
        (0..LANES).map(lane).collect::<Result<_>>().map(Self)
    }

    /// The first connection with room, or the emptiest.
    pub(super) fn seat(&self) -> Seat {
        let open = |lane: &Arc<Lane>| lane.open.load(Ordering::Relaxed);
        let roomy = self.0.iter().find(|lane| open(lane) < COMFORTABLE);
        let lane = roomy.or_else(|| self.0.iter().min_by_key(|lane| open(lane))).unwrap_or(&self.0[0]);
        lane.open.fetch_add(1, Ordering::Relaxed);
        Seat(lane.clone())
    }
}

impl Seat {
    pub(super) fn channel(&self) -> Channel {
        self.0.channel.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
