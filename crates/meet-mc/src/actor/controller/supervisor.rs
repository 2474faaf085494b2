//! The actor that owns the running meetings of a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_keeper::{Guard, Terms};
use tenure_meet_wire::MeetingId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::meeting_task::MeetingTask;
use super::open::{LeaseSource, Opening};
use super::{Assigned, Assignment, Counts, Options, Rejection};
use crate::actor::exit::{Exit, supervise};
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{EndReason, Envelope, LeaseTerms, MeetingActor, MeetingOptions, SharedSecrets};
use crate::actor::moving::{
    Announced, Arrival, Arriving, MeetingSummary, MeetingWaiter, MoveContext, MoveOrder, MoveOutcome,
    OpeningMeeting, Resumed, RunningState,
};
use crate::actor::trace::RequestTrace;
use crate::actor::{ActorType, limits};
use crate::metric;

/// The supervisor's answer to an assignment.
pub(crate) enum AssignReply {
    Decided(Assigned),
    /// The meeting already runs here, maybe with other settings.
    AlreadyRunning {
        mailbox: Mailbox<Envelope>,
        generation: u64,
    },
}

/// Where a client finds its meeting.
pub(super) enum Found {
    /// It runs here, or redirects its clients.
    Running {
        mailbox: Mailbox<Envelope>,
        state: Arc<RunningState>,
    },
    /// It is being opened.
    Opening(MeetingWaiter),
    Nowhere,
}

pub(super) enum ControllerMessage {
    Assign {
        assignment: Assignment,
        reply: oneshot::Sender<AssignReply>,
        trace: RequestTrace,
    },
    Find {
        meeting: MeetingId,
        reply: oneshot::Sender<Found>,
    },
    Count {
        reply: oneshot::Sender<Counts>,
    },
    /// The generation under which a meeting is held here; zero while it is being opened.
    Probe {
        meeting: MeetingId,
        reply: oneshot::Sender<Option<u64>>,
    },
    #[cfg(test)]
    Panic,
    /// Another controller announces a move to this one.
    Announce {
        arriving: Arriving,
        reply: oneshot::Sender<Announced>,
    },
    /// Whether this controller waits for the lease of a meeting that leaves this generation.
    Expects {
        meeting: MeetingId,
        generation: u64,
        reply: oneshot::Sender<bool>,
    },
    /// Another controller runs a meeting that left this one.
    Resumed(Resumed),
    /// Move a meeting away.
    Move {
        meeting: MeetingId,
        order: MoveOrder,
    },
    /// All meetings that run here.
    List {
        reply: oneshot::Sender<Vec<MeetingSummary>>,
    },
    /// The controller drains: meetings that are about to arrive stay where they are.
    Withdraw,
}

struct RunningMeeting {
    mailbox: Mailbox<Envelope>,
    orders: mpsc::Sender<MoveOrder>,
    state: Arc<RunningState>,
}

impl RunningMeeting {
    fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Relaxed)
    }

    fn already_running(&self) -> AssignReply {
        AssignReply::AlreadyRunning { mailbox: self.mailbox.clone(), generation: self.generation() }
    }
}

struct Opened {
    meeting: MeetingId,
    number: u64,
    result: Result<Box<(Guard, MeetingActor)>, Rejection>,
}

pub(super) struct Supervisor {
    options: Options,
    secrets: SharedSecrets,
    draining: Arc<AtomicBool>,
    cancel: CancellationToken,
    meetings: HashMap<MeetingId, RunningMeeting>,
    opening: HashMap<MeetingId, OpeningMeeting>,
    openings: JoinSet<Opened>,
    /// Numbers the openings.
    opened: u64,
    running: JoinSet<(MeetingId, EndReason)>,
    /// Reports to previous owners.
    reports: JoinSet<()>,
}

