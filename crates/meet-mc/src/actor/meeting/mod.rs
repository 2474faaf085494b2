//! The actor that owns one meeting while it runs here.
//!
//! ```text
//! message │ handler result │ timer ──▶ Input ──apply(state)──▶ Effects ──▶ Writer ──▶ state ──▶ Connections
//! ```
//!
//! 1. A mailbox message, a finished handler call or a timer becomes an [`Input`]; the phase table and `apply` decide.
//! 2. [`Writer`] persists the changes: at once (`Sync`) or with the next flush (`Async`). A failed write changes nothing.
//! 3. The state takes the changes; a join is answered first, so that the client sees its seat before any event.
//! 4. [`Connections`] publishes new events, then the effects run: acknowledge, send, close, mute, end.
//! 5. Effects of an `Async` change wait in the writer until the flush; while the store is unavailable they run at once,
//!    marked as not durable. So an event number that was published as durable never gets other content.
//! 6. [`HandlerCalls`] registers the meeting at its media handlers and sends mutes; results come back as inputs.
//! 7. A panic is survived once: the state is read again from the store and the message that caused it is skipped.
//! 8. A move ([`MoveStep`]) freezes the meeting, then thaws it or redirects its clients until they have left.
//! 9. The loop ends with an [`EndReason`]; its [`Teardown`] says how connections close and what is written last.

mod connections;
mod end;
mod handler_set;
mod handlers;
mod layouts;
mod move_step;
mod ownership;
mod process;
mod request_limiter;
mod waiting_joins;
mod writer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tenure_keeper::LeaseHandle;
use tenure_lease::{Clock, Entropy, Tick};
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::signaling::ErrorCode;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::actor::exit::{Exit, supervise};
use crate::actor::outbox::{Outbox, encode_frame};
use crate::actor::remote::MediaHandlers;
use crate::actor::trace::RequestTrace;
use crate::actor::{ActorType, limits};
use crate::grants::GrantIssuer;
use crate::meeting::{
    HandlerInfo, Input, Join, Meeting, Now, Phase, Presence, Refusal, Request, Rule, Settings, Trigger,
};
use crate::{ControllerState, Ledger, RateLimit, convert, metric};

use connections::Connections;
#[cfg(doc)]
use end::Teardown;
use handlers::{HandlerCalls, HandlerResult};
use layouts::Layouts;
use ownership::Ownership;
use request_limiter::RequestLimiter;
use waiting_joins::WaitingJoins;
use writer::Writer;

pub(crate) use end::EndReason;
pub(crate) use move_step::MoveStep;
pub(crate) use ownership::LeaseTerms;

/// The answer to a join.
pub(crate) enum JoinReply {
    /// The participant has a seat.
    Seated { participant: Id, epoch: u64 },
    /// The participant waits for a host; another reply follows.
    Waits { participant: Id, next: oneshot::Receiver<JoinReply> },
    /// The message that refuses it.
    Refused(Box<Payload>),
}

/// The secrets of binding tokens; the previous secret is dropped at runtime.
pub(crate) type SharedSecrets = Arc<RwLock<Arc<Secrets>>>;

/// A message to the meeting, with the trace of the request behind it.
pub(crate) struct Envelope {
    pub(crate) message: MeetingMessage,
    pub(crate) trace: RequestTrace,
}

pub(crate) enum MeetingMessage {
    /// A client with a verified token joins.
    Join(PendingJoin),
    /// A participant sent a request.
    Request { participant: Id, epoch: u64, seq: u64, request: Request },
    /// A connection ended.
    Disconnected { participant: Id, epoch: u64 },
    /// A participant that waits for a host disconnected.
    StoppedWaiting { participant: Id },
    /// What a participant says about its connections to media handlers: their URLs, and whether they are connected.
    MediaConnections { participant: Id, epoch: u64, connections: Vec<(String, bool)> },
    /// A media handler reports who speaks, the loudest first.
    Speakers { participants: Vec<Id> },
    /// GC's record changed. The reply says whether the meeting now has these settings.
    Settings { settings: Box<Settings>, reply: oneshot::Sender<bool> },
    /// An operator ends the meeting. The reply says whether it has ended.
    End { reply: oneshot::Sender<bool> },
    /// The next step of a move.
    Move(MoveStep),
}

pub(crate) struct PendingJoin {
    pub(crate) join: Box<Join>,
    pub(crate) seq: u64,
    pub(crate) outbox: Outbox,
    pub(crate) reply: oneshot::Sender<JoinReply>,
}

