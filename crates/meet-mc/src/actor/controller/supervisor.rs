//! The actor that owns the running meetings of a process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tenure_keeper::{Guard, Terms};
use tenure_meet_wire::MeetingId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::open::Opening;
use super::{Assigned, Assignment, Counts, Options, Rejection};
use crate::actor::exit::{Exit, supervise};
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{EndReason, Envelope, LeaseTerms, MeetingActor, MeetingOptions, SharedSecrets};
use crate::actor::trace::RequestTrace;
use crate::actor::{ActorType, limits};
use crate::metric;

/// The supervisor's answer to an assignment.
pub(super) enum AssignReply {
    Decided(Assigned),
    /// The meeting already runs here, maybe with other settings.
    AlreadyRunning {
        mailbox: Mailbox<Envelope>,
        generation: u64,
    },
}

pub(super) enum ControllerMessage {
    Assign {
        assignment: Assignment,
        reply: oneshot::Sender<AssignReply>,
        trace: RequestTrace,
    },
    Find {
        meeting: MeetingId,
        reply: oneshot::Sender<Option<Mailbox<Envelope>>>,
    },
    Count {
        reply: oneshot::Sender<Counts>,
    },
    Probe {
        meeting: MeetingId,
        reply: oneshot::Sender<Option<u64>>,
    },
    #[cfg(test)]
    Panic,
}

struct RunningMeeting {
    mailbox: Mailbox<Envelope>,
    participants: Arc<AtomicUsize>,
    generation: Arc<AtomicU64>,
}

impl RunningMeeting {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn already_running(&self) -> AssignReply {
        AssignReply::AlreadyRunning { mailbox: self.mailbox.clone(), generation: self.generation() }
    }
}

struct Opened {
    meeting: MeetingId,
    result: Result<Box<(Guard, MeetingActor)>, Rejection>,
}

