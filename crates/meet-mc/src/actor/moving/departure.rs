//! MC1's side of a move: it alone drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tenure_keeper::{Error as KeeperError, Guard, Keeper, Terms, TransferOutcome};
use tenure_lease::{BusyReason, Clock, Generation, Holder, Store, Tick};
use tenure_meet_rpc::history::{MoveEntry, MoveKind, MoveReason, MoveResult};
use tenure_meet_wire::MeetingId;
use tokio::sync::{oneshot, watch};

use super::{Announcement, Controllers, Destination, MoveOutcome, reason_label};
use crate::actor::limits;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Envelope, MeetingMessage, MoveStep};
use crate::actor::remote::GlobalController;
use crate::actor::trace::RequestTrace;
use crate::meeting::MoveTarget;
use crate::metric;

/// What all moves of a controller use.
#[derive(Clone)]
pub(crate) struct MoveContext {
    pub(crate) mc_id: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keeper: Keeper,
    pub(crate) terms: Terms,
    pub(crate) controllers: Arc<dyn Controllers>,
    pub(crate) global_controller: Arc<dyn GlobalController>,
}

/// What the supervisor and the task of a meeting share.
pub(crate) struct RunningState {
    pub(crate) participants: Arc<AtomicUsize>,
    /// The generation under which the meeting is held.
    pub(crate) generation: Arc<AtomicU64>,
    /// Whether a move is in progress.
    pub(crate) moving: AtomicBool,
    /// Whether another controller runs the meeting, and clients are only redirected.
    pub(crate) moved: AtomicBool,
    /// The greatest generation under which another controller reported to run the meeting.
    pub(crate) resumed: watch::Sender<u64>,
}

impl RunningState {
    pub(crate) fn new(participants: Arc<AtomicUsize>, generation: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            participants,
            generation,
            moving: AtomicBool::new(false),
            moved: AtomicBool::new(false),
            resumed: watch::Sender::new(0),
        })
    }

    pub(crate) fn has_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }
}

/// One order to move a meeting.
pub(crate) struct Departure<'a> {
    pub(crate) meeting: &'a MeetingId,
    pub(crate) context: &'a MoveContext,
    pub(crate) state: &'a RunningState,
    pub(crate) actor: &'a Mailbox<Envelope>,
    /// The lease; none once it is transferred.
    pub(crate) guard: &'a mut Option<Guard>,
    pub(crate) reason: MoveReason,
}

/// How a move to one target ended.
enum Attempt {
    Moved,
    /// The meeting runs here again.
    Aborted(&'static str),
    /// The lease is lost, or may be.
    Lost,
}

/// How the lease was handed over.
enum HandOver {
    /// The target has the lease, or this controller has lost it in its favor.
    Transferred,
    /// This controller still has it.
    Kept(&'static str),
    /// This controller has it again, with a greater generation.
    Regained(Guard),
    Lost,
}

impl Departure<'_> {
    /// Moves the meeting to `first`, or else to up to three targets that GC names.
    pub(crate) async fn run(&mut self, first: Option<Destination>) -> MoveOutcome {
        let (mut next, mut failed) = (first, Vec::new());
        while failed.len() < limits::MOVE_TARGETS {
            let target = match next.take() {
                Some(target) => Some(target),
                None => self.request_target(&failed).await,
            };
            let Some(target) = target else { break };
            let (began, started_ms) = (self.now(), self.clock().wall().as_millis());
            let mut freeze = None;
            let attempt = self.move_to(&target, &mut freeze).await;
            let result = match attempt {
                Attempt::Moved => MoveResult::Completed,
                Attempt::Aborted(_) => MoveResult::Aborted,
                Attempt::Lost => MoveResult::Failed,
            };
            metric::migrated(result, reason_label(self.reason), freeze);
            let entry = MoveEntry {
                meeting_id: self.meeting.to_string(),
                kind: MoveKind::Move,
                reason: self.reason,
                result,
                from_mc: self.context.mc_id.clone(),
                to_mc: Some(target.mc_id.clone()),
                generation: self.state.generation.load(Ordering::Relaxed),
                started_ms,
                duration_ms: self.now().since(began).as_millis() as u64,
                freeze_ms: freeze.map(|freeze: Duration| freeze.as_millis() as u64),
            };
            self.record(&entry).await;
            match attempt {
                Attempt::Moved => {
                    tracing::info!(target: metric::TARGET, meeting = %self.meeting, to = target.mc_id, took_ms = entry.duration_ms, "meeting moved");
                    return MoveOutcome::Moved;
                }
                Attempt::Lost => return MoveOutcome::Gone,
                Attempt::Aborted(why) => {
                    tracing::warn!(target: metric::TARGET, meeting = %self.meeting, to = target.mc_id, why, "move aborted");
                    failed.push(target.mc_id);
                }
            }
        }
        if failed.is_empty() { MoveOutcome::NoTarget } else { MoveOutcome::Stayed }
    }