/// The participant and sequence number of the request that an answer belongs to.
#[derive(Clone, Copy)]
struct Requester {
    participant: Id,
    seq: u64,
}

/// Who waits for the outcome of an input.
enum Caller {
    None,
    Requester(Requester),
    Joining(PendingJoin),
}

enum WorkItem {
    Message(MeetingMessage),
    HandlerResult(HandlerResult),
    Timer,
}

/// What a meeting uses beside its state.
#[derive(Clone)]
pub(crate) struct MeetingOptions {
    pub(crate) media_handlers: Arc<dyn MediaHandlers>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Requests per seat.
    pub(crate) request_limit: RateLimit,
    /// How the lease is acquired anew.
    pub(crate) lease_terms: LeaseTerms,
}

pub(crate) struct MeetingActor {
    shared: ControllerState,
    clock: Arc<dyn Clock>,
    secrets: SharedSecrets,
    ownership: Ownership,
    participants: Arc<AtomicUsize>,
    state: Meeting,
    writer: Writer,
    connections: Connections,
    handlers: HandlerCalls,
    grants: GrantIssuer,
    layouts: Layouts,
    waiting: WaitingJoins,
    /// Participants that a host admitted and whose joins are not processed yet.
    admitted: VecDeque<Id>,
    request_limiter: RequestLimiter,
    /// Connections that ended and whose seats could not be changed yet. At most one per seat.
    unrecorded: Vec<(Id, u64)>,
    /// How long clients are redirected after a move.
    redirect_until: Option<Tick>,
    panics: u32,
}

impl MeetingActor {
    pub(crate) fn new(
        shared: ControllerState,
        secrets: SharedSecrets,
        MeetingOptions { media_handlers, entropy, request_limit, lease_terms }: MeetingOptions,
        held: LeaseHandle,
        (ledger, state): (Ledger, Meeting),
    ) -> Self {
        let clock = shared.store.clock();
        Self {
            participants: Arc::new(AtomicUsize::new(state.seats.len())),
            writer: Writer::new(ledger, clock.clone()),
            connections: Connections::default(),
            handlers: HandlerCalls::new(media_handlers, held.generation().get()),
            grants: GrantIssuer { entropy, generation: held.generation().get() },
            layouts: Layouts::default(),
            waiting: WaitingJoins::default(),
            admitted: VecDeque::new(),
            request_limiter: RequestLimiter::new(request_limit),
            unrecorded: Vec::new(),
            redirect_until: None,
            panics: 0,
            ownership: Ownership::new(held, lease_terms),
            shared,
            clock,
            secrets,
            state,
        }
    }

    /// The number of seats, for the controller's counts.
    pub(crate) fn participant_count(&self) -> Arc<AtomicUsize> {
        self.participants.clone()
    }

    /// The generation under which the meeting is held, for the controller.
    pub(crate) fn generation(&self) -> Arc<AtomicU64> {
        self.ownership.generation()
    }

    /// The last event of the meeting.
    pub(crate) fn last_event(&self) -> u64 {
        self.state.log.last()
    }

