//! The actor over all meetings of a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease::{Entropy, Ttl};
use lease_keeper::{Error as KeeperError, Guard, Keeper, Terms};
use meet_wire::MeetingId;
use meet_wire::binding::Secrets;
use meet_wire::jwt::Checker;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ErrorCode, ErrorMessage};
use meet_wire::transport::Session;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::connection::{Door, Turned, identify, receive, turn_away};
use crate::actor::exit::{Exit, supervised};
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Ending, Mail as MeetingMail, MeetingActor};
use crate::actor::port::MediaPort;
use crate::actor::{ActorType, limits};
use crate::meeting::{Handler, Settings};
use crate::{Desk, Keys, Ledger, metric};

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
    pub checker: Checker,
    /// Where ids and nonces come from.
    pub entropy: Arc<dyn Entropy>,
    /// The way to media handlers.
    pub port: Arc<dyn MediaPort>,
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

enum Mail {
    Assign { assignment: Assignment, answer: oneshot::Sender<Assigned> },
    Find { meeting: MeetingId, answer: oneshot::Sender<Option<Mailbox<MeetingMail>>> },
    Count { answer: oneshot::Sender<Counts> },
}

/// A controller, for those who ask it.
#[derive(Clone)]
pub struct Controller {
    mailbox: Mailbox<Mail>,
    door: Arc<Door>,
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
            checker: options.checker.clone(),
        });
        let actor = Actor::new(options, cancel.clone());
        tasks.spawn(async move {
            let _nobody_waits = ended.send(supervised(ActorType::Controller, actor.run(mails)).await);
        });
        (Self { mailbox, door, cancel: cancel.clone() }, Running { tasks, cancel, exit })
    }

    async fn ask<T>(&self, mail: impl FnOnce(oneshot::Sender<T>) -> Mail) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        self.mailbox.send(mail(sender)).await.ok()?;
        answer.await.ok()
    }

    /// Takes a meeting: accepted only once its lease is held and what the last owner left is read.
    pub async fn assign(&self, assignment: Assignment) -> Assigned {
        let answered = self.ask(|answer| Mail::Assign { assignment, answer }).await;
        answered.unwrap_or(Assigned::Rejected(Rejection::Draining))
    }

    /// How much there is.
    pub async fn counts(&self) -> Counts {
        self.ask(|answer| Mail::Count { answer }).await.unwrap_or_default()
    }

    /// Serves one session until it ends. A panic of its actor is the end of the connection and of nothing else.
    pub async fn serve(&self, session: Arc<dyn Session>) {
        metric::connections(1.0);
        let served = supervised(ActorType::Connection, self.attend(session.clone()));
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

    async fn attend(&self, session: Arc<dyn Session>) {
        let visitor = match receive(&*session, &self.door).await {
            Ok(visitor) => visitor,
            Err((writer, turned)) => return turn_away(&*session, &*self.door.clock, writer, 0, turned).await,
        };
        let join = match identify(&visitor.knock, &self.door) {
            Ok(join) => join,
            Err(turned) => {
                metric::joined("unauthorized");
                return visitor.leave(&*session, &*self.door.clock, turned).await;
            }
        };
        let meeting = visitor.knock.meeting.clone();
        match self.ask(|answer| Mail::Find { meeting, answer }).await.flatten() {
            Some(mailbox) => visitor.stay(session, &self.door, join, mailbox).await,
            None => {
                metric::joined("not_found");
                let (code, message) =
                    (ErrorCode::NotFound.into(), "there is no such meeting here".to_owned());
                let payload = Payload::Error(ErrorMessage { code, message, details: HashMap::new() });
                visitor.leave(&*session, &*self.door.clock, Turned::Away(Box::new(payload))).await;
            }
        }
    }
}

struct Owned {
    mailbox: Mailbox<MeetingMail>,
    participants: Arc<AtomicUsize>,
    generation: u64,
}

