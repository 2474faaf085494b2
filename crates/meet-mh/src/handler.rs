//! One handler: its registered meetings, its clients and its load.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};
use tenure_meet_rpc::{ChannelPool, Keyring};
use tenure_meet_wire::internal::{HealthStatus, MhLoadReport, MhRejectionReason};
use tenure_meet_wire::{CloseCode, Id, MeetingId};
use tokio::sync::watch;

use crate::media::{Load, Meeting, RelayDialer, Shared};
use crate::registry::{MuteMask, RegisteredMeeting, Registration};
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
    /// Maximum number of streams: publications and subscriptions that flow. As many sessions may be open.
    pub max_streams: u32,
    /// Whether new meetings are refused.
    pub refuse: RefuseMeetings,
    /// Verifies the tokens of controllers.
    pub keyring: Keyring,
    /// Connections to controllers.
    pub channels: ChannelPool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Measures the usage of this process.
    pub usage: Arc<UsageProbe>,
    /// The memory that caches of groups may take, in bytes: a quarter of what the process may take.
    pub cache_bytes: usize,
    /// The bits per second that count as full bandwidth in load reports.
    pub bandwidth: u64,
    /// Connects to other handlers of the same meeting; without it nothing is relayed.
    pub relays: Option<Arc<dyn RelayDialer>>,
}

/// A media handler. Cloning shares it.
#[derive(Clone)]
pub struct MediaHandler(Arc<State>);

struct State {
    options: Options,
    shared: Arc<Shared>,
    meetings: Mutex<HashMap<MeetingId, Arc<Meeting>>>,
    /// Rises with every registration; clients of unregistered meetings wait for it.
    registered: watch::Sender<u64>,
    refuse: Mutex<RefuseMeetings>,
    usage: Mutex<Option<Usage>>,
}

/// What a handler uses, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    at: Tick,
    pub(crate) cpu: u32,
    pub(crate) memory: u32,
    pub(crate) ingress: u32,
    pub(crate) egress: u32,
    pub(crate) loss_permille: u32,
}

