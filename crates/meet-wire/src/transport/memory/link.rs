//! One direction of the network between two ends: delay, rate, loss and reordering, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};

/// How the network treats a session. The same seed loses and reorders the same packets.
#[derive(Clone)]
pub struct Conditions {
    /// The clock of the test.
    pub clock: Arc<dyn Clock>,
    /// The time from one end to the other.
    pub delay: Duration,
    /// Lost packets of a thousand. A lost datagram is gone; data of a stream arrives three delays later.
    pub loss_permille: u32,
    /// Datagrams of a thousand that arrive one delay later than those sent after them.
    pub reorder_permille: u32,
    /// The rate of the link. What exceeds it queues, so the delay grows.
    pub bytes_per_second: Option<u64>,
    /// The seed of loss and reordering.
    pub seed: u64,
}

/// What a link has carried.
#[derive(Clone, Copy, Default)]
pub(super) struct Carried {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) lost_bytes: u64,
    pub(super) lost_packets: u64,
}

#[derive(Default)]
struct State {
    conditions: Option<Conditions>,
    random: u64,
    free_at: Tick,
    carried: Carried,
}

/// One direction.
#[derive(Default)]
pub(super) struct Link(Mutex<State>);

/// When a packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    Now,
    At(Tick),
    Never,
}

impl Link {
    pub(super) fn set(&self, conditions: Conditions) {
        let mut state = self.0.lock();
        // A state of zero would stay zero.
        state.random = conditions.seed | 1;
        state.conditions = Some(conditions);
    }

    pub(super) fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.lock().conditions.as_ref().map(|conditions| conditions.clock.clone())
    }

    pub(super) fn carried(&self) -> Carried {
        self.0.lock().carried
    }

    /// The time that a packet takes without and with the present queue.
    pub(super) fn delay(&self) -> (Duration, Duration) {
        let state = self.0.lock();
        let Some(conditions) = &state.conditions else { return Default::default() };
        (conditions.delay, conditions.delay + state.free_at.since(conditions.clock.now()))
    }

    /// Sends a datagram.
    pub(super) fn datagram(&self, len: usize) -> Arrival {
        let mut state = self.0.lock();
        let Some((at, delay)) = state.carry(len) else { return Arrival::Now };
        let Some((loss, reorder)) = state
            .conditions
            .as_ref()
            .map(|conditions| (conditions.loss_permille, conditions.reorder_permille))
        else {
            return Arrival::Now;
        };
        if state.happens(loss) {
            state.lose(len);
            return Arrival::Never;
        }
        Arrival::At(if state.happens(reorder) { at + delay.max(Duration::from_millis(1)) } else { at })
    }

    /// Sends data of a stream. It is sent again when it is lost, so it arrives in any case.
    pub(super) fn data(&self, len: usize) -> Arrival {
        let mut state = self.0.lock();
        let Some((at, delay)) = state.carry(len) else { return Arrival::Now };
        let loss = state.conditions.as_ref().map_or(0, |conditions| conditions.loss_permille);
        if state.happens(loss) {
            state.lose(len);
            return Arrival::At(at + delay * 3);
        }
        Arrival::At(at)
    }
}

impl State {
    fn carry(&mut self, len: usize) -> Option<(Tick, Duration)> {
        self.carried.bytes += len as u64;
        self.carried.packets += 1;
        let conditions = self.conditions.as_ref()?;
        let now = conditions.clock.now();
        let busy = conditions.bytes_per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_nanos((len as u64).saturating_mul(1_000_000_000) / rate.max(1))
        });
        self.free_at = self.free_at.max(now) + busy;
        Some((self.free_at + conditions.delay, conditions.delay))
    }

    fn lose(&mut self, len: usize) {
        self.carried.lost_bytes += len as u64;
        self.carried.lost_packets += 1;
    }

    /// A fixed sequence (xorshift), so that a test fails the same way twice.
    fn happens(&mut self, permille: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1_000 < u64::from(permille)
    }
}