/// What becomes of an assignment.
struct Opened {
    meeting: MeetingId,
    taken: Result<Box<(Guard, MeetingActor)>, Rejection>,
}

struct Actor {
    options: Options,
    secrets: Arc<Secrets>,
    cancel: CancellationToken,
    owned: HashMap<MeetingId, Owned>,
    waiting: HashMap<MeetingId, Vec<oneshot::Sender<Assigned>>>,
    opening: JoinSet<Opened>,
    running: JoinSet<(MeetingId, Ending)>,
}

impl Actor {
    fn new(options: Options, cancel: CancellationToken) -> Self {
        Self {
            secrets: Arc::new(options.secrets.clone()),
            options,
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
            Mail::Assign { assignment, answer } => self.assign(assignment, answer),
            Mail::Find { meeting, answer } => {
                let _ = answer.send(self.owned.get(&meeting).map(|owned| owned.mailbox.clone()));
            }
            Mail::Count { answer } => {
                let _ = answer.send(self.counts());
            }
        }
    }

    /// One claim of a meeting at a time, however many ask for it.
    fn assign(&mut self, assignment: Assignment, answer: oneshot::Sender<Assigned>) {
        if let Some(owned) = self.owned.get(&assignment.meeting) {
            // One that is just ending gives its lease back in a moment: ask again.
            let generation = owned.generation;
            let ending = owned.mailbox.is_closed();
            let _ = answer.send(if ending { UNHEALTHY } else { Assigned::Accepted { generation } });
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(&assignment.meeting) {
            waiting.push(answer);
            return;
        }
        let counts = self.counts();
        let full = counts.meetings >= self.options.max_meetings
            || counts.participants + limits::ESTIMATE > self.options.max_participants;
        if full {
            let _ = answer.send(Assigned::Rejected(Rejection::AtCapacity));
            return;
        }
        self.waiting.insert(assignment.meeting.clone(), vec![answer]);
        let (keeper, desk) = (self.options.keeper.clone(), self.options.desk.clone());
        let terms = Terms::new(self.options.lease_ttl).heartbeat(self.options.lease_renew);
        let (secrets, port) = (self.secrets.clone(), self.options.port.clone());
        self.opening.spawn(async move {
            let meeting = assignment.meeting.clone();
            let open = open(keeper, desk, terms, secrets, port, assignment);
            let taken = match supervised(ActorType::Meeting, open).await {
                Exit::Clean(taken) => taken.map(Box::new),
                Exit::Panicked(_) => Err(Rejection::Unhealthy),
            };
            Opened { meeting, taken }
        });
    }

    fn opened(&mut self, opened: Result<Opened, tokio::task::JoinError>) {
        let Ok(Opened { meeting, taken }) = opened else { return };
        let waiting = self.waiting.remove(&meeting).unwrap_or_default();
        let assigned = match taken {
            Err(rejection) => Assigned::Rejected(rejection),
            Ok(taken) => {
                let (guard, actor) = *taken;
                let generation = guard.generation().get();
                let (mailbox, mails) = Mailbox::new(ActorType::Meeting, limits::MAILBOX);
                let participants = actor.participants.clone();
                self.owned.insert(meeting.clone(), Owned { mailbox, participants, generation });
                let cancel = self.cancel.child_token();
                self.running.spawn(async move {
                    let ending = match supervised(ActorType::Meeting, actor.run(mails, cancel)).await {
                        Exit::Clean(ending) => ending,
                        Exit::Panicked(_) => Ending::Broken,
                    };
                    if let Err(error) = guard.release().await {
                        tracing::debug!(target: metric::TARGET, %meeting, %error, "the lease ends by its TTL");
                    }
                    (meeting, ending)
                });
                Assigned::Accepted { generation }
            }
        };
        for answer in waiting {
            let _ = answer.send(assigned.clone());
        }
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
    secrets: Arc<Secrets>,
    port: Arc<dyn MediaPort>,
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
    let actor = MeetingActor::new(desk, secrets, port, guard.share(), opened);
    Ok((guard, actor))
}
