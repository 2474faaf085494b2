//! The drain of a controller: all meetings leave, the largest last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Phase, Query, Store, Tick};
use tenure_meet_rpc::history::{DrainProgress, DrainState, MoveReason};
use tenure_meet_rpc::{Kind, NodeInfo};
use tenure_meet_wire::MeetingId;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Destination, DrainNotice, MeetingSummary, MoveOutcome};
use crate::actor::remote::GlobalController;
use crate::actor::{Controller, limits};
use crate::metric;

/// Why a controller drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainReason {
    /// No reason was given, or the process received a signal.
    Unspecified,
    /// Maintenance of its machine.
    Maintenance,
    /// Fewer controllers are needed.
    ScaleDown,
    /// It is unhealthy.
    Unhealthy,
    /// A new version replaces it.
    VersionUpgrade,
}

impl DrainReason {
    /// The name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Maintenance => "maintenance",
            Self::ScaleDown => "scale_down",
            Self::Unhealthy => "unhealthy",
            Self::VersionUpgrade => "version_upgrade",
        }
    }
}

/// An order to drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrainOrder {
    /// How long it may take. Meetings that are left shortly before are closed.
    pub deadline: Duration,
    /// Why.
    pub reason: DrainReason,
}

/// What a drain did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DrainReport {
    /// Meetings that other controllers run.
    pub migrated: u32,
    /// Meetings that had nowhere to go.
    pub closed: u32,
}

/// Where the drain of a controller stands.
pub(crate) struct DrainControl {
    /// Cancels the running drain.
    running: Mutex<Option<CancellationToken>>,
    finished: watch::Sender<Option<DrainReport>>,
}

impl Default for DrainControl {
    fn default() -> Self {
        Self { running: Mutex::default(), finished: watch::Sender::new(None) }
    }
}

impl DrainControl {
    /// Reserves the drain for the caller, which must [`DrainControl::run`] it; none if one already runs.
    pub(crate) fn begin(&self) -> Option<CancellationToken> {
        let mut running = self.running.lock();
        match *running {
            Some(_) => None,
            None => Some(running.insert(CancellationToken::new()).clone()),
        }
    }

    pub(crate) fn cancel(&self) -> bool {
        let running = self.running.lock().clone();
        running.is_some_and(|cancel| {
            cancel.cancel();
            true
        })
    }

    pub(crate) async fn wait_until_drained(&self) {
        let mut finished = self.finished.subscribe();
        // The sender lives as long as this.
        let _report = finished.wait_for(Option::is_some).await;
    }

    /// Waits for the drain that runs. None if it is cancelled.
    pub(crate) async fn wait(&self) -> Option<DrainReport> {
        let running = self.running.lock().clone();
        let mut finished = self.finished.subscribe();
        let finished = async { finished.wait_for(Option::is_some).await.ok().and_then(|report| *report) };
        match running {
            Some(cancel) => cancel.run_until_cancelled(finished).await.flatten(),
            None => finished.await,
        }
    }

    pub(crate) async fn run(
        &self,
        controller: &Controller,
        gc: &dyn GlobalController,
        order: DrainOrder,
        cancel: CancellationToken,
    ) -> DrainReport {
        let mut drain = Drain::new(controller, gc, order).await;
        let done = cancel.run_until_cancelled(drain.run()).await.is_some();
        let report = drain.report;
        drain.record(if done { DrainState::Drained } else { DrainState::Cancelled }).await;
        *self.running.lock() = None;
        if done {
            self.finished.send_replace(Some(report));
        } else {
            controller.accept_again();
        }
        report
    }
}

struct Drain<'a> {
    controller: &'a Controller,
    gc: &'a dyn GlobalController,
    order: DrainOrder,
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    began: Tick,
    started_ms: u64,
    meetings: u32,
    report: DrainReport,
}

impl<'a> Drain<'a> {
    async fn new(controller: &'a Controller, gc: &'a dyn GlobalController, order: DrainOrder) -> Self {
        let store = controller.store().clone();
        let clock = store.clock();
        controller.stop_accepting().await;
        let meetings = controller.meetings().await.len() as u32;
        let (began, started_ms) = (clock.now(), clock.wall().as_millis());
        Self {
            controller,
            gc,
            order,
            clock,
            store,
            began,
            started_ms,
            meetings,
            report: DrainReport::default(),
        }
    }

    /// When meetings that are left are closed: 55 s after the begin of a drain of 60 s.
    fn close_at(&self) -> Tick {
        self.began + self.order.deadline / 12 * 11
    }

