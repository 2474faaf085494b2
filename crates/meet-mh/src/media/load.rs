//! What a handler carries: sessions, streams and bytes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tenure_lease::Tick;
use tokio::sync::Notify;

use crate::limits;

/// Counters of a handler.
#[derive(Debug)]
pub(crate) struct Load {
    max_streams: u32,
    /// What is used of the bandwidth, in percent, as measured last.
    bandwidth: AtomicU64,
    streams: AtomicI64,
    sessions: AtomicI64,
    ingress: AtomicU64,
    egress: AtomicU64,
    lost_packets: AtomicU64,
    sent_packets: AtomicU64,
    measured: Mutex<Option<(Tick, [u64; 4])>>,
    /// The last reported load, in percent.
    reported: AtomicU64,
    changed: Notify,
}

/// Rates since the last measurement.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rates {
    /// Bits per second received.
    pub(crate) ingress: u64,
    /// Bits per second sent.
    pub(crate) egress: u64,
    /// Packets lost of a thousand.
    pub(crate) loss_permille: u32,
}

impl Load {
    pub(crate) fn new(max_streams: u32) -> Self {
        Self {
            max_streams,
            bandwidth: AtomicU64::new(0),
            streams: AtomicI64::new(0),
            sessions: AtomicI64::new(0),
            ingress: AtomicU64::new(0),
            egress: AtomicU64::new(0),
            lost_packets: AtomicU64::new(0),
            sent_packets: AtomicU64::new(0),
            measured: Mutex::new(None),
            reported: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// Publications and subscriptions that flow.
    pub(crate) fn streams(&self) -> u32 {
        u32::try_from(self.streams.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Adds streams, or removes them.
    pub(crate) fn add_streams(&self, count: i64) {
        if count == 0 {
            return;
        }
        self.streams.fetch_add(count, Ordering::Relaxed);
        let changed = u64::from(self.percent()).abs_diff(self.reported.load(Ordering::Relaxed));
        if changed >= u64::from(limits::LOAD_CHANGE) {
            self.changed.notify_one();
        }
    }

    /// Takes a place for a session, or `None` at the limit.
    pub(crate) fn take_session(self: &std::sync::Arc<Self>) -> Option<SessionSlot> {
        let most = i64::from(self.max_streams);
        let taken = self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sessions| {
            (sessions < most).then_some(sessions + 1)
        });
        taken.ok().map(|_| SessionSlot(self.clone()))
    }

    /// Whether further subscriptions are refused.
    pub(crate) fn is_full(&self) -> bool {
        u64::from(self.streams()) * 100 >= u64::from(self.max_streams) * limits::FULL
            || self.bandwidth.load(Ordering::Relaxed) >= limits::FULL
    }

    /// States what is used of the bandwidth, in percent.
    pub(crate) fn set_bandwidth(&self, percent: u32) {
        self.bandwidth.store(percent.into(), Ordering::Relaxed);
    }

    /// The load in percent.
    pub(crate) fn percent(&self) -> u32 {
        (u64::from(self.streams()) * 100 / u64::from(self.max_streams.max(1))) as u32
    }

    /// The load in percent, which counts as reported.
    pub(crate) fn report(&self) -> u32 {
        let percent = self.percent();
        self.reported.store(percent.into(), Ordering::Relaxed);
        percent
    }

    /// Announces a change whatever its size.
    pub(crate) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Waits until the load differs enough from the last report.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.ingress.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.egress.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn packets(&self, sent: u64, lost: u64) {
        self.sent_packets.fetch_add(sent, Ordering::Relaxed);
        self.lost_packets.fetch_add(lost, Ordering::Relaxed);
    }

    /// Bytes received and sent so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.ingress.load(Ordering::Relaxed), self.egress.load(Ordering::Relaxed))
    }

    /// Rates since the last call.
    pub(crate) fn measure(&self, now: Tick) -> Rates {
        let totals = [&self.ingress, &self.egress, &self.sent_packets, &self.lost_packets]
            .map(|counter| counter.load(Ordering::Relaxed));
        let Some((before, earlier)) = self.measured.lock().replace((now, totals)) else {
            return Rates::default();
        };
        let seconds = now.since(before).as_secs_f64().max(0.001);
        let [ingress, egress, sent, lost] = std::array::from_fn(|at| {
            totals.get(at).unwrap_or(&0).saturating_sub(*earlier.get(at).unwrap_or(&0))
        });
        Rates {
            ingress: (ingress as f64 * 8.0 / seconds) as u64,
            egress: (egress as f64 * 8.0 / seconds) as u64,
            loss_permille: (lost * 1_000 / sent.max(1)).min(1_000) as u32,
        }
    }
}

/// A place of a session, until it is dropped.
pub(crate) struct SessionSlot(std::sync::Arc<Load>);

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn rates_are_measured_between_two_reports() {
        let load = Load::new(10);
        assert_eq!(load.measure(at(0)), Rates::default());
        load.received(1_000);
        load.sent(4_000);
        load.packets(100, 2);
        assert_eq!(load.measure(at(2)), Rates { ingress: 4_000, egress: 16_000, loss_permille: 20 });
        assert_eq!(load.measure(at(3)), Rates::default());
    }

    #[test]
    fn a_handler_is_full_at_95_percent_of_its_bandwidth() {
        let load = Load::new(20);
        for (percent, full) in [(94, false), (95, true), (300, true), (10, false)] {
            load.set_bandwidth(percent);
            assert_eq!(load.is_full(), full, "{percent}");
        }
    }

    #[test]
    fn a_handler_is_full_at_95_percent_of_its_streams() {
        let load = Arc::new(Load::new(20));
        load.add_streams(18);
        assert!(!load.is_full());
        load.add_streams(1);
        assert!(load.is_full());
        assert_eq!(load.percent(), 95);
        let slots: Vec<_> = std::iter::from_fn(|| load.take_session()).collect();
        assert_eq!(slots.len(), 20, "sessions have a bound of their own");
    }
}
