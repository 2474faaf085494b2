//! The actor over all meetings of a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease::{Entropy, Tick, Ttl};
use lease_keeper::{Error as KeeperError, Guard, Keeper, Terms};
use meet_rpc::Keyring;
use meet_wire::MeetingId;
use meet_wire::TraceParent;
use meet_wire::binding::Secrets;
use meet_wire::signaling::ErrorCode;
use meet_wire::transport::Session;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::cause::Cause;
use crate::actor::connection::{Door, Seat, Turned, error, identify, receive, too_often, turn_away};
use crate::actor::exit::{Exit, supervised};
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Ending, Mail as MeetingMail, MeetingActor, SharedSecrets};
use crate::actor::port::{Home, MediaPort};
use crate::actor::{ActorType, limits};
use crate::convert::Knock;
use crate::meeting::{Handler, Join, Settings};
use crate::rate::Rates;
use crate::{Desk, Keys, Ledger, Rate, metric};

/// What a controller is started with.
pub struct Options {
    /// The store, its breaker and the controller's id.
    pub desk: Desk,
    /// Holds the leases of meetings.
    pub keeper: Keeper,
    /// The TTL of those leases.
    pub lease_ttl: Ttl,
    /// How often they are renewed.
    pub lease_renew: Duration,
    /// The most meetings.
    pub max_meetings: usize,
    /// The most participants, over all meetings.
    pub max_participants: usize,
    /// The secrets of bindings.
    pub secrets: Secrets,
    /// Checks the tokens of clients.
    pub keyring: Keyring,
    /// Where ids and nonces come from.
    pub entropy: Arc<dyn Entropy>,
    /// The way to media handlers.
    pub port: Arc<dyn MediaPort>,
    /// Who is told of the end of meetings.
    pub home: Arc<dyn Home>,
    /// How often a user may join.
    pub join_rate: Rate,
    /// How often a seat may chat or send data.
    pub talk_rate: Rate,
}

/// A meeting to be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Which.
    pub meeting: MeetingId,
    /// What it was made with.
    pub settings: Settings,
    /// Its media handlers, ranked.
    pub handlers: Vec<Handler>,
}

/// The answer to an assignment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assigned {
    /// The lease is held under this generation.
    Accepted {
        /// The generation.
        generation: u64,
    },
    /// It is not taken.
    Rejected(Rejection),
}

/// Why a meeting is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// There is no room.
    AtCapacity,
    /// This controller goes away.
    Draining,
    /// The store does not answer as it should.
    Unhealthy,
    /// Somebody has it.
    AlreadyOwned {
        /// Who, as far as it is known.
        owner: Option<String>,
    },
}

const UNHEALTHY: Assigned = Assigned::Rejected(Rejection::Unhealthy);

/// How much a controller has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Meetings.
    pub meetings: usize,
    /// Participants, over all meetings.
    pub participants: usize,
}

impl Counts {
    /// How much of `most` this is, in percent: of what is nearest to its bound.
    pub fn percent_of(self, most: Self) -> usize {
        let percent = |count: usize, most: usize| count.saturating_mul(100) / most.max(1);
        percent(self.meetings, most.meetings).max(percent(self.participants, most.participants))
    }
}

/// What the actor says to an assignment.
enum Claimed {
    /// This.
    Now(Assigned),
    /// That it has the meeting already, with settings that may be others.
    Before { mailbox: Mailbox<MeetingMail>, generation: u64 },
}

enum Mail {
    Assign { assignment: Assignment, answer: oneshot::Sender<Claimed>, cause: Cause },
    Find { meeting: MeetingId, answer: oneshot::Sender<Option<Mailbox<MeetingMail>>> },
    Count { answer: oneshot::Sender<Counts> },
}

/// A controller, for those who ask it.
#[derive(Clone)]
pub struct Controller {
    mailbox: Mailbox<Mail>,
    door: Arc<Door>,
    desk: Desk,
    secrets: SharedSecrets,
    draining: Arc<AtomicBool>,
    leaving: Arc<Notify>,
    most: Counts,
    cancel: CancellationToken,
}

