//! One handler: its registered meetings, its clients and its load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tenure_lease::Clock;
use tenure_meet_rpc::{ChannelPool, Keyring};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::{HealthStatus, MhLoadReport, MhRejectionReason};
use tokio::sync::{Notify, watch};

use crate::registry::{MeetingRegistry, MuteMask, RegisteredMeeting};
use crate::{limits, metric};

/// Whether a handler is configured to refuse new meetings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RefuseMeetings {
    /// Accept while there is capacity.
    #[default]
    Nothing,
    /// Refuse as full.
    AtCapacity,
    /// Refuse as draining.
    Draining,
}

/// Measures CPU and memory usage, in percent.
pub(crate) type UsageProbe = dyn Fn() -> (u32, u32) + Send + Sync;

/// Options of a handler.
pub struct Options {
    /// Its id.
    pub id: String,
    /// Maximum number of streams. Until there is media, each client counts as one.
    pub max_streams: u32,
    /// Whether new meetings are refused.
    pub refuse: RefuseMeetings,
    /// Verifies the tokens of clients and controllers.
    pub keyring: Keyring,
    /// Connections to controllers.
    pub channels: ChannelPool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Measures the usage of this process.
    pub usage: Arc<UsageProbe>,
}

/// A media handler. Cloning shares it.
#[derive(Clone)]
pub struct MediaHandler(Arc<State>);

struct State {
    options: Options,
    registry: Mutex<MeetingRegistry>,
    /// Rises with every registration; clients of unregistered meetings wait for it.
    registered: watch::Sender<u64>,
    refuse: Mutex<RefuseMeetings>,
    streams: AtomicU32,
    /// The last reported load, in percent.
    reported: AtomicU32,
    load_changed: Notify,
}

impl MediaHandler {
    /// A handler without meetings.
    pub fn new(options: Options) -> Self {
        let refuse = Mutex::new(options.refuse);
        Self(Arc::new(State {
            options,
            registry: Mutex::default(),
            registered: watch::Sender::new(0),
            refuse,
            streams: AtomicU32::new(0),
            reported: AtomicU32::new(0),
            load_changed: Notify::new(),
        }))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.options.id
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Changes whether new meetings are refused.
    pub fn set_refuse(&self, refuse: RefuseMeetings) {
        *self.0.refuse.lock() = refuse;
        self.0.load_changed.notify_one();
    }

    /// A registered meeting.
    pub fn meeting(&self, meeting: &MeetingId) -> Option<RegisteredMeeting> {
        self.0.registry.lock().get(meeting).cloned()
    }

    /// The number of registered meetings.
    pub fn meeting_count(&self) -> usize {
        self.0.registry.lock().len()
    }

    pub(crate) fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        owner: (&str, &str),
    ) -> Result<(), MhRejectionReason> {
        let known = self.0.registry.lock().get(meeting).is_some();
        match *self.0.refuse.lock() {
            _ if known => {}
            RefuseMeetings::AtCapacity => return Err(MhRejectionReason::AtCapacity),
            RefuseMeetings::Draining => return Err(MhRejectionReason::Draining),
            RefuseMeetings::Nothing if self.load_percent() >= 100 => {
                return Err(MhRejectionReason::AtCapacity);
            }
            RefuseMeetings::Nothing => {}
        }
        let now = self.0.options.clock.now();
        let registered = self.0.registry.lock().register(meeting, generation, owner, now);
        if registered.is_ok() {
            self.0.registered.send_modify(|count| *count += 1);
        }
        metric::meetings(self.meeting_count());
        registered
    }

    pub(crate) fn enforce(
        &self,
        meeting: &MeetingId,
        participant: tenure_meet_wire::Id,
        mask: MuteMask,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        self.0.registry.lock().enforce(meeting, participant, mask, self.0.options.clock.now())
    }

    pub(crate) fn release(&self, meeting: &MeetingId, generation: u64) -> bool {
        let released = self.0.registry.lock().release(meeting, generation);
        metric::meetings(self.meeting_count());
        released
    }

    /// Waits until a meeting is registered.
    pub(crate) async fn wait_for_registration(&self, meeting: &MeetingId) -> RegisteredMeeting {
        let mut registered = self.0.registered.subscribe();
        loop {
            if let Some(entry) = self.meeting(meeting) {
                return entry;
            }
            // The sender is owned by the same state.
            let _changed = registered.changed().await;
        }
    }

    /// Reserves a stream; `None` at the limit.
    pub(crate) fn take_stream_slot(&self) -> Option<StreamSlot> {
        let most = self.0.options.max_streams;
        let taken = self.0.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |streams| {
            (streams < most).then_some(streams + 1)
        });
        taken.ok()?;
        self.on_streams_changed();
        Some(StreamSlot(self.clone()))
    }

    fn load_percent(&self) -> u32 {
        let (streams, most) = (self.0.streams.load(Ordering::Relaxed), self.0.options.max_streams.max(1));
        (u64::from(streams) * 100 / u64::from(most)) as u32
    }

    fn on_streams_changed(&self) {
        metric::streams(self.0.streams.load(Ordering::Relaxed));
        if self.load_percent().abs_diff(self.0.reported.load(Ordering::Relaxed)) >= limits::LOAD_CHANGE {
            self.0.load_changed.notify_one();
        }
    }

    /// Waits until the load differs enough from the last report.
    pub(crate) async fn wait_for_load_change(&self) {
        self.0.load_changed.notified().await;
    }

    /// The current load report.
    pub(crate) fn load_report(&self) -> MhLoadReport {
        let (cpu_percent, memory_percent) = (self.0.options.usage)();
        self.0.reported.store(self.load_percent(), Ordering::Relaxed);
        let mut report = MhLoadReport {
            mh_id: self.id().to_owned(),
            current_streams: self.0.streams.load(Ordering::Relaxed),
            max_streams: self.0.options.max_streams,
            cpu_percent,
            memory_percent,
            ..MhLoadReport::default()
        };
        report.set_health_status(match *self.0.refuse.lock() {
            RefuseMeetings::Draining => HealthStatus::Draining,
            _ => HealthStatus::Healthy,
        });
        report
    }
}

/// A reserved stream, until it is dropped.
pub(crate) struct StreamSlot(MediaHandler);

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.on_streams_changed();
    }
}