impl Supervisor {
    pub(super) fn new(
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
            meetings: HashMap::new(),
            opening: HashMap::new(),
            openings: JoinSet::new(),
            opened: 0,
            running: JoinSet::new(),
            reports: JoinSet::new(),
        }
    }

    /// Runs until the shutdown, or until it panics. Either way meetings flush and close their clients before this returns.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<ControllerMessage>) -> Exit<()> {
        let exit = supervise(ActorType::Controller, self.serve(&mut messages)).await;
        self.cancel.cancel();
        messages.close();
        self.openings.shutdown().await;
        while let Some(ended) = self.running.join_next().await {
            self.on_ended(ended);
        }
        exit
    }

    async fn serve(&mut self, messages: &mut mpsc::Receiver<ControllerMessage>) {
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => break,
                Some(ended) = self.running.join_next() => self.on_ended(ended),
                Some(opened) = self.openings.join_next() => self.on_opened(opened),
                Some(_reported) = self.reports.join_next() => {}
                message = messages.recv() => match message {
                    Some(message) => self.on_message(message),
                    None => break,
                },
            }
            metric::meetings(self.meetings.len());
            metric::breaker(!self.options.shared.breaker.lock().is_closed());
        }
    }

    /// Meetings that moved away do not count.
    fn here(&self) -> impl Iterator<Item = (&MeetingId, &RunningMeeting)> {
        self.meetings.iter().filter(|(_, meeting)| !meeting.state.has_moved())
    }

    fn counts(&self) -> Counts {
        let participants = self.here().map(|(_, meeting)| meeting.state.participants.load(Ordering::Relaxed));
        Counts { participants: participants.sum(), meetings: self.here().count() + self.opening.len() }
    }

    fn on_message(&mut self, message: ControllerMessage) {
        // A caller that gave up does not receive its reply.
        match message {
            ControllerMessage::Assign { assignment, reply, trace } => self.assign(assignment, reply, trace),
            ControllerMessage::Find { meeting, reply } => drop(reply.send(self.find(&meeting))),
            #[cfg(test)]
            ControllerMessage::Panic => panic!("a defect of the supervisor"),
            ControllerMessage::Probe { meeting, reply } => {
                let running = self.meetings.get(&meeting).filter(|meeting| !meeting.state.has_moved());
                let opening = self.opening.contains_key(&meeting).then_some(0);
                let _ = reply.send(running.map(RunningMeeting::generation).or(opening));
            }
            ControllerMessage::Count { reply } => {
                // Health asks every second.
                let deepest = self.meetings.values().map(|running| running.mailbox.depth()).max();
                metric::mailboxes(|kind| match kind {
                    ActorType::Meeting => deepest.unwrap_or_default(),
                    ActorType::Controller | ActorType::Connection => 0,
                });
                let _ = reply.send(self.counts());
            }
            ControllerMessage::Announce { arriving, reply } => self.announce(arriving, reply),
            ControllerMessage::Expects { meeting, generation, reply } => {
                let arrival = self.opening.get(&meeting).and_then(|opening| opening.arrival.as_ref());
                let _ = reply.send(arrival.is_some_and(|arrival| arrival.generation == generation));
            }
            ControllerMessage::Resumed(resumed) => {
                if let Some(meeting) = self.meetings.get(&resumed.meeting) {
                    meeting.state.resumed.send_if_modified(|known| {
                        let newer = resumed.generation > *known;
                        *known = resumed.generation.max(*known);
                        newer
                    });
                }
            }
            ControllerMessage::Move { meeting, order } => self.order_move(&meeting, order),
            ControllerMessage::List { reply } => {
                let summary = |(id, meeting): (&MeetingId, &RunningMeeting)| MeetingSummary {
                    meeting: id.clone(),
                    participants: meeting.state.participants.load(Ordering::Relaxed),
                    generation: meeting.generation(),
                };
                let _ = reply.send(self.here().map(summary).collect());
            }
            ControllerMessage::Withdraw => {
                let arriving = self.opening.values().filter(|opening| opening.arrival.is_some());
                arriving.for_each(|opening| opening.cancel.cancel());
            }
        }
    }

    /// A meeting that is about to return is found where it will run, not where it redirects.
    fn find(&self, meeting: &MeetingId) -> Found {
        match (self.opening.get(meeting), self.meetings.get(meeting)) {
            (_, Some(running)) if !running.state.has_moved() => {
                Found::Running { mailbox: running.mailbox.clone(), state: running.state.clone() }
            }
            (Some(opening), _) => Found::Opening(opening.waiter()),
            (None, Some(moved)) => {
                Found::Running { mailbox: moved.mailbox.clone(), state: moved.state.clone() }
            }
            (None, None) => Found::Nowhere,
        }
    }

    /// Concurrent assignments of a meeting share one claim of its lease.
    fn assign(&mut self, assignment: Assignment, reply: oneshot::Sender<AssignReply>, trace: RequestTrace) {
        let running = self.meetings.get(&assignment.meeting).filter(|meeting| !meeting.state.has_moved());
        if let Some(meeting) = running {
            let _ = reply.send(meeting.already_running());
            return;
        }
        if let Some(opening) = self.opening.get_mut(&assignment.meeting) {
            opening.replies.push(reply);
            return;
        }
        if let Some(rejection) = self.reject_new() {
            let _ = reply.send(AssignReply::Decided(Assigned::Rejected(rejection)));
            return;
        }
        let meeting = assignment.meeting.clone();
        self.open(meeting, LeaseSource::Assigned(assignment), (vec![reply], None), trace);
    }

    /// Waits for the lease of a meeting that another controller transfers. A repeated announcement counts the clients
    /// that wait here.
    fn announce(&mut self, arriving: Arriving, reply: oneshot::Sender<Announced>) {
        let opening = self.opening.get(&arriving.meeting);
        if let Some(arrival) = opening.and_then(|opening| opening.arrival.as_ref())
            && (&arrival.from_mc, arrival.generation) == (&arriving.from_mc, arriving.generation)
        {
            let parked = arrival.parked.load(Ordering::Relaxed);
            let _ = reply.send(Announced::Accepted { parked });
            return;
        }
        let running = self.meetings.get(&arriving.meeting).filter(|meeting| !meeting.state.has_moved());
        let rejection = match (running, opening) {
            (Some(_), _) => Some(Rejection::AlreadyOwned { owner: Some(self.options.shared.mc_id.clone()) }),
            (None, Some(opening)) if opening.arrival.is_none() => {
                Some(Rejection::AlreadyOwned { owner: Some(self.options.shared.mc_id.clone()) })
            }
            _ => self.reject_new(),
        };
        if let Some(rejection) = rejection {
            let _ = reply.send(Announced::Rejected(rejection));
            return;
        }
        // Another controller owns it since, or the same one with another generation.
        if let Some(outdated) = self.opening.remove(&arriving.meeting) {
            outdated.cancel.cancel();
        }
        let arrival = Arc::new(Arrival::new(&arriving));
        let meeting = arriving.meeting.clone();
        let claim = LeaseSource::Announced { arriving, arrival: arrival.clone(), reply };
        self.open(meeting, claim, (Vec::new(), Some(arrival)), RequestTrace::current());
    }

    fn open(
        &mut self,
        meeting: MeetingId,
        claim: LeaseSource,
        (replies, arrival): (Vec<oneshot::Sender<AssignReply>>, Option<Arc<Arrival>>),
        trace: RequestTrace,
    ) {
        self.opened += 1;
        let (number, cancel, opened) = (self.opened, self.cancel.child_token(), watch::Sender::new(None));
        let entry = OpeningMeeting { number, replies, opened, arrival, cancel: cancel.clone() };
        self.opening.insert(meeting.clone(), entry);
        let options = &self.options;
        let terms = self.terms();
        let opening = Opening {
            keeper: options.keeper.clone(),
            terms: terms.clone(),
            shared: options.shared.clone(),
            secrets: self.secrets.clone(),
            options: MeetingOptions {
                media_handlers: options.media_handlers.clone(),
                entropy: options.entropy.clone(),
                request_limit: options.request_limit,
                lease_terms: LeaseTerms { keeper: options.keeper.clone(), terms },
            },
            claim,
        };
        // Logged under the request that caused it.
        self.openings.spawn(trace.run(async move {
            let opened = cancel.run_until_cancelled(supervise(ActorType::Meeting, opening.run())).await;
            let result = match opened {
                Some(Exit::Clean(result)) => result.map(Box::new),
                Some(Exit::Panicked(_)) => Err(Rejection::Unhealthy),
                None => Err(Rejection::Draining),
            };
            Opened { meeting, number, result }
        }));
    }

    fn terms(&self) -> Terms {
        // However long the store is away: its next answer decides.
        Terms::new(self.options.lease_ttl).heartbeat(self.options.lease_renew).grace(limits::PAUSED)
    }

    /// Why no new meeting is taken, if none is.
    fn reject_new(&self) -> Option<Rejection> {
        if self.draining.load(Ordering::Relaxed) {
            return Some(Rejection::Draining);
        }
        let counts = self.counts();
        let full = counts.meetings >= self.options.max_meetings
            || counts.participants + limits::ESTIMATED_PARTICIPANTS > self.options.max_participants;
        full.then_some(Rejection::AtCapacity)
    }

    fn on_opened(&mut self, opened: Result<Opened, JoinError>) {
        let Ok(Opened { meeting, number, result }) = opened else { return };
        // An opening that was replaced meanwhile has no entry, and its lease is released with the guard.
        let Some(entry) = self.opening.remove(&meeting) else { return };
        if entry.number != number {
            self.opening.insert(meeting, entry);
            return;
        }
        let OpeningMeeting { replies, opened, arrival, .. } = entry;
        let mut replies = replies.into_iter();
        match result {
            Err(rejection) => replies.for_each(|reply| {
                let _ = reply.send(AssignReply::Decided(Assigned::Rejected(rejection.clone())));
            }),
            Ok(open) => {
                let (guard, actor) = *open;
                let last_event = actor.last_event();
                let running = self.start_meeting(meeting.clone(), guard, actor);
                let generation = running.generation();
                opened.send_replace(Some(running.mailbox.clone()));
                // The meeting was opened with the settings of the first caller; the others may have newer ones.
                if arrival.is_none() {
                    let accepted = Assigned::Accepted { generation };
                    replies.next().map(|first| first.send(AssignReply::Decided(accepted)));
                }
                replies.for_each(|reply| {
                    let _ = reply.send(running.already_running());
                });
                if let Some(arrival) = arrival {
                    let resumed = Resumed { meeting, generation, last_event };
                    self.report_resumed(&arrival, resumed);
                }
            }
        }
    }

    fn report_resumed(&mut self, arrival: &Arrival, resumed: Resumed) {
        let meeting = resumed.meeting.clone();
        let report = self.options.controllers.resumed(&arrival.from_endpoint, resumed);
        self.reports.spawn(async move {
            if !report.await {
                tracing::warn!(target: metric::TARGET, %meeting, "arrival of the meeting not reported to its previous controller");
            }
        });
    }

    fn start_meeting(&mut self, meeting: MeetingId, guard: Guard, actor: MeetingActor) -> &RunningMeeting {
        let generation = actor.generation();
        let (mailbox, messages) = Mailbox::new(ActorType::Meeting, limits::MAILBOX);
        let (order, orders) = mpsc::channel(1);
        let state = RunningState::new(actor.participant_count(), generation);
        let task = MeetingTask {
            meeting: meeting.clone(),
            guard,
            actor,
            mailbox: mailbox.clone(),
            messages,
            orders,
            state: state.clone(),
            context: MoveContext {
                mc_id: self.options.shared.mc_id.clone(),
                store: self.options.shared.store.clone(),
                keeper: self.options.keeper.clone(),
                terms: self.terms(),
                controllers: self.options.controllers.clone(),
                global_controller: self.options.global_controller.clone(),
            },
            cancel: self.cancel.child_token(),
        };
        let id = meeting.clone();
        self.running.spawn(async move { (id, task.run().await) });
        let running = RunningMeeting { mailbox, orders: order, state };
        self.meetings.entry(meeting).insert_entry(running).into_mut()
    }

    /// Starts a move, one at a time for each meeting.
    fn order_move(&mut self, meeting: &MeetingId, order: MoveOrder) {
        let Some(meeting) = self.meetings.get(meeting) else {
            let _ = order.reply.send(MoveOutcome::Gone);
            return;
        };
        if meeting.state.has_moved() || meeting.state.moving.swap(true, Ordering::AcqRel) {
            let _ = order.reply.send(MoveOutcome::Conflict);
            return;
        }
        // A task that has ended does not answer.
        let _ = meeting.orders.try_send(order);
    }

    fn on_ended(&mut self, ended: Result<(MeetingId, EndReason), JoinError>) {
        let Ok((meeting, reason)) = ended else { return };
        tracing::info!(target: metric::TARGET, %meeting, ?reason, "meeting ended on this controller");
        // A meeting that returned meanwhile runs in another task.
        if self.meetings.get(&meeting).is_some_and(|running| running.mailbox.is_closed()) {
            self.meetings.remove(&meeting);
        }
    }
}