/// A running controller, for who started it.
pub struct Running {
    tasks: TaskTracker,
    cancel: CancellationToken,
    exit: oneshot::Receiver<Exit<()>>,
}

impl Running {
    /// Ends everything in order: meetings write what waits, tell their clients and give their leases back.
    pub async fn shut_down(self) -> Exit<()> {
        self.cancel.cancel();
        self.ended().await
    }

    /// Waits for the end. A panic of the controller's actor also comes to an orderly end.
    pub async fn ended(self) -> Exit<()> {
        let exit = self.exit.await.unwrap_or(Exit::Panicked("the actor vanished".to_owned()));
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        exit
    }
}

impl Controller {
    /// Starts a controller.
    pub fn start(options: Options) -> (Self, Running) {
        let (mailbox, mails) = Mailbox::new(ActorType::Controller, limits::MAILBOX);
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (ended, exit) = oneshot::channel();
        let door = Arc::new(Door {
            clock: options.desk.store.clock(),
            entropy: options.entropy.clone(),
            keyring: options.keyring.clone(),
            rates: Mutex::new(Rates::new(options.join_rate)),
        });
        let draining = Arc::new(AtomicBool::new(false));
        let most = Counts { meetings: options.max_meetings, participants: options.max_participants };
        let desk = options.desk.clone();
        let secrets: SharedSecrets = Arc::new(RwLock::new(Arc::new(options.secrets.clone())));
        let actor = Actor::new(options, secrets.clone(), draining.clone(), cancel.clone());
        tasks.spawn(async move {
            let _nobody_waits = ended.send(supervised(ActorType::Controller, actor.run(mails)).await);
        });
        let controller = Self {
            mailbox,
            door,
            desk,
            secrets,
            draining,
            leaving: Arc::default(),
            most,
            cancel: cancel.clone(),
        };
        (controller, Running { tasks, cancel, exit })
    }