impl MediaHandler {
    /// A handler without meetings.
    pub fn new(options: Options) -> Self {
        let refuse = Mutex::new(options.refuse);
        let shared = Shared::new(&options);
        Self(Arc::new(State {
            options,
            shared,
            meetings: Mutex::default(),
            registered: watch::Sender::new(0),
            refuse,
            usage: Mutex::default(),
        }))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.options.id
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn load(&self) -> &Arc<Load> {
        &self.0.shared.load
    }

    /// Changes whether new meetings are refused.
    pub fn set_refuse(&self, refuse: RefuseMeetings) {
        *self.0.refuse.lock() = refuse;
        self.load().notify();
    }

    /// What controllers have said about a meeting.
    pub fn meeting(&self, meeting: &MeetingId) -> Option<RegisteredMeeting> {
        self.find(meeting).map(|meeting| meeting.state.lock().control.clone())
    }

    pub(crate) fn find(&self, meeting: &MeetingId) -> Option<Arc<Meeting>> {
        self.0.meetings.lock().get(meeting).cloned()
    }

    /// All meetings.
    pub(crate) fn meetings(&self) -> Vec<Arc<Meeting>> {
        self.0.meetings.lock().values().cloned().collect()
    }

    /// The number of registered meetings.
    pub fn meeting_count(&self) -> usize {
        self.0.meetings.lock().len()
    }

    /// Publications and subscriptions that flow.
    pub fn stream_count(&self) -> u32 {
        self.load().streams()
    }

    /// Bytes that groups take in memory.
    pub fn cached_bytes(&self) -> usize {
        self.0.shared.cache.used()
    }

    pub(crate) async fn register(
        &self,
        meeting: &MeetingId,
        registration: Registration,
    ) -> Result<(), MhRejectionReason> {
        let registered = match self.find(meeting) {
            Some(known) => known.register(registration).await,
            None => self.add(meeting, registration),
        };
        if let (Ok(()), Some(meeting)) = (registered, self.find(meeting)) {
            meeting.start_relays();
            self.0.registered.send_modify(|count| *count += 1);
        }
        metric::meetings(self.meeting_count());
        registered
    }

    fn add(&self, id: &MeetingId, registration: Registration) -> Result<(), MhRejectionReason> {
        match *self.0.refuse.lock() {
            RefuseMeetings::AtCapacity => return Err(MhRejectionReason::AtCapacity),
            RefuseMeetings::Draining => return Err(MhRejectionReason::Draining),
            RefuseMeetings::Nothing if self.load().percent() >= 100 => {
                return Err(MhRejectionReason::AtCapacity);
            }
            RefuseMeetings::Nothing => {}
        }
        let now = self.0.options.clock.now();
        let mut meetings = self.0.meetings.lock();
        if meetings.len() >= limits::MEETINGS {
            meetings.retain(|_, meeting| {
                let keep = now.since(meeting.state.lock().last_call) < limits::IDLE;
                if !keep {
                    meeting.close(CloseCode::Done);
                }
                keep
            });
        }
        if meetings.len() >= limits::MEETINGS {
            return Err(MhRejectionReason::AtCapacity);
        }
        let control = RegisteredMeeting::new(registration, now);
        let made = Meeting::new(id.clone(), control, self.0.shared.clone());
        meetings.insert(id.clone(), made);
        Ok(())
    }

    pub(crate) async fn enforce(
        &self,
        meeting: &MeetingId,
        participant: Id,
        mask: MuteMask,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        let Some(meeting) = self.find(meeting) else { return Err((0, MhRejectionReason::Unspecified)) };
        meeting.enforce(participant, mask).await
    }

    /// Ends the sessions of a participant and refuses its grants up to this epoch.
    pub(crate) fn release_participant(
        &self,
        meeting: &MeetingId,
        participant: Id,
        (epoch, generation): (u64, u64),
        code: CloseCode,
    ) -> Result<(), MhRejectionReason> {
        let Some(meeting) = self.find(meeting) else { return Err(MhRejectionReason::Unspecified) };
        let now = self.0.options.clock.now();
        meeting.state.lock().control.remove(participant, epoch, generation, now)?;
        meeting.release_participant(participant, code);
        Ok(())
    }

    /// Ends a meeting. Calls of an older owner are ignored.
    pub(crate) fn release(&self, id: &MeetingId, generation: u64) -> bool {
        let mut meetings = self.0.meetings.lock();
        let known = meetings
            .get(id)
            .is_some_and(|meeting| generation >= meeting.state.lock().control.owner.generation);
        let released = if known { meetings.remove(id) } else { None };
        drop(meetings);
        if let Some(meeting) = &released {
            meeting.close(CloseCode::Done);
        }
        metric::meetings(self.meeting_count());
        released.is_some()
    }

    /// Waits until a meeting is registered.
    pub(crate) async fn wait_for_meeting(&self, meeting: &MeetingId) -> Arc<Meeting> {
        let mut registered = self.0.registered.subscribe();
        loop {
            if let Some(meeting) = self.find(meeting) {
                return meeting;
            }
            // The sender is owned by the same state.
            let _changed = registered.changed().await;
        }
    }

    /// Waits until the load differs enough from the last report.
    pub(crate) async fn wait_for_load_change(&self) {
        self.load().changed().await;
    }

    /// What the handler uses. Measured at most twice a second, so that all reports agree.
    pub(crate) fn measure(&self) -> Usage {
        let now = self.0.options.clock.now();
        let mut last = self.0.usage.lock();
        if let Some(usage) = last.filter(|usage| now.since(usage.at) < limits::MEASURE) {
            return usage;
        }
        let (cpu, memory) = (self.0.options.usage)();
        let load = self.load();
        let rates = load.measure(now);
        let percent = |bits: u64| (bits.saturating_mul(100) / self.0.options.bandwidth.max(1)) as u32;
        let (ingress, egress) = (percent(rates.ingress), percent(rates.egress));
        load.set_bandwidth(ingress.max(egress));
        metric::streams(load.streams());
        metric::bytes(load.bytes(), self.cached_bytes());
        let usage = Usage { at: now, cpu, memory, ingress, egress, loss_permille: rates.loss_permille };
        *last = Some(usage);
        usage
    }

    /// The part of its capacity that the handler uses, in percent: the greatest of streams, bandwidth, CPU and memory.
    pub(crate) fn capacity_percent(&self, usage: &Usage) -> u32 {
        let used = [self.load().percent(), usage.ingress, usage.egress, usage.cpu, usage.memory];
        used.into_iter().max().unwrap_or_default()
    }

    pub(crate) fn health(&self, capacity_percent: u32) -> HealthStatus {
        match *self.0.refuse.lock() {
            RefuseMeetings::Draining => HealthStatus::Draining,
            _ if capacity_percent >= limits::BUSY => HealthStatus::Degraded,
            _ => HealthStatus::Healthy,
        }
    }

    /// The current load report.
    pub(crate) fn load_report(&self) -> MhLoadReport {
        let (usage, load) = (self.measure(), self.load());
        load.report();
        let mut report = MhLoadReport {
            mh_id: self.id().to_owned(),
            current_streams: load.streams(),
            max_streams: self.0.options.max_streams,
            cpu_percent: usage.cpu,
            memory_percent: usage.memory,
            bandwidth_ingress_percent: usage.ingress,
            bandwidth_egress_percent: usage.egress,
            packet_loss_permille: usage.loss_permille,
            ..MhLoadReport::default()
        };
        report.set_health_status(match *self.0.refuse.lock() {
            RefuseMeetings::Draining => HealthStatus::Draining,
            _ => HealthStatus::Healthy,
        });
        report
    }
}