    fn clock(&self) -> &dyn Clock {
        &**self.context.keeper.clock()
    }

    fn now(&self) -> Tick {
        self.clock().now()
    }

    fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Relaxed)
    }

    /// The result of a call, if it comes in time.
    async fn within<T>(&self, until: Tick, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = call => Some(answer),
            () = self.clock().sleep_until(until) => None,
        }
    }

    async fn request_target(&self, failed: &[String]) -> Option<Destination> {
        let asked = self.context.global_controller.request_target(self.meeting, failed);
        self.within(self.now() + limits::MOVE_CALL, asked).await?.ok()?
    }

    /// For operators. Best effort.
    async fn record(&self, entry: &MoveEntry) {
        let Ok(append) = entry.append() else { return };
        let ops = [append];
        let written = self.context.store.commit(&ops);
        if !matches!(self.within(self.now() + limits::MOVE_CALL, written).await, Some(Ok(_))) {
            tracing::debug!(target: metric::TARGET, meeting = %self.meeting, "move not recorded");
        }
    }

    async fn move_to(&mut self, target: &Destination, freeze: &mut Option<Duration>) -> Attempt {
        let until = self.now() + limits::MOVE_CALL;
        if self.announce(target, until).await.is_none() {
            return Attempt::Aborted("the target does not accept it");
        }
        let to = MoveTarget {
            mc_id: target.mc_id.clone(),
            endpoint: target.webtransport_endpoint.clone(),
            certificates: target.certificates.clone(),
            generation: self.generation(),
        };
        let Some(Some(clients)) = self.step(|reply| MoveStep::Prepare { target: to.clone(), reply }).await
        else {
            return Attempt::Aborted("the meeting is not active");
        };
        self.wait_until_parked(target, clients).await;
        let began = self.now();
        let frozen = self.step(|reply| MoveStep::Freeze { reply });
        let frozen = self.within(began + limits::FREEZE, frozen).await;
        let Some(Some(Some(frozen))) = frozen else {
            return Attempt::Aborted("the meeting could not be frozen");
        };
        let last_event = frozen.last_event;
        if frozen.regained.is_some() {
            *self.guard = frozen.regained;
        }
        let attempt = match self.hand_over(target, last_event, began + limits::FREEZE).await {
            HandOver::Transferred => self.wait_for_resume(&to).await,
            HandOver::Kept(why) => self.thaw(None, why).await,
            HandOver::Regained(guard) => self.thaw(Some(guard), "the transfer did not take effect").await,
            HandOver::Lost => self.lose().await,
        };
        *freeze = Some(self.now().since(began));
        attempt
    }

    /// Announces the move, or repeats the announcement. Returns the clients that wait at the target.
    async fn announce(&self, target: &Destination, until: Tick) -> Option<usize> {
        let announcement = Announcement { meeting: self.meeting.clone(), generation: self.generation() };
        let announced = self.context.controllers.announce(target, announcement);
        self.within(until, announced).await?
    }

    /// Waits until all clients wait at the target, or for a second.
    async fn wait_until_parked(&self, target: &Destination, clients: usize) {
        let end = self.now() + limits::PARKING;
        while clients > 0 && self.now() < end {
            match self.announce(target, end).await {
                Some(parked) if parked >= clients => return,
                _ => self.clock().sleep_until((self.now() + limits::PARKING_POLL).min(end)).await,
            }
        }
    }

    /// Sends a step to the meeting's actor; none if it has ended.
    async fn step<T>(&self, step: impl FnOnce(oneshot::Sender<T>) -> MoveStep) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let message = MeetingMessage::Move(step(reply));
        self.actor.send(Envelope { message, trace: RequestTrace::none() }).await.ok()?;
        answer.await.ok()
    }

    /// Has the target confirm the last event, then transfers the lease to it.
    async fn hand_over(&mut self, target: &Destination, last_event: u64, until: Tick) -> HandOver {
        let announcement = Announcement { meeting: self.meeting.clone(), generation: self.generation() };
        let prepared = self.context.controllers.prepare(target, announcement, last_event);
        if self.within(until, prepared).await != Some(true) {
            return HandOver::Kept("the target is not ready");
        }
        let Ok(successor) = Holder::new(&target.mc_id) else { return HandOver::Kept("invalid target") };
        loop {
            let Some(guard) = self.guard.take() else { return HandOver::Lost };
            match guard.transfer(successor.clone()).await {
                TransferOutcome::Transferred(_) => return HandOver::Transferred,
                TransferOutcome::NotHeld(_) => return HandOver::Lost,
                TransferOutcome::InDoubt { guard, error } => {
                    tracing::warn!(target: metric::TARGET, meeting = %self.meeting, %error, "transfer in doubt");
                    return self.settle(guard).await;
                }
                TransferOutcome::NoSuccessor(guard) => {
                    *self.guard = Some(guard);
                    let next = self.now() + limits::TRANSFER_POLL;
                    if next >= until {
                        return HandOver::Kept("the target does not wait for the lease");
                    }
                    self.clock().sleep_until(next).await;
                }
            }
        }
    }

    /// Finds out whether a transfer in doubt took effect. The guard renews the lease meanwhile.
    async fn settle(&self, guard: Guard) -> HandOver {
        let end = self.now() + limits::SETTLE;
        while self.now() < end {
            match self.replace(guard.generation()).await {
                Ok(regained) => return HandOver::Regained(regained),
                Err(error) => match error.busy().map(|busy| busy.reason) {
                    Some(BusyReason::NotThatGeneration) => return HandOver::Transferred,
                    _ => self.clock().sleep_until(self.now() + limits::PARKING_POLL).await,
                },
            }
        }
        HandOver::Lost
    }

    async fn replace(&self, generation: Generation) -> Result<Guard, KeeperError> {
        let MoveContext { keeper, terms, .. } = self.context;
        let key = crate::MeetingKeys::new(self.meeting).lease()?;
        keeper.replace(key, terms.clone(), generation).await
    }

    /// The target has the lease: waits until it reports that the meeting runs there, or gets the lease back.
    async fn wait_for_resume(&mut self, target: &MoveTarget) -> Attempt {
        let MoveContext { keeper, terms, .. } = self.context;
        let Ok(key) = crate::MeetingKeys::new(self.meeting).lease() else { return self.lose().await };
        let mut resumed = self.state.resumed.subscribe();
        let wait = terms.ttl().as_duration() + limits::RESUME_MARGIN;
        let before = target.generation;
        let regained = tokio::select! {
            biased;
            _ = resumed.wait_for(|generation| *generation > before) => None,
            regained = keeper.acquire(key, terms.clone(), wait) => Some(regained),
        };
        match regained {
            None => {
                self.state.moved.store(true, Ordering::Release);
                let to = target.clone();
                // An actor that has ended redirects no one.
                let _ended = self.step(|reply| MoveStep::Redirect { target: to, reply }).await;
                Attempt::Moved
            }
            Some(Ok(guard)) => self.thaw(Some(guard), "the target could not open the meeting").await,
            Some(Err(_)) => self.lose().await,
        }
    }

    /// Allows changes again, under the lease that was kept or under a new one.
    async fn thaw(&mut self, regained: Option<Guard>, why: &'static str) -> Attempt {
        let lease = regained.as_ref().map(|guard| guard.share());
        if let Some(guard) = regained {
            self.state.generation.store(guard.generation().get(), Ordering::Relaxed);
            *self.guard = Some(guard);
        }
        match self.step(|reply| MoveStep::Thaw { lease, reply }).await {
            Some(()) => Attempt::Aborted(why),
            None => Attempt::Lost,
        }
    }

    async fn lose(&self) -> Attempt {
        let _ended = self.step(|reply| MoveStep::Lose { reply }).await;
        Attempt::Lost
    }
}