    async fn run(&mut self) {
        tracing::info!(target: metric::TARGET, meetings = self.meetings, deadline = ?self.order.deadline, "drain began");
        self.record(DrainState::Draining).await;
        let (close_at, clock) = (self.close_at(), self.clock.clone());
        tokio::select! {
            biased;
            () = self.move_all() => {}
            () = clock.sleep_until(close_at) => {}
        }
        let left = self.controller.meetings().await;
        self.report.closed = left.len() as u32;
        self.report.migrated = self.meetings.saturating_sub(self.report.closed);
        let notice = self.gc.drained(self.report);
        self.within(limits::MOVE_CALL, notice).await;
    }

    /// Moves meetings until none is left that another controller could take.
    async fn move_all(&mut self) {
        loop {
            let left = self.controller.meetings().await;
            if left.is_empty() {
                return;
            }
            let Some(targets) = self.targets(&left).await else {
                self.pause(limits::DRAIN_RETRY).await;
                continue;
            };
            let unplaced = self.move_once(left, targets).await;
            self.record(DrainState::Draining).await;
            if unplaced {
                // No other controller takes the rest.
                return;
            }
            self.pause(limits::DRAIN_RETRY / 4).await;
        }
    }

    /// Targets for meetings; none while neither GC nor the registry can be asked.
    async fn targets(&self, left: &[MeetingSummary]) -> Option<HashMap<MeetingId, Destination>> {
        let notice = DrainNotice {
            meetings: left.iter().map(|summary| summary.meeting.clone()).collect(),
            deadline: self.order.deadline.saturating_sub(self.clock.now().since(self.began)),
            reason: self.order.reason,
        };
        match self.within(limits::MOVE_CALL, self.gc.draining(notice)).await {
            Some(Ok(targets)) => Some(targets),
            // GC is away: from half of the deadline on this controller chooses by itself.
            _ if self.clock.now() >= self.began + self.order.deadline / 2 => self.choose(left).await,
            _ => None,
        }
    }

    /// Distributes meetings over the other controllers that hold their leases.
    async fn choose(&self, left: &[MeetingSummary]) -> Option<HashMap<MeetingId, Destination>> {
        let query = Query::new(Kind::Controller.prefix().ok()?);
        let page = self.within(limits::MOVE_CALL, self.store.list(&query)).await?.ok()?;
        let held = page.items.iter().filter(|status| status.phase == Phase::Held);
        let others: Vec<Destination> = held
            .filter_map(|status| {
                let id = status.key.as_str().split_once(':')?.1;
                let info = NodeInfo::read(&status.meta).filter(|_| id != self.controller.id())?;
                Some(Destination {
                    mc_id: id.to_owned(),
                    certificates: info.raw_certificates(),
                    grpc_endpoint: info.grpc_endpoint,
                    webtransport_endpoint: info.webtransport_endpoint,
                })
            })
            .collect();
        let meetings = left.iter().map(|summary| summary.meeting.clone());
        Some(meetings.zip(others.into_iter().cycle()).collect())
    }

    /// Moves each meeting that has a target. Returns whether no other controller took any of them.
    async fn move_once(
        &self,
        mut left: Vec<MeetingSummary>,
        mut targets: HashMap<MeetingId, Destination>,
    ) -> bool {
        left.sort_by_key(|summary| summary.participants);
        let mut moves = JoinSet::new();
        for summary in left {
            let Some(target) = targets.remove(&summary.meeting) else { continue };
            let controller = self.controller.clone();
            moves.spawn(async move {
                controller.move_meeting(&summary.meeting, Some(target), MoveReason::Drain).await
            });
            self.pause(limits::DRAIN_PACE).await;
        }
        let mut moved = false;
        let began = !moves.is_empty();
        while let Some(outcome) = moves.join_next().await {
            moved |= matches!(outcome, Ok(MoveOutcome::Moved | MoveOutcome::Conflict | MoveOutcome::Stayed));
        }
        !began || !moved
    }

    /// For operators. Best effort.
    async fn record(&self, state: DrainState) {
        let left = self.controller.meetings().await.len() as u32;
        let (migrated, closed) = match state {
            DrainState::Drained => (self.report.migrated, self.report.closed),
            _ => (self.meetings.saturating_sub(left), 0),
        };
        let progress = DrainProgress {
            mc_id: self.controller.id().to_owned(),
            state,
            reason: self.order.reason.as_str().to_owned(),
            started_ms: self.started_ms,
            deadline_ms: self.started_ms + self.order.deadline.as_millis() as u64,
            meetings: self.meetings,
            migrated,
            closed,
        };
        let Ok(put) = progress.put() else { return };
        let ops = [put];
        let _recorded = self.within(limits::MOVE_CALL, self.store.commit(&ops)).await;
    }

    async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    async fn within<T>(&self, time: Duration, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = call => Some(answer),
            () = self.pause(time) => None,
        }
    }
}