    async fn ask<T>(&self, mail: impl FnOnce(oneshot::Sender<T>) -> Mail) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.mailbox.send(mail(sender)).await.ok()?;
        answer.await.ok()
    }

    /// Takes a meeting: accepted only once its lease is held and what the last owner left is read. One that is here already takes the
    /// settings over, and is accepted only once they are written.
    pub async fn assign(&self, assignment: Assignment) -> Assigned {
        let (cause, settings) = (Cause::current(), Box::new(assignment.settings.clone()));
        match self.ask(|answer| Mail::Assign { assignment, answer, cause }).await {
            Some(Claimed::Now(assigned)) => assigned,
            Some(Claimed::Before { mailbox, generation }) => {
                let holds = self.adopt(&mailbox, settings).await;
                if holds { Assigned::Accepted { generation } } else { UNHEALTHY }
            }
            None => Assigned::Rejected(Rejection::Draining),
        }
    }

    /// Has a meeting take settings over. Whoever asks waits here, so that a meeting that is slow keeps no other waiting.
    async fn adopt(&self, meeting: &Mailbox<MeetingMail>, settings: Box<Settings>) -> bool {
        let (taken, answer) = oneshot::channel();
        let mail = MeetingMail::Settings { settings, taken, cause: Cause::current() };
        let asked = async {
            meeting.send(mail).await.ok()?;
            answer.await.ok()
        };
        let clock = &self.door.clock;
        tokio::select! {
            // One that is just ending gives its lease back in a moment: ask again.
            holds = asked => holds.unwrap_or(false),
            () = clock.sleep_until(clock.now() + limits::SETTINGS) => false,
        }
    }

    /// How much there is.
    pub async fn counts(&self) -> Counts {
        self.ask(|answer| Mail::Count { answer }).await.unwrap_or_default()
    }

    /// How much there may be.
    pub const fn most(&self) -> Counts {
        self.most
    }

    /// Whether it owns a meeting.
    pub async fn owns(&self, meeting: &MeetingId) -> bool {
        let meeting = meeting.clone();
        let found = self.ask(|answer| Mail::Find { meeting, answer }).await.flatten();
        found.is_some_and(|mailbox| !mailbox.is_closed())
    }

    /// Takes no proof any more that was made with the secret of before.
    pub fn forget_previous_secret(&self) {
        let mut secrets = self.secrets.write();
        *secrets = Arc::new(Secrets::clone(&secrets).without_previous());
    }

    /// The controller's id.
    pub fn id(&self) -> &str {
        &self.desk.mc_id
    }

    /// Takes no meeting and no client any more. Those that are there stay until the end.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.leaving.notify_one();
    }

    /// Waits until it is told to go away, once.
    pub(crate) async fn drained(&self) {
        self.leaving.notified().await;
    }

    /// Whether it goes away.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }

    /// Whether the store is taken to be there.
    pub fn store_is_there(&self) -> bool {
        self.desk.breaker.lock().is_closed()
    }

    /// Whether it answers slowly, or is nearly full: it serves on, and others are better for what is new.
    pub async fn is_degraded(&self) -> bool {
        let (counts, most) = (self.counts().await, self.most);
        counts.percent_of(most) >= limits::NEARLY_FULL || self.desk.pulse.is_slow(self.door.clock.now())
    }

    /// Serves one session until it ends. A panic of its actor is the end of the connection and of nothing else.
    pub async fn serve(&self, session: Arc<dyn Session>) {
        self.attend(session, None, None).await;
    }

    /// The same for a client that said which trace it belongs to, and that gives its place among those who wait back once it has joined.
    pub async fn attend(
        &self,
        session: Arc<dyn Session>,
        traceparent: Option<&str>,
        waiting: Option<OwnedSemaphorePermit>,
    ) {
        metric::connections(1.0);
        let trace = traceparent.and_then(TraceParent::parse);
        let served = supervised(ActorType::Connection, async {
            // Boxed: what it takes to get a seat is given back before the client stays.
            let seat = Box::pin(self.admit(&session, trace, waiting)).await;
            if let Some(seat) = seat {
                seat.stay(&*session, &self.door).await;
            }
        });
        tokio::select! {
            _ = served => {}
            // Meetings close their own; who has no seat yet is closed here.
            () = self.cancel.cancelled() => session.close_for(meet_wire::CloseCode::Draining),
        }
        metric::connections(-1.0);
        // Kept until the client has heard of the end: a session that is dropped before takes the code of its close with it.
        session.close_for(meet_wire::CloseCode::Done);
        session.closed().await;
    }

    async fn admit(
        &self,
        session: &Arc<dyn Session>,
        trace: Option<TraceParent>,
        waiting: Option<OwnedSemaphorePermit>,
    ) -> Option<Seat> {
        let door = &self.door;
        let mut visitor = match receive(&**session, door).await {
            Ok(visitor) => visitor,
            Err((writer, turned)) => {
                turn_away(&**session, &*door.clock, writer, 0, turned).await;
                return None;
            }
        };
        visitor.trace = visitor.trace.or(trace);
        let began = door.clock.now();
        let (status, turned) = match self.known(&visitor.knock, began).await {
            Ok((join, meeting)) => {
                return visitor.sit(session, door, (join, began), meeting, waiting).await;
            }
            Err(turned) => turned,
        };
        metric::joined(status, door.clock.now().since(began));
        visitor.leave(&**session, &*door.clock, turned).await;
        None
    }

    /// Who a client is and where its meeting is; or how it is counted, and what it is told.
    async fn known(
        &self,
        knock: &Knock,
        now: Tick,
    ) -> Result<(Join, Mailbox<MeetingMail>), (&'static str, Turned)> {
        let door = &self.door;
        let join = identify(knock, door).await.map_err(|turned| ("unauthorized", turned))?;
        if !door.rates.lock().take(&join.user, now) {
            return Err(("rate_limited", too_often()));
        }
        let meeting = knock.meeting.clone();
        let found = self.ask(|answer| Mail::Find { meeting, answer }).await.flatten();
        let nowhere = || ("not_found", error(ErrorCode::NotFound, "there is no such meeting here"));
        Ok((join, found.ok_or_else(nowhere)?))
    }
}

