//! The controller of all meetings of a process.
//!
//! - [`Controller`] is the handle: it sends messages to the supervisor and serves sessions (`serve`).
//! - The supervisor (`supervisor`) owns the running meetings: assignments, counts, ends.
//! - Opening a meeting (`open`) claims its lease and reads its state, in a task of its own.
//! - Each meeting has a task (`meeting_task`) that owns its lease, runs its actor and moves it away.
//! - Moves and drains (`moves`) are ordered by GC, by another controller or by the process.

mod meeting_task;
mod moves;
mod open;
mod serve;
mod supervisor;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tenure_keeper::Keeper;
use tenure_lease::{Entropy, Generation, Store, Ttl};
use tenure_meet_rpc::Keyring;
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::internal::ProbeResponse;
use tenure_meet_wire::{Id, MeetingId};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::admission::Admission;
use crate::actor::exit::Exit;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Envelope, MeetingMessage, SharedSecrets};
use crate::actor::moving::{Controllers, DrainControl};
use crate::actor::remote::{GlobalController, MediaHandlers};
use crate::actor::trace::RequestTrace;
use crate::actor::{ActorType, limits};
use crate::meeting::{HandlerInfo, Settings};
use crate::rate_limit::RateLimiter;
use crate::{ControllerState, RateLimit};

pub(crate) use supervisor::AssignReply;
use supervisor::{ControllerMessage, Found, Supervisor};

/// Options of a controller.
pub struct Options {
    /// The store, its circuit breaker and the controller's id.
    pub shared: ControllerState,
    /// Holds the leases of meetings.
    pub keeper: Keeper,
    /// The TTL of those leases.
    pub lease_ttl: Ttl,
    /// How often they are renewed.
    pub lease_renew: Duration,
    /// Maximum number of meetings.
    pub max_meetings: usize,
    /// Maximum number of participants over all meetings.
    pub max_participants: usize,
    /// The secrets of binding tokens.
    pub secrets: Secrets,
    /// Verifies the tokens of clients.
    pub keyring: Keyring,
    /// The source of ids and nonces.
    pub entropy: Arc<dyn Entropy>,
    /// The media handlers.
    pub media_handlers: Arc<dyn MediaHandlers>,
    /// The global controller, notified of ended meetings and of drains.
    pub global_controller: Arc<dyn GlobalController>,
    /// The other controllers, to which meetings move.
    pub controllers: Arc<dyn Controllers>,
    /// Joins per user.
    pub join_limit: RateLimit,
    /// Requests per seat.
    pub request_limit: RateLimit,
}

/// The assignment of a meeting to this controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The meeting.
    pub meeting: MeetingId,
    /// Its settings.
    pub settings: Settings,
    /// Its media handlers, best first.
    pub handlers: Vec<HandlerInfo>,
    /// The generation of an owner that was found dead: its lease is taken without waiting for the expiry.
    pub instead_of: Option<Generation>,
}

/// The answer to an assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assigned {
    /// The lease is held with this generation.
    Accepted {
        /// The generation.
        generation: u64,
    },
    /// The meeting is not taken.
    Rejected(Rejection),
}

/// Why a meeting is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The controller is full.
    AtCapacity,
    /// The controller is draining.
    Draining,
    /// The store is unavailable.
    Unhealthy,
    /// Another controller owns the meeting.
    AlreadyOwned {
        /// The owner, if known.
        owner: Option<String>,
    },
}

/// Meetings and participants, as a count or as a capacity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Meetings.
    pub meetings: usize,
    /// Participants over all meetings.
    pub participants: usize,
}

impl Counts {
    /// The percentage of `capacity` in use, by the resource that is nearest to its limit.
    pub fn percent_of(self, capacity: Self) -> usize {
        let percent = |count: usize, most: usize| count.saturating_mul(100) / most.max(1);
        percent(self.meetings, capacity.meetings).max(percent(self.participants, capacity.participants))
    }
}

