//! The lease of a whole process.

use std::fmt;
use std::ops::Deref;
use std::sync::mpsc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Busy, BusyReason, End, Key, Prefix, Proof, Released, Status, Wipe, Wiped};
use tokio_util::sync::CancellationToken;

use crate::acquire::{self, AcquireMode};
use crate::watchdog::{self, LossAction, OnLoss};
use crate::{Error, Guard, Keeper, LeaseHandle, Lost, Policy, Result, Terms, limits, telemetry};

/// The lease of a process, held from its start to its end. Its loss is fatal.
///
/// Fail-closed: the first failed renewal is a loss, which is handled within a second even if the runtime is blocked.
/// Dropping or closing the gate disarms that and releases the key.
pub struct Gate {
    /// Dropped before the guard: releasing the gate is not a loss.
    armed: Armed,
    guard: Guard,
}

/// Disarms the handling of a loss when dropped.
struct Armed {
    on_loss_action: LossAction,
    /// Ends the task that waits for the loss.
    closed: CancellationToken,
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.on_loss_action.disarm();
        self.closed.cancel();
    }
}

impl Gate {
    /// Acquires the gate. When it is lost, logs that and exits with code 70.
    ///
    /// Busy and unknown outcomes are errors: nothing is retried.
    pub async fn open(keeper: &Keeper, key: Key, terms: Terms) -> Result<Self> {
        let name = key.clone();
        Self::open_with(keeper, key, terms, move |lost| exit(name, lost)).await
    }

    /// Acquires the gate. When it is lost, calls `on_loss` once, from any thread.
    pub async fn open_with(
        keeper: &Keeper,
        key: Key,
        terms: Terms,
        on_loss: impl FnOnce(Lost) + Send + 'static,
    ) -> Result<Self> {
        let terms = terms.policy(Policy::FailClosed);
        let guard = acquire::acquire(keeper, key, terms, AcquireMode::once(None)).await?;
        Self::arm(keeper, guard, Box::new(on_loss))
    }

    /// Acquires the gate as [`Gate::open_with`] does, but waits up to `wait` for the current holder, and replaces it at
    /// once if `is_dead` proves that it has ended.
    ///
    /// Waits only for a live holder and for the delay or reservation after one; the quarantine of a store does not count
    /// towards `wait`. Any other obstacle and every unknown outcome is an error at once.
    pub async fn open_after(
        keeper: &Keeper,
        key: Key,
        terms: Terms,
        wait: Duration,
        is_dead: impl Fn(&Status) -> bool + Send,
        on_loss: impl FnOnce(Lost) + Send + 'static,
    ) -> Result<Self> {
        let terms = terms.policy(Policy::FailClosed);
        let clock = keeper.clock().clone();
        let mut end = clock.now() + wait;
        let mut dead = None;
        loop {
            let taken = acquire::acquire(keeper, key.clone(), terms.clone(), AcquireMode::once(dead)).await;
            let busy = match taken {
                Ok(guard) => return Self::arm(keeper, guard, Box::new(on_loss)),
                Err(Error::Busy { busy, .. }) => busy,
                Err(error) => return Err(error),
            };
            let now = clock.now();
            if busy.reason == BusyReason::Quarantine {
                // No holder exists meanwhile, and it ends by itself: the wait for a holder begins after it.
                end = now + wait;
            }
            if !may_become_free(&busy) || now >= end {
                return Err(Error::Busy { key, busy });
            }
            let status = keeper.bounded(limits::READ_TIMEOUT, keeper.store().inspect(&key)).await?;
            let same = status.holder.is_some() && status.generation == busy.generation;
            dead = status.generation.filter(|_| same && dead.is_none() && is_dead(&status));
            if dead.is_none() {
                let pause = busy.remaining.unwrap_or(limits::GATE_POLL).min(limits::GATE_POLL);
                clock.sleep_until(end.min(now + pause)).await;
            }
        }
    }

    fn arm(keeper: &Keeper, guard: Guard, on_loss: OnLoss) -> Result<Self> {
        let (on_loss_action, closed) = (LossAction::new(on_loss), CancellationToken::new());
        if broken(Break::GateStaysOpen) {
            return Ok(Self { armed: Armed { on_loss_action, closed }, guard });
        }
        if keeper.state().watchdog {
            watchdog::watch(guard.held_lease().clone(), on_loss_action.clone())?;
        }
        let (lost, cancelled, action) = (guard.lost(), closed.clone(), on_loss_action.clone());
        keeper.tasks().spawn(async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => {}
                lost = lost => action.trigger(lost),
            }
        });
        Ok(Self { armed: Armed { on_loss_action, closed }, guard })
    }

    /// The proof for the store that this process holds the gate.
    pub fn proof(&self) -> Result<Proof> {
        let fence = self.guard.permit(Duration::ZERO)?.fence(tenure_lease::Mode::Strict);
        Ok(Proof { key: fence.key, token: fence.token, generation: fence.generation })
    }

    /// Ends every lease under `prefix` except the gate itself, and returns their number. The store checks the proof in the
    /// same step.
    pub async fn wipe(&self, prefix: Prefix) -> Result<usize> {
        let wipe = Wipe { prefix, gate: self.proof()? };
        let keeper = self.guard.keeper();
        let outcome = tokio::select! {
            biased;
            lost = self.guard.lost() => return Err(Error::Lost { key: self.guard.key().clone(), lost }),
            outcome = keeper.bounded(limits::WIPE_TIMEOUT, keeper.store().wipe(wipe)) => outcome?,
        };
        match outcome {
            Wiped::Wiped { count } => Ok(count),
            Wiped::Unproven => {
                // The store is authoritative: this is a loss.
                self.guard.held_lease().lose(Lost::Ended(End::Gone));
                Err(Error::Unproven { key: self.guard.key().clone() })
            }
        }
    }

    /// Closes the gate: disarms it and releases the key.
    pub async fn close(self) -> Result<Released> {
        let Self { armed, guard } = self;
        drop(armed);
        guard.release().await
    }
}

/// Whether the gate may become free by waiting.
fn may_become_free(busy: &Busy) -> bool {
    match busy.reason {
        BusyReason::Held => busy.holder.is_some(),
        BusyReason::Delayed | BusyReason::Reserved | BusyReason::Queued | BusyReason::Quarantine => true,
        // The dead holder was replaced meanwhile; the next attempt reads the new one.
        BusyReason::NotThatGeneration => true,
        BusyReason::Foreign => false,
    }
}

/// Logs the reason and ends the process. Logging runs in a thread with a time limit: a blocked log must not keep a process
/// alive that lost its gate.
fn exit(key: Key, lost: Lost) {
    let (sender, logged) = mpsc::sync_channel(1);
    let logger = std::thread::Builder::new().spawn(move || {
        telemetry::gate_lost(&key, lost);
        sender.send(()).ok();
    });
    if logger.is_ok() {
        logged.recv_timeout(limits::EXIT_LOG_TIMEOUT).ok();
    }
    std::process::exit(limits::EXIT_CODE);
}

impl Deref for Gate {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.guard
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.guard).finish()
    }
}