struct Owned {
    mailbox: Mailbox<MeetingMail>,
    participants: Arc<AtomicUsize>,
    generation: u64,
}

impl Owned {
    fn claimed(&self) -> Claimed {
        Claimed::Before { mailbox: self.mailbox.clone(), generation: self.generation }
    }
}

/// What becomes of an assignment.
struct Opened {
    meeting: MeetingId,
    taken: Result<Box<(Guard, MeetingActor)>, Rejection>,
}

struct Actor {
    options: Options,
    secrets: SharedSecrets,
    draining: Arc<AtomicBool>,
    cancel: CancellationToken,
    owned: HashMap<MeetingId, Owned>,
    waiting: HashMap<MeetingId, Vec<oneshot::Sender<Claimed>>>,
    opening: JoinSet<Opened>,
    running: JoinSet<(MeetingId, Ending)>,
}

impl Actor {
    fn new(
        options: Options,
        secrets: SharedSecrets,
        draining: Arc<AtomicBool>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            secrets,
            options,
            draining,
            cancel,
            owned: HashMap::new(),
            waiting: HashMap::new(),
            opening: JoinSet::new(),
            running: JoinSet::new(),
        }
    }

    async fn run(mut self, mut mails: mpsc::Receiver<Mail>) {
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => break,
                Some(done) = self.running.join_next() => self.ended(done),
                Some(opened) = self.opening.join_next() => self.opened(opened),
                mail = mails.recv() => match mail {
                    Some(mail) => self.take(mail),
                    None => break,
                },
            }
            metric::meetings(self.owned.len());
            metric::breaker(!self.options.desk.breaker.lock().is_closed());
        }
        self.cancel.cancel();
        self.opening.shutdown().await;
        while let Some(done) = self.running.join_next().await {
            self.ended(done);
        }
    }

    fn counts(&self) -> Counts {
        let participants = self.owned.values().map(|owned| owned.participants.load(Ordering::Relaxed)).sum();
        Counts { meetings: self.owned.len() + self.waiting.len(), participants }
    }

    fn take(&mut self, mail: Mail) {
        // Who does not wait for the answer any more does not get it.
        match mail {
            Mail::Assign { assignment, answer, cause } => self.assign(assignment, answer, cause),
            Mail::Find { meeting, answer } => {
                let _ = answer.send(self.owned.get(&meeting).map(|owned| owned.mailbox.clone()));
            }
            Mail::Count { answer } => {
                let _ = answer.send(self.counts());
            }
        }
    }

    /// One claim of a meeting at a time, however many ask for it.
    fn assign(&mut self, assignment: Assignment, answer: oneshot::Sender<Claimed>, cause: Cause) {
        if let Some(owned) = self.owned.get(&assignment.meeting) {
            let _ = answer.send(owned.claimed());
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(&assignment.meeting) {
            waiting.push(answer);
            return;
        }
        if self.draining.load(Ordering::Relaxed) {
            let _ = answer.send(Claimed::Now(Assigned::Rejected(Rejection::Draining)));
            return;
        }
        let counts = self.counts();
        let full = counts.meetings >= self.options.max_meetings
            || counts.participants + limits::ESTIMATE > self.options.max_participants;
        if full {
            let _ = answer.send(Claimed::Now(Assigned::Rejected(Rejection::AtCapacity)));
            return;
        }
        self.waiting.insert(assignment.meeting.clone(), vec![answer]);
        let (keeper, desk) = (self.options.keeper.clone(), self.options.desk.clone());
        let terms = Terms::new(self.options.lease_ttl).heartbeat(self.options.lease_renew);
        let (secrets, port) = (self.secrets.clone(), self.options.port.clone());
        let talk_rate = self.options.talk_rate;
        let taking = async move {
            let meeting = assignment.meeting.clone();
            let open = open(keeper, desk, terms, secrets, (port, talk_rate), assignment);
            let taken = match supervised(ActorType::Meeting, open).await {
                Exit::Clean(taken) => taken.map(Box::new),
                Exit::Panicked(_) => Err(Rejection::Unhealthy),
            };
            Opened { meeting, taken }
        };
        // What it takes is logged under the request of who asked.
        self.opening.spawn(cause.run(taking));
    }

    fn opened(&mut self, opened: Result<Opened, tokio::task::JoinError>) {
        let Ok(Opened { meeting, taken }) = opened else { return };
        let mut waiting = self.waiting.remove(&meeting).unwrap_or_default().into_iter();
        match taken {
            Err(rejection) => waiting.for_each(|answer| {
                let _ = answer.send(Claimed::Now(Assigned::Rejected(rejection.clone())));
            }),
            Ok(taken) => {
                let (guard, actor) = *taken;
                let owned = self.begin(meeting, guard, actor);
                let accepted = Assigned::Accepted { generation: owned.generation };
                // It was opened with the settings of the first; those of the others may differ.
                waiting.next().map(|first| first.send(Claimed::Now(accepted)));
                waiting.for_each(|answer| {
                    let _ = answer.send(owned.claimed());
                });
            }
        }
    }

    /// Lets a meeting run that was opened.
    fn begin(&mut self, meeting: MeetingId, guard: Guard, actor: MeetingActor) -> &Owned {
        let generation = guard.generation().get();
        let (mailbox, mails) = Mailbox::new(ActorType::Meeting, limits::MAILBOX);
        let participants = actor.participants.clone();
        let (cancel, home) = (self.cancel.child_token(), self.options.home.clone());
        let (clock, name) = (self.options.keeper.clock().clone(), meeting.clone());
        self.running.spawn(async move {
            let ending = match supervised(ActorType::Meeting, actor.run(mails, cancel)).await {
                Exit::Clean(ending) => ending,
                Exit::Panicked(_) => Ending::Broken,
            };
            if let Err(error) = guard.release().await {
                tracing::debug!(target: metric::TARGET, meeting = %name, %error, "the lease ends by its TTL");
            } else if ending == Ending::Over {
                tokio::select! {
                    () = home.ended(&name, generation) => {}
                    () = clock.sleep_until(clock.now() + limits::GOODBYE) => {}
                }
            }
            (name, ending)
        });
        self.owned.entry(meeting).insert_entry(Owned { mailbox, participants, generation }).into_mut()
    }

    fn ended(&mut self, done: Result<(MeetingId, Ending), tokio::task::JoinError>) {
        let Ok((meeting, ending)) = done else { return };
        self.owned.remove(&meeting);
        tracing::info!(target: metric::TARGET, %meeting, ?ending, "the meeting ended here");
    }
}