/// A handle to the controller.
#[derive(Clone)]
pub struct Controller {
    mailbox: Mailbox<ControllerMessage>,
    admission: Arc<Admission>,
    shared: ControllerState,
    secrets: SharedSecrets,
    draining: Arc<AtomicBool>,
    drain_started: Arc<Notify>,
    drain: Arc<DrainControl>,
    tasks: TaskTracker,
    capacity: Counts,
    /// Identifies this life of the process.
    boot_id: Arc<str>,
    global_controller: Arc<dyn GlobalController>,
    /// Cancelled when the supervisor panicked and its meetings have ended.
    failed: CancellationToken,
    cancel: CancellationToken,
}

/// A running controller, to shut it down or wait for its end.
pub struct Running {
    tasks: TaskTracker,
    cancel: CancellationToken,
    exit: oneshot::Receiver<Exit<()>>,
}

impl Running {
    /// Shuts down gracefully: meetings flush, close their clients and release their leases.
    pub async fn shut_down(self) -> Exit<()> {
        self.cancel.cancel();
        self.wait().await
    }

    /// Waits for the end. After a panic of the supervisor the meetings still end gracefully.
    pub async fn wait(self) -> Exit<()> {
        let exit = self.exit.await.unwrap_or(Exit::Panicked("the supervisor task was dropped".to_owned()));
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        exit
    }
}

fn boot_id(entropy: &dyn Entropy) -> Arc<str> {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    Arc::from(format!("{:016x}", u64::from_le_bytes(bytes)))
}