    /// Runs until the meeting ends at this controller, then closes the remaining connections.
    pub(crate) async fn run(
        mut self,
        mut mailbox: mpsc::Receiver<Envelope>,
        cancel: CancellationToken,
    ) -> EndReason {
        let reason = loop {
            if self.has_departed() {
                break EndReason::Moved;
            }
            // Subscribed before the check, so that no change is missed.
            let mut lease = self.ownership.held.states();
            if let Err(reason) = self.check_lease() {
                break reason;
            }
            let (wake, clock) = (self.next_wake(), self.clock.clone());
            let timer = async move {
                match wake {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => break self.stop_reason(),
                _ = lease.changed() => Ok(()),
                Some(result) = self.handlers.next_result() => {
                    self.supervise_work(WorkItem::HandlerResult(result), RequestTrace::none()).await
                }
                () = timer => self.supervise_work(WorkItem::Timer, RequestTrace::none()).await,
                envelope = mailbox.recv() => match envelope {
                    Some(Envelope { message, trace }) => {
                        self.supervise_work(WorkItem::Message(message), trace).await
                    }
                    None => break EndReason::Stopped,
                },
            };
            if let Err(reason) = outcome {
                break reason;
            }
        };
        self.tear_down(reason).await;
        reason
    }

    async fn tear_down(&mut self, reason: EndReason) {
        let teardown = reason.teardown();
        self.connections.close_all(teardown.code, teardown.deliver_queued);
        self.waiting.close_all(teardown.code);
        if let Err(error) = self.writer.close(teardown.last_write).await {
            tracing::warn!(target: metric::TARGET, meeting = %self.state.id, %error, "final write failed");
        }
        self.ownership.release().await;
        self.handlers.stop().await;
        if teardown.release_handlers {
            tokio::select! {
                biased;
                () = self.handlers.release(&self.state) => {}
                // Handlers drop a meeting on their own once it is idle.
                () = self.clock.sleep_until(self.clock.now() + limits::RELEASE) => {}
            }
        }
    }

    fn stop_reason(&self) -> EndReason {
        match self.state.phase {
            Phase::Migrating { .. } => EndReason::Moved,
            _ => EndReason::Stopped,
        }
    }

    fn next_work(&self) -> Tick {
        let others = [
            self.state.next_deadline(),
            self.handlers.next_wake(),
            self.layouts.next_wake(),
            self.ownership.next_wake(),
        ];
        others.into_iter().flatten().fold(self.writer.next_wake(), Tick::min)
    }

    fn now(&self) -> Now {
        Now { tick: self.clock.now(), wall: self.clock.wall() }
    }

    /// Performs one work item. After the first panic the state is reloaded and the item is skipped.
    async fn supervise_work(&mut self, work: WorkItem, trace: RequestTrace) -> Result<(), EndReason> {
        let began = self.clock.now();
        let done = match supervise(ActorType::Meeting, trace.run(self.perform_all(work))).await {
            Exit::Clean(done) => done,
            Exit::Panicked(_) if self.panics >= limits::PANICS => Err(EndReason::Panicked),
            Exit::Panicked(message) => {
                self.panics += 1;
                tracing::error!(target: metric::TARGET, meeting = %self.state.id, message, "meeting reloaded after a panic; the message that caused it is skipped");
                self.reload().await
            }
        };
        let now = self.clock.now();
        metric::handled(now.since(began));
        self.shared.latency.record(now, now.since(began));
        self.participants.store(self.state.seats.len(), Ordering::Relaxed);
        done
    }

    async fn reload(&mut self) -> Result<(), EndReason> {
        let (settings, handlers) = (self.state.settings.clone(), self.state.handlers.clone());
        let opened = Ledger::open(
            self.shared.clone(),
            self.ownership.held.share(),
            &self.state.id,
            &settings,
            &handlers,
        )
        .await;
        let Ok((ledger, state)) = opened else { return Err(EndReason::Panicked) };
        self.state = state;
        self.writer.replace(ledger);
        // Participants that wait are not persisted: they join again.
        self.waiting.close_all(CloseCode::Draining);
        self.admitted.clear();
        // The connections outlived the panic.
        for (participant, epoch) in self.connections.epochs() {
            let seat = self.state.seats.get_mut(&participant);
            if let Some(seat) = seat.filter(|seat| seat.epoch == epoch) {
                seat.presence = Presence::Connected;
            }
        }
        Ok(())
    }

    /// Performs a work item, then disconnects the seats whose connections turned out to lag.
    async fn perform_all(&mut self, work: WorkItem) -> Result<(), EndReason> {
        self.perform(work).await?;
        self.admit_waiting().await?;
        self.connections.flush();
        while let Some((participant, epoch)) = self.connections.next_lagging() {
            self.perform(WorkItem::Message(MeetingMessage::Disconnected { participant, epoch })).await?;
            self.connections.flush();
        }
        Ok(())
    }

    async fn perform(&mut self, work: WorkItem) -> Result<(), EndReason> {
        match work {
            WorkItem::Timer => self.on_timer().await,
            WorkItem::HandlerResult(result) => {
                match self.handlers.accept(result, &self.state, self.clock.now()) {
                    Some(Input::Handlers(handlers)) => self.replace_handlers(handlers).await,
                    Some(input) => self.process(input, Caller::None).await,
                    None => Ok(()),
                }
            }
            WorkItem::Message(MeetingMessage::Disconnected { participant, epoch }) => {
                self.connections.remove(participant, epoch);
                self.process(Input::Disconnected { participant, epoch }, Caller::None).await
            }
            WorkItem::Message(MeetingMessage::StoppedWaiting { participant }) => {
                self.waiting.take(participant);
                self.process(Input::StoppedWaiting { participant }, Caller::None).await
            }
            WorkItem::Message(MeetingMessage::MediaConnections { participant, epoch, connections }) => {
                self.on_media_connections(participant, epoch, &connections);
                Ok(())
            }
            WorkItem::Message(MeetingMessage::Speakers { participants }) => {
                self.process(Input::Speakers { participants }, Caller::None).await
            }
            WorkItem::Message(MeetingMessage::Request { participant, epoch, seq, request }) => {
                let caller = Caller::Requester(Requester { participant, seq });
                if !self.request_limiter.allows(participant, &self.state, self.clock.now()) {
                    let refusal = Refusal::RateLimited("too many requests; retry later");
                    self.refuse(convert::refusal_to_wire(&self.state, &refusal), caller);
                    return Ok(());
                }
                self.process(Input::Request { participant, epoch, seq, request }, caller).await
            }
            WorkItem::Message(MeetingMessage::Join(pending)) => {
                let caller = Caller::Joining(pending);
                if self.state.handlers.is_empty() {
                    let message = "the meeting has no media handler";
                    self.refuse(convert::error_payload(ErrorCode::InternalError, message), caller);
                    return Ok(());
                }
                self.process_join(caller).await
            }
            WorkItem::Message(MeetingMessage::Move(step)) => self.on_move_step(step).await,
            WorkItem::Message(MeetingMessage::Settings { settings, reply }) => {
                self.adopt_settings(&settings, reply).await
            }
            WorkItem::Message(MeetingMessage::End { reply }) => {
                let processed = self.process(Input::End, Caller::None).await;
                let _caller_gone = reply.send(self.state.phase == Phase::Complete);
                processed
            }
        }
    }

    /// Replaces the media handlers and gives every participant grants for the new ones.
    async fn replace_handlers(&mut self, handlers: Vec<HandlerInfo>) -> Result<(), EndReason> {
        self.process(Input::Handlers(handlers.clone()), Caller::None).await?;
        if self.state.handlers == handlers {
            for participant in self.connections.participants() {
                self.send_media_servers(participant, 0);
            }
        }
        Ok(())
    }

    fn on_media_connections(&mut self, participant: Id, epoch: u64, connections: &[(String, bool)]) {
        let now = self.clock.now();
        let seat = self.state.seats.get(&participant).filter(|seat| seat.is_connected_with(epoch));
        let Some(user) = seat.map(|seat| seat.user.clone()) else { return };
        if !self.request_limiter.allows(participant, &self.state, now) {
            return;
        }
        for (url, connected) in connections {
            self.handlers.report(&self.state, &user, url, *connected, now);
        }
    }

    /// Adopts settings. The reply is sent once they are persisted.
    async fn adopt_settings(
        &mut self,
        wanted: &Settings,
        reply: oneshot::Sender<bool>,
    ) -> Result<(), EndReason> {
        let Settings { max_participants, allow_guests, waiting_room, .. } = *wanted;
        let input = Input::Settings { max_participants, allow_guests, waiting_room };
        self.process(input, Caller::None).await?;
        let current = &self.state.settings;
        let adopted = (current.max_participants, current.allow_guests, current.waiting_room)
            == (max_participants, allow_guests, waiting_room);
        let _caller_gone = reply.send(adopted);
        Ok(())
    }

    /// Due deadlines of the meeting, then the writer's heartbeat and flush. Nothing while the meeting moves.
    async fn on_timer(&mut self) -> Result<(), EndReason> {
        if self.state.phase.rule(Trigger::Timer) != Rule::Apply {
            return Ok(());
        }
        self.regain().await?;
        let now = self.clock.now();
        if self.state.next_deadline().is_some_and(|at| now >= at) {
            self.process(Input::Timer, Caller::None).await?;
        }
        for (participant, assignments) in self.layouts.changed(&self.state, now) {
            let payload = convert::assignments_to_wire(&self.state, &assignments);
            self.connections.send(participant, encode_frame(Some(payload), 0, 0, None));
        }
        if self.may_act() {
            let secrets = self.secrets.read().clone();
            self.handlers.renew(&self.state, &secrets, now);
        } else {
            self.handlers.postpone(now);
        }
        let flushed = self.writer.on_timer(now).await.map_err(|_| EndReason::OwnershipLost)?;
        self.adopt_doubtful()?;
        if let Some(durability) = flushed {
            self.publish(durability)?;
            for (participant, epoch) in std::mem::take(&mut self.unrecorded) {
                self.process(Input::Disconnected { participant, epoch }, Caller::None).await?;
            }
        }
        Ok(())
    }
}