pub(super) struct Supervisor {
    options: Options,
    secrets: SharedSecrets,
    draining: Arc<AtomicBool>,
    cancel: CancellationToken,
    meetings: HashMap<MeetingId, RunningMeeting>,
    /// Callers that wait for a meeting to open.
    waiting: HashMap<MeetingId, Vec<oneshot::Sender<AssignReply>>>,
    opening: JoinSet<Opened>,
    running: JoinSet<(MeetingId, EndReason)>,
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
            waiting: HashMap::new(),
            opening: JoinSet::new(),
            running: JoinSet::new(),
        }
    }

    /// Runs until the shutdown, or until it panics. Either way meetings flush and close their clients before this returns.
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<ControllerMessage>) -> Exit<()> {
        let exit = supervise(ActorType::Controller, self.serve(&mut messages)).await;
        self.cancel.cancel();
        messages.close();
        self.opening.shutdown().await;
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
                Some(opened) = self.opening.join_next() => self.on_opened(opened),
                message = messages.recv() => match message {
                    Some(message) => self.on_message(message),
                    None => break,
                },
            }
            metric::meetings(self.meetings.len());
            metric::breaker(!self.options.shared.breaker.lock().is_closed());
        }
    }

    fn counts(&self) -> Counts {
        let participants = self.meetings.values().map(|meeting| meeting.participants.load(Ordering::Relaxed));
        Counts { meetings: self.meetings.len() + self.waiting.len(), participants: participants.sum() }
    }

    fn on_message(&mut self, message: ControllerMessage) {
        // A caller that gave up does not receive its reply.
        match message {
            ControllerMessage::Assign { assignment, reply, trace } => self.assign(assignment, reply, trace),
            ControllerMessage::Find { meeting, reply } => {
                let _ = reply.send(self.meetings.get(&meeting).map(|meeting| meeting.mailbox.clone()));
            }
            #[cfg(test)]
            ControllerMessage::Panic => panic!("a defect of the supervisor"),
            ControllerMessage::Probe { meeting, reply } => {
                let running = self.meetings.get(&meeting).map(RunningMeeting::generation);
                let opening = self.waiting.contains_key(&meeting).then_some(0);
                let _ = reply.send(running.or(opening));
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
        }
    }

    /// Concurrent assignments of a meeting share one claim of its lease.
    fn assign(&mut self, assignment: Assignment, reply: oneshot::Sender<AssignReply>, trace: RequestTrace) {
        if let Some(meeting) = self.meetings.get(&assignment.meeting) {
            let _ = reply.send(meeting.already_running());
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(&assignment.meeting) {
            waiting.push(reply);
            return;
        }
        if let Some(rejection) = self.reject_new() {
            let _ = reply.send(AssignReply::Decided(Assigned::Rejected(rejection)));
            return;
        }
        self.waiting.insert(assignment.meeting.clone(), vec![reply]);
        let meeting = assignment.meeting.clone();
        let options = &self.options;
        // However long the store is away: its next answer decides.
        let terms = Terms::new(options.lease_ttl).heartbeat(options.lease_renew).grace(limits::PAUSED);
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
            assignment,
        };
        // Logged under the request that caused it.
        self.opening.spawn(trace.run(async move {
            let result = match supervise(ActorType::Meeting, opening.run()).await {
                Exit::Clean(result) => result.map(Box::new),
                Exit::Panicked(_) => Err(Rejection::Unhealthy),
            };
            Opened { meeting, result }
        }));
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
        let Ok(Opened { meeting, result }) = opened else { return };
        let mut waiting = self.waiting.remove(&meeting).unwrap_or_default().into_iter();
        match result {
            Err(rejection) => waiting.for_each(|reply| {
                let _ = reply.send(AssignReply::Decided(Assigned::Rejected(rejection.clone())));
            }),
            Ok(opened) => {
                let (guard, actor) = *opened;
                let running = self.start_meeting(meeting, guard, actor);
                let accepted = Assigned::Accepted { generation: running.generation() };
                // The meeting was opened with the settings of the first caller; the others may have newer ones.
                waiting.next().map(|first| first.send(AssignReply::Decided(accepted)));
                waiting.for_each(|reply| {
                    let _ = reply.send(running.already_running());
                });
            }
        }
    }

    fn start_meeting(&mut self, meeting: MeetingId, guard: Guard, actor: MeetingActor) -> &RunningMeeting {
        let generation = actor.generation();
        let (mailbox, messages) = Mailbox::new(ActorType::Meeting, limits::MAILBOX);
        let participants = actor.participant_count();
        let cancel = self.cancel.child_token();
        let global_controller = self.options.global_controller.clone();
        let (clock, id) = (self.options.keeper.clock().clone(), meeting.clone());
        let held = generation.clone();
        self.running.spawn(async move {
            let reason = match supervise(ActorType::Meeting, actor.run(messages, cancel)).await {
                Exit::Clean(reason) => reason,
                Exit::Panicked(_) => EndReason::Panicked,
            };
            if let Err(error) = guard.release().await {
                tracing::debug!(target: metric::TARGET, meeting = %id, %error, "lease not released; it expires by its TTL");
            } else if reason == EndReason::Ended {
                tokio::select! {
                    biased;
                    () = global_controller.meeting_ended(&id, held.load(Ordering::Relaxed)) => {}
                    () = clock.sleep_until(clock.now() + limits::END_NOTIFICATION) => {}
                }
            }
            (id, reason)
        });
        let running = RunningMeeting { mailbox, participants, generation };
        self.meetings.entry(meeting).insert_entry(running).into_mut()
    }

    fn on_ended(&mut self, ended: Result<(MeetingId, EndReason), JoinError>) {
        let Ok((meeting, reason)) = ended else { return };
        self.meetings.remove(&meeting);
        tracing::info!(target: metric::TARGET, %meeting, ?reason, "meeting ended on this controller");
    }
}