impl Controller {
    /// Starts a controller.
    pub fn start(options: Options) -> (Self, Running) {
        let (mailbox, messages) = Mailbox::new(ActorType::Controller, limits::MAILBOX);
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (ended, exit) = oneshot::channel();
        let failed = CancellationToken::new();
        let panicked = failed.clone();
        let admission = Arc::new(Admission {
            clock: options.shared.store.clock(),
            entropy: options.entropy.clone(),
            keyring: options.keyring.clone(),
            join_limiter: Mutex::new(RateLimiter::new(options.join_limit)),
        });
        let draining = Arc::new(AtomicBool::new(false));
        let capacity = Counts { meetings: options.max_meetings, participants: options.max_participants };
        let shared = options.shared.clone();
        let secrets: SharedSecrets = Arc::new(RwLock::new(Arc::new(options.secrets.clone())));
        let boot_id = boot_id(&*options.entropy);
        let global_controller = options.global_controller.clone();
        let supervisor = Supervisor::new(options, secrets.clone(), draining.clone(), cancel.clone());
        tasks.spawn(async move {
            let exit = supervisor.run(messages).await;
            if matches!(exit, Exit::Panicked(_)) {
                panicked.cancel();
            }
            let _caller_gone = ended.send(exit);
        });
        let (probing, stopped) = (shared.clone(), cancel.clone());
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = probing.keep_probing() => {}
            }
        });
        let controller = Self {
            mailbox,
            admission,
            shared,
            secrets,
            draining,
            drain_started: Arc::default(),
            drain: Arc::default(),
            tasks: tasks.clone(),
            capacity,
            boot_id,
            global_controller,
            failed,
            cancel: cancel.clone(),
        };
        (controller, Running { tasks, cancel, exit })
    }

    async fn call<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> ControllerMessage) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Takes a meeting: accepted once its lease is held and its state is read. A meeting that already runs here adopts
    /// the settings, and is accepted once they are persisted.
    pub async fn assign(&self, assignment: Assignment) -> Assigned {
        let (trace, settings) = (RequestTrace::current(), Box::new(assignment.settings.clone()));
        match self.call(|reply| ControllerMessage::Assign { assignment, reply, trace }).await {
            Some(AssignReply::Decided(assigned)) => assigned,
            Some(AssignReply::AlreadyRunning { mailbox, generation }) => {
                match self.adopt_settings(&mailbox, settings).await {
                    true => Assigned::Accepted { generation },
                    false => Assigned::Rejected(Rejection::Unhealthy),
                }
            }
            None => Assigned::Rejected(Rejection::Draining),
        }
    }

    /// Has a running meeting adopt settings. The caller waits here, so that a slow meeting does not block the supervisor.
    async fn adopt_settings(&self, meeting: &Mailbox<Envelope>, settings: Box<Settings>) -> bool {
        self.ask(meeting, |reply| MeetingMessage::Settings { settings, reply }).await
    }

    /// Ends a meeting for all participants. `None` if it does not run here; false if it could not be ended now.
    pub async fn end_meeting(&self, meeting: &MeetingId) -> Option<bool> {
        let Found::Running { mailbox, .. } = self.find(meeting).await else { return None };
        Some(self.ask(&mailbox, |reply| MeetingMessage::End { reply }).await)
    }

    /// Sends a message to a meeting and waits for its answer, for a bounded time.
    async fn ask(
        &self,
        meeting: &Mailbox<Envelope>,
        message: impl FnOnce(oneshot::Sender<bool>) -> MeetingMessage,
    ) -> bool {
        let (reply, answer) = oneshot::channel();
        let message = message(reply);
        let envelope = Envelope { message, trace: RequestTrace::current() };
        let done = async {
            meeting.send(envelope).await.ok()?;
            answer.await.ok()
        };
        let clock = &self.admission.clock;
        tokio::select! {
            biased;
            // A meeting that is ending releases its lease soon: the caller retries.
            done = done => done.unwrap_or(false),
            () = clock.sleep_until(clock.now() + limits::SETTINGS) => false,
        }
    }

    /// The current counts.
    pub async fn counts(&self) -> Counts {
        self.call(|reply| ControllerMessage::Count { reply }).await.unwrap_or_default()
    }

    /// The capacity.
    pub const fn capacity(&self) -> Counts {
        self.capacity
    }

    async fn find(&self, meeting: &MeetingId) -> Found {
        let meeting = meeting.clone();
        self.call(|reply| ControllerMessage::Find { meeting, reply }).await.unwrap_or(Found::Nowhere)
    }

    /// Whether the meeting runs here.
    pub async fn owns(&self, meeting: &MeetingId) -> bool {
        match self.find(meeting).await {
            Found::Running { mailbox, state } => !mailbox.is_closed() && !state.has_moved(),
            Found::Opening(_) | Found::Nowhere => false,
        }
    }

    /// The generation under which the meeting is held here; zero while it is being opened.
    pub async fn held_generation(&self, meeting: &MeetingId) -> Option<u64> {
        let meeting = meeting.clone();
        self.call(|reply| ControllerMessage::Probe { meeting, reply }).await.flatten()
    }

    /// Identifies this life of the process: a restarted controller has another one.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Probes another controller on behalf of the global controller.
    pub(crate) async fn probe_peer(&self, grpc_endpoint: &str, meeting_id: &str) -> Option<ProbeResponse> {
        self.global_controller.probe_controller(grpc_endpoint, meeting_id).await
    }

    /// Tells a meeting that runs here who speaks. A report is dropped while the meeting is busy: another one follows.
    pub async fn report_speakers(&self, meeting: &MeetingId, participants: Vec<Id>) {
        if let Found::Running { mailbox, .. } = self.find(meeting).await {
            let message = MeetingMessage::Speakers { participants };
            let _dropped = mailbox.try_send(Envelope { message, trace: RequestTrace::none() });
        }
    }

    /// Stops accepting binding tokens made with the previous secret.
    pub fn forget_previous_secret(&self) {
        let mut secrets = self.secrets.write();
        *secrets = Arc::new(Secrets::clone(&secrets).without_previous());
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The controller's id.
    pub fn id(&self) -> &str {
        &self.shared.mc_id
    }

    /// Stops accepting meetings. Running meetings, and clients that join them, are served until the shutdown.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.drain_started.notify_one();
    }

    /// Waits until the supervisor has panicked and its meetings have flushed. The process must end then: it accepts nothing
    /// more.
    pub async fn panicked(&self) {
        self.failed.cancelled().await;
    }

    /// Whether it was shut down.
    pub fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits for a call of [`Controller::drain`].
    pub(crate) async fn wait_for_drain(&self) {
        self.drain_started.notified().await;
    }

    /// Whether it is draining or shut down.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }

    /// Whether the store is considered available.
    pub fn store_available(&self) -> bool {
        self.shared.breaker.lock().is_closed()
    }

    /// Whether it responds slowly or is nearly full. It still serves; others are better for new meetings.
    pub async fn is_degraded(&self) -> bool {
        let percent = self.counts().await.percent_of(self.capacity);
        percent >= limits::DEGRADED_PERCENT || self.shared.latency.is_slow(self.admission.clock.now())
    }
}