/// Holds the lease, then reads.
async fn open(
    keeper: Keeper,
    desk: Desk,
    terms: Terms,
    secrets: SharedSecrets,
    (port, talk_rate): (Arc<dyn MediaPort>, Rate),
    assignment: Assignment,
) -> Result<(Guard, MeetingActor), Rejection> {
    let Assignment { meeting, settings, mut handlers } = assignment;
    handlers.truncate(limits::HANDLERS);
    let key = Keys::new(&meeting).lease().map_err(|_| Rejection::Unhealthy)?;
    let clock = keeper.clock().clone();
    let claimed = tokio::select! {
        claimed = keeper.try_acquire(key, terms) => claimed,
        () = clock.sleep_until(clock.now() + limits::CLAIM) => return Err(Rejection::Unhealthy),
    };
    let guard = claimed.map_err(|error| match error {
        KeeperError::Busy { busy, .. } => {
            Rejection::AlreadyOwned { owner: busy.holder.map(|holder| holder.to_string()) }
        }
        error => {
            tracing::warn!(target: metric::TARGET, %meeting, %error, "the lease could not be had");
            Rejection::Unhealthy
        }
    })?;
    let opened = Ledger::open(desk.clone(), guard.share(), &meeting, &settings, &handlers).await;
    let opened = opened.map_err(|error| {
        tracing::warn!(target: metric::TARGET, %meeting, %error, "the meeting could not be read");
        Rejection::Unhealthy
    })?;
    let actor = MeetingActor::new(desk, secrets, (port, talk_rate), guard.share(), opened);
    Ok((guard, actor))
}
