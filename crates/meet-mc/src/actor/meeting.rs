//! The actor of one meeting: one loop over a closed set of events. It decides by `apply`, writes by the ledger, then tells.

mod tell;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lease::{Clock, Tick};
use lease_keeper::Held;
use meet_wire::binding::Secrets;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ErrorCode, ErrorMessage, ServerMessage};
use meet_wire::{CloseCode, Id, frame};
use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::cause::Cause;
use crate::actor::exit::{Exit, supervised};
use crate::actor::outbox::Outbox;
use crate::actor::port::MediaPort;
use crate::actor::{ActorType, limits};
use crate::meeting::{
    Context, Effect, Event, Join, Meeting, Now, Presence, Refusal, Request, Settings, Write, apply,
};
use crate::rate::Bucket;
use crate::{Desk, Ledger, LedgerError, Rate, convert, metric};

/// A seat for a connection, or what it is told instead.
pub(crate) type Seated = Result<(Id, u64), Box<Payload>>;

/// The secrets of bindings, of which one is forgotten some day.
pub(crate) type SharedSecrets = Arc<RwLock<Arc<Secrets>>>;

/// What a meeting is sent.
pub(crate) enum Mail {
    /// Somebody knocks, with a good token.
    Join { join: Box<Join>, seq: u64, outbox: Outbox, seated: oneshot::Sender<Seated>, cause: Cause },
    /// Somebody asks for something.
    Asked { participant: Id, epoch: u64, seq: u64, request: Request, cause: Cause },
    /// A connection ended.
    Closed { participant: Id, epoch: u64 },
    /// What GC's record says now; the answer is whether it holds here.
    Settings { settings: Box<Settings>, taken: oneshot::Sender<bool>, cause: Cause },
}

/// How a meeting ended for this controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It is over.
    Over,
    /// Somebody else owns it, or may.
    Lost,
    /// This controller goes away.
    Left,
    /// It panicked once too often.
    Broken,
}

struct Connection {
    epoch: u64,
    outbox: Outbox,
    /// The last event that it was sent, or that was in its welcome.
    seen: u64,
}

/// What is done once an event is written.
struct Owed {
    then: Vec<Effect>,
    asker: Option<Asker>,
}

pub(crate) struct MeetingActor {
    pub(crate) desk: Desk,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secrets: SharedSecrets,
    pub(crate) port: Arc<dyn MediaPort>,
    pub(crate) held: Held,
    pub(crate) participants: Arc<AtomicUsize>,
    state: Meeting,
    ledger: Ledger,
    connections: HashMap<Id, Connection>,
    orders: JoinSet<Option<Event>>,
    /// Connections that took nothing any more; their seats are away.
    gone: Vec<(Id, u64)>,
    /// What waits for a write that nobody else waits for: a number that was told is never given to something else.
    owed: Vec<Owed>,
    panics: u32,
    /// Whether the handlers were told of this owner.
    registered: bool,
    /// How often others were asked for.
    replaced: u32,
    /// Who talks, and how much.
    talk: HashMap<Id, Bucket>,
    talk_rate: Rate,
    flush_at: Option<Tick>,
    alive_at: Tick,
}

/// Who asked, and with which number.
#[derive(Clone, Copy)]
struct Asker {
    participant: Id,
    seq: u64,
}

impl MeetingActor {
    pub(crate) fn new(
        desk: Desk,
        secrets: SharedSecrets,
        (port, talk_rate): (Arc<dyn MediaPort>, Rate),
        held: Held,
        (ledger, state): (Ledger, Meeting),
    ) -> Self {
        let clock = desk.store.clock();
        let alive_at = clock.now() + limits::ALIVE;
        let participants = Arc::new(AtomicUsize::new(state.seats.len()));
        Self {
            desk,
            clock,
            secrets,
            port,
            held,
            participants,
            state,
            ledger,
            connections: HashMap::new(),
            orders: JoinSet::new(),
            gone: Vec::new(),
            owed: Vec::new(),
            panics: 0,
            registered: false,
            replaced: 0,
            talk: HashMap::new(),
            talk_rate,
            flush_at: None,
            alive_at,
        }
    }

