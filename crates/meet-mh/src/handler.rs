//! One handler: its register, its clients and its load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lease::Clock;
use meet_rpc::{Keyring, Lines};
use meet_wire::MeetingId;
use meet_wire::internal::{HealthStatus, MhLoadReport, MhRejectionReason};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::register::{Held, Mask, Register};
use crate::{limits, metric};

/// What a handler was told to answer to new meetings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refuse {
    /// What is true.
    #[default]
    Nothing,
    /// That it is full.
    AtCapacity,
    /// That it goes away.
    Draining,
}

/// How much this process uses, in percent.
pub(crate) type Vitals = dyn Fn() -> (u32, u32) + Send + Sync;

/// What a handler is started with.
pub struct Options {
    /// Its id.
    pub id: String,
    /// The most streams: clients that are connected, until there is media.
    pub max_streams: u32,
    /// What it answers to new meetings.
    pub refuse: Refuse,
    /// Checks the tokens of clients and controllers.
    pub keyring: Keyring,
    /// The lines to controllers.
    pub lines: Lines,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Processor and memory in use, in percent.
    pub vitals: Arc<Vitals>,
}

/// A media handler. Cloning shares it.
#[derive(Clone)]
pub struct Handler(Arc<Inner>);

struct Inner {
    options: Options,
    register: Mutex<Register>,
    /// Rises with every registration, for those who wait for one.
    registered: watch::Sender<u64>,
    refuse: Mutex<Refuse>,
    streams: AtomicU32,
    /// The load that was told last, in percent.
    told: AtomicU32,
    stir: Notify,
}

impl Handler {
    /// A handler without meetings.
    pub fn new(options: Options) -> Self {
        let refuse = Mutex::new(options.refuse);
        Self(Arc::new(Inner {
            options,
            register: Mutex::default(),
            registered: watch::Sender::new(0),
            refuse,
            streams: AtomicU32::new(0),
            told: AtomicU32::new(0),
            stir: Notify::new(),
        }))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.options.id
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// From now on it answers this to new meetings.
    pub fn refuse(&self, refuse: Refuse) {
        *self.0.refuse.lock() = refuse;
        self.0.stir.notify_one();
    }

    /// What is known of a meeting.
    pub fn meeting(&self, meeting: &MeetingId) -> Option<Held> {
        self.0.register.lock().get(meeting).cloned()
    }

    /// How many meetings there are.
    pub fn meetings(&self) -> usize {
        self.0.register.lock().len()
    }

    pub(crate) fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        owner: (&str, &str),
    ) -> Result<(), MhRejectionReason> {
        let known = self.0.register.lock().get(meeting).is_some();
        match *self.0.refuse.lock() {
            _ if known => {}
            Refuse::AtCapacity => return Err(MhRejectionReason::AtCapacity),
            Refuse::Draining => return Err(MhRejectionReason::Draining),
            Refuse::Nothing if self.load() >= 100 => return Err(MhRejectionReason::AtCapacity),
            Refuse::Nothing => {}
        }
        let now = self.0.options.clock.now();
        let registered = self.0.register.lock().register(meeting, generation, owner, now);
        if registered.is_ok() {
            self.0.registered.send_modify(|count| *count += 1);
        }
        metric::meetings(self.meetings());
        registered
    }

    pub(crate) fn enforce(
        &self,
        meeting: &MeetingId,
        participant: meet_wire::Id,
        mask: Mask,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        self.0.register.lock().enforce(meeting, participant, mask, self.0.options.clock.now())
    }

    pub(crate) fn release(&self, meeting: &MeetingId, generation: u64) -> bool {
        let released = self.0.register.lock().release(meeting, generation);
        metric::meetings(self.meetings());
        released
    }

    /// Waits until somebody registers a meeting.
    pub(crate) async fn until_registered(&self, meeting: &MeetingId) -> Held {
        let mut registered = self.0.registered.subscribe();
        loop {
            if let Some(held) = self.meeting(meeting) {
                return held;
            }
            // The sender is ours.
            let _changed = registered.changed().await;
        }
    }

    /// A place for one more stream; none when there is no more.
    pub(crate) fn stream(&self) -> Option<Stream> {
        let most = self.0.options.max_streams;
        let taken = self.0.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |streams| {
            (streams < most).then_some(streams + 1)
        });
        taken.ok()?;
        self.moved();
        Some(Stream(self.clone()))
    }

    fn load(&self) -> u32 {
        let (streams, most) = (self.0.streams.load(Ordering::Relaxed), self.0.options.max_streams.max(1));
        (u64::from(streams) * 100 / u64::from(most)) as u32
    }

    fn moved(&self) {
        metric::streams(self.0.streams.load(Ordering::Relaxed));
        if self.load().abs_diff(self.0.told.load(Ordering::Relaxed)) >= limits::STIR {
            self.0.stir.notify_one();
        }
    }

    /// Waits until the load has changed a lot since it was told.
    pub(crate) async fn stirred(&self) {
        self.0.stir.notified().await;
    }

    /// What is told of the load now.
    pub(crate) fn report(&self) -> MhLoadReport {
        let (cpu_percent, memory_percent) = (self.0.options.vitals)();
        self.0.told.store(self.load(), Ordering::Relaxed);
        let mut report = MhLoadReport {
            mh_id: self.id().to_owned(),
            current_streams: self.0.streams.load(Ordering::Relaxed),
            max_streams: self.0.options.max_streams,
            cpu_percent,
            memory_percent,
            ..MhLoadReport::default()
        };
        report.set_health_status(match *self.0.refuse.lock() {
            Refuse::Draining => HealthStatus::Draining,
            _ => HealthStatus::Healthy,
        });
        report
    }
}

/// A place for a stream, until it is dropped.
pub(crate) struct Stream(Handler);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.moved();
    }
}