    /// Runs until the meeting is over here. Connections that are left are closed, each with its reason.
    pub(crate) async fn run(mut self, mut mails: mpsc::Receiver<Mail>, cancel: CancellationToken) -> Ending {
        let lost = self.held.lost();
        tokio::pin!(lost);
        let ending = loop {
            let wake = self.clock.sleep_until(self.next_wake());
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => break Ending::Left,
                _ = &mut lost => break Ending::Lost,
                Some(done) = self.orders.join_next() => match done {
                    Ok(Some(event)) => self.guarded(Work::Event(event)).await,
                    _ => Ok(()),
                },
                () = wake => self.guarded(Work::Wake).await,
                mail = mails.recv() => match mail {
                    Some(mail) => self.guarded(Work::Mail(mail)).await,
                    None => break Ending::Left,
                },
            };
            if let Err(ending) = outcome {
                break ending;
            }
        };
        self.finish(ending).await;
        ending
    }

    async fn finish(&mut self, ending: Ending) {
        let code = match ending {
            Ending::Over => CloseCode::Done,
            Ending::Lost => CloseCode::Fenced,
            Ending::Left | Ending::Broken => CloseCode::Draining,
        };
        for (_, connection) in self.connections.drain() {
            match ending {
                Ending::Lost => connection.outbox.close_now(code),
                _ => connection.outbox.close(code),
            }
        }
        let kept = match ending {
            Ending::Over => self.ledger.clear().await,
            Ending::Left => self.ledger.flush().await,
            Ending::Lost => self.ledger.inquire().await,
            Ending::Broken => Ok(()),
        };
        if let Err(error) = kept {
            tracing::warn!(target: metric::TARGET, meeting = %self.state.id, %error, "the last write did not land");
        }
        self.orders.shutdown().await;
        if ending == Ending::Over && self.registered {
            let generation = self.held.generation().get();
            tokio::select! {
                () = self.port.release(&self.state.id, generation, &self.state.handlers) => {}
                // Handlers forget by themselves what nobody speaks of.
                () = self.clock.sleep_until(self.clock.now() + limits::RELEASE) => {}
            }
        }
    }

    fn next_wake(&self) -> Tick {
        let deadline = self.state.next_deadline().unwrap_or(self.alive_at);
        deadline.min(self.alive_at).min(self.flush_at.unwrap_or(self.alive_at))
    }

    fn now(&self) -> Now {
        Now { tick: self.clock.now(), wall: self.clock.wall() }
    }

    /// One piece of work. A panic is survived once: the state is read again, and the poisoned work is skipped.
    async fn guarded(&mut self, work: Work) -> Result<(), Ending> {
        let began = self.clock.now();
        let (work, cause) = work.parted();
        let done = match supervised(ActorType::Meeting, cause.run(self.perform_all(work))).await {
            Exit::Clean(done) => done,
            Exit::Panicked(_) if self.panics >= limits::PANICS => Err(Ending::Broken),
            Exit::Panicked(said) => {
                self.panics += 1;
                tracing::error!(target: metric::TARGET, meeting = %self.state.id, said, "read again after a panic; the work that caused it is skipped");
                self.reread().await
            }
        };
        let now = self.clock.now();
        metric::handled(now.since(began));
        self.desk.pulse.note(now, now.since(began));
        self.participants.store(self.state.seats.len(), Ordering::Relaxed);
        done
    }

    async fn reread(&mut self) -> Result<(), Ending> {
        let (settings, handlers) = (self.state.settings.clone(), self.state.handlers.clone());
        let opened =
            Ledger::open(self.desk.clone(), self.held.share(), &self.state.id, &settings, &handlers).await;
        let Ok((ledger, state)) = opened else { return Err(Ending::Broken) };
        (self.ledger, self.state) = (ledger, state);
        self.owed.clear();
        // Their connections did not go.
        for (participant, connection) in &self.connections {
            let seat = self.state.seats.get_mut(participant);
            if let Some(seat) = seat.filter(|seat| seat.epoch == connection.epoch) {
                seat.presence = Presence::Here;
            }
        }
        Ok(())
    }

    /// The work, and what its telling brought to light.
    async fn perform_all(&mut self, work: Work) -> Result<(), Ending> {
        self.perform(work).await?;
        while let Some((participant, epoch)) = self.gone.pop() {
            self.perform(Work::Mail(Mail::Closed { participant, epoch })).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, work: Work) -> Result<(), Ending> {
        match work {
            Work::Wake => self.wake().await,
            Work::Event(event) => {
                let replaced = matches!(event, Event::Handlers(_));
                self.registered &= !replaced;
                self.event(event, None, None).await?;
                if replaced {
                    self.tell_handlers();
                }
                Ok(())
            }
            Work::Mail(Mail::Closed { participant, epoch }) => {
                if self.connections.get(&participant).is_some_and(|known| known.epoch == epoch) {
                    self.connections.remove(&participant);
                }
                self.event(Event::Closed { participant, epoch }, None, None).await
            }
            Work::Mail(Mail::Asked { participant, epoch, seq, request, cause: _ }) => {
                let asker = Asker { participant, seq };
                if !self.may_say(participant, &request) {
                    let refusal = Refusal::TooOften("too much is said from this seat; wait a little");
                    self.refuse(convert::refused(&self.state, &refusal), Some(asker), None, &refusal);
                    return Ok(());
                }
                self.event(Event::Asked { participant, epoch, seq, request }, Some(asker), None).await
            }
            Work::Mail(Mail::Join { join, seq, outbox, seated, cause: _ }) => {
                let joining = Joining { seq, outbox, seated };
                self.event(Event::Join(join), None, Some(joining)).await
            }
            Work::Mail(Mail::Settings { settings, taken, cause: _ }) => self.adopt(&settings, taken).await,
        }
    }

    /// Takes settings over. They hold once they are written, and only then it is said so.
    async fn adopt(&mut self, wanted: &Settings, taken: oneshot::Sender<bool>) -> Result<(), Ending> {
        let (max_participants, allow_guests) = (wanted.max_participants, wanted.allow_guests);
        self.event(Event::Settings { max_participants, allow_guests }, None, None).await?;
        let now = &self.state.settings;
        let holds = (now.max_participants, now.allow_guests) == (max_participants, allow_guests);
        let _nobody_waits = taken.send(holds);
        Ok(())
    }

    /// Whether a seat may say this now.
    fn may_say(&mut self, participant: Id, request: &Request) -> bool {
        if !matches!(request, Request::Chat { .. } | Request::Data { .. }) {
            return true;
        }
        let now = self.clock.now();
        if self.talk.len() > self.state.seats.len() {
            self.talk.retain(|participant, _| self.state.seats.contains_key(participant));
        }
        self.talk.entry(participant).or_insert(Bucket::new(now)).take(self.talk_rate, now)
    }

    /// Time: what is due in the meeting, the sign of life, and what waits to be written.
    async fn wake(&mut self) -> Result<(), Ending> {
        let now = self.clock.now();
        if self.state.next_deadline().is_some_and(|at| now >= at) {
            self.event(Event::Time, None, None).await?;
        }
        if now >= self.alive_at {
            self.alive_at = now + limits::ALIVE;
            // A row that cannot be written is written with the next.
            let _noted = self.ledger.note_alive(self.clock.wall());
            self.flush_at.get_or_insert(now);
        }
        if self.flush_at.is_some_and(|at| now >= at) {
            self.flush_at = None;
            match self.ledger.flush().await {
                Ok(()) => self.settle(None)?,
                Err(error) if error.ends_ownership() => return Err(Ending::Lost),
                Err(_) => {
                    self.flush_at = Some(self.clock.now() + limits::RETRY);
                    self.settle(Some(false))?;
                }
            }
        }
        Ok(())
    }

    /// Decides, writes, absorbs, tells. What could not be written has not happened.
    async fn event(
        &mut self,
        event: Event,
        asker: Option<Asker>,
        joining: Option<Joining>,
    ) -> Result<(), Ending> {
        if joining.is_some() && self.state.handlers.is_empty() {
            self.refuse(without_media(), None, joining, &Refusal::Moving);
            return Ok(());
        }
        let now = self.now();
        let secrets = self.secrets.read().clone();
        let context = Context { now, secrets: &secrets };
        let effects = match apply(&self.state, &event, &context) {
            Ok(effects) => effects,
            Err(refusal) => {
                self.refuse(convert::refused(&self.state, &refusal), asker, joining, &refusal);
                return Ok(());
            }
        };
        let written = match effects.write {
            Write::Sync => self.ledger.write(&effects.changes).await,
            Write::Async => self.ledger.note(&effects.changes),
            Write::None => Ok(()),
        };
        match written {
            Ok(()) => {}
            Err(LedgerError::NonceSpent) => {
                // A proof that fails, like any other: a new seat.
                let Event::Join(mut join) = event else { return Ok(()) };
                join.resume = None;
                return Box::pin(self.event(Event::Join(join), asker, joining)).await;
            }
            Err(error) if error.ends_ownership() => return Err(Ending::Lost),
            Err(error) => {
                tracing::warn!(target: metric::TARGET, meeting = %self.state.id, %error, "nothing changed");
                if matches!(event, Event::Time) {
                    self.postpone(now.tick);
                }
                self.refuse(unavailable(), asker, joining, &Refusal::Moving);
                return Ok(());
            }
        }
        self.measure(&event, &effects, now);
        self.state.absorb(&effects.changes, now);
        if let Some(joining) = joining {
            self.welcome(&effects, joining);
            // Who comes back may be the first whom a new owner sees.
            if !self.registered {
                self.register();
            }
        }
        self.owed.push(Owed { then: effects.then, asker });
        match effects.write {
            // A write took along all that was noted before it.
            Write::Sync => self.settle(None),
            Write::None if self.ledger.is_behind() => Ok(()),
            Write::None => self.settle(None),
            Write::Async => {
                self.flush_at.get_or_insert(now.tick + limits::FLUSH);
                if self.ledger.store_is_there() { Ok(()) } else { self.settle(Some(false)) }
            }
        }
    }

    /// Tells everybody what happened and does what is owed for it.
    fn settle(&mut self, durable: Option<bool>) -> Result<(), Ending> {
        self.broadcast(durable);
        for owed in std::mem::take(&mut self.owed) {
            self.deliver(&owed, durable)?;
        }
        Ok(())
    }

    /// Time could not do its work: it is due again a little later, not at once.
    fn postpone(&mut self, now: Tick) {
        for seat in self.state.seats.values_mut() {
            if let Presence::Away { until, .. } = &mut seat.presence {
                *until = (*until).max(now + limits::RETRY);
            }
        }
        if let Some(since) = &mut self.state.empty_since {
            *since = (*since).max(now + limits::RETRY - crate::meeting::limits::EMPTY);
        }
    }

    fn refuse(
        &mut self,
        payload: Payload,
        asker: Option<Asker>,
        joining: Option<Joining>,
        refusal: &Refusal,
    ) {
        if let Some(joining) = joining {
            let _gone_already = joining.seated.send(Err(Box::new(payload)));
        } else if let Some(asker) = asker
            && *refusal != Refusal::NoSeat
        {
            self.send(asker.participant, vec![encoded(Some(payload), asker.seq, 0, None)]);
        }
    }

    fn send(&mut self, participant: Id, frames: Vec<Bytes>) {
        if let Some(connection) = self.connections.get(&participant)
            && !connection.outbox.push(frames)
        {
            self.gone.push((participant, connection.epoch));
        }
    }
}

struct Joining {
    seq: u64,
    outbox: Outbox,
    seated: oneshot::Sender<Seated>,
}

enum Work {
    Mail(Mail),
    Event(Event),
    Wake,
}

impl Work {
    /// The work, and what it is done for.
    fn parted(mut self) -> (Self, Cause) {
        let cause = match &mut self {
            Self::Mail(
                Mail::Join { cause, .. } | Mail::Asked { cause, .. } | Mail::Settings { cause, .. },
            ) => std::mem::replace(cause, Cause::none()),
            _ => Cause::none(),
        };
        (self, cause)
    }
}

fn without_media() -> Payload {
    Payload::Error(ErrorMessage {
        code: ErrorCode::InternalError.into(),
        message: "the meeting has no media handler".to_owned(),
        details: HashMap::new(),
    })
}

fn unavailable() -> Payload {
    Payload::Error(ErrorMessage {
        code: ErrorCode::Unavailable.into(),
        message: "the store is away; nothing changed".to_owned(),
        details: HashMap::new(),
    })
}

/// A message as a frame. One that is too long for a frame, which no bound lets happen, becomes an error that says so.
pub(crate) fn encoded(payload: Option<Payload>, seq: u64, event_seq: u64, durable: Option<bool>) -> Bytes {
    let message = ServerMessage { payload, seq, event_seq, durable, ..ServerMessage::default() };
    frame::encode(&message).unwrap_or_else(|error| {
        tracing::error!(target: metric::TARGET, %error, seq, event_seq, "a message does not fit into a frame");
        let payload = Payload::Error(ErrorMessage {
            code: ErrorCode::InternalError.into(),
            message: "the answer is too long".to_owned(),
            details: HashMap::new(),
        });
        let message = ServerMessage { payload: Some(payload), seq, event_seq, ..ServerMessage::default() };
        frame::encode(&message).unwrap_or_default()
    })
}
