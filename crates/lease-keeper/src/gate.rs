//! The lease that a whole process stands on.

use std::fmt;
use std::ops::Deref;
use std::sync::mpsc;
use std::time::Duration;

use lease::{Busy, End, Key, Prefix, Proof, Reason, Released, Status, Wipe, Wiped};
use tokio_util::sync::CancellationToken;

use crate::acquire::{self, Want};
use crate::watchdog::{self, Fuse, OnLoss};
use crate::{Error, Guard, Held, Keeper, Lost, Policy, Result, Terms, limits, telemetry};

/// Opens a process: held from its start to its end, proven on demand, and fatal when lost.
///
/// Fail-closed: the first renewal that fails is a loss, and the loss is acted upon within a second even if
/// the runtime is stuck. Dropping or closing the gate calls that off and gives the key back.
pub struct Gate {
    /// Before the guard: the giving back of the gate must not count as its loss.
    armed: Armed,
    guard: Guard,
}

/// Dropped, nothing is acted upon any more.
struct Armed {
    fuse: Fuse,
    /// Ends the task that waits for the loss.
    closed: CancellationToken,
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.fuse.defuse();
        self.closed.cancel();
    }
}

impl Gate {
    /// Takes the gate; when it is lost, says so in the log and exits with code 70.
    ///
    /// Busy and every doubt are errors, and fatal for the caller: nothing is asked twice.
    pub async fn open(keeper: &Keeper, key: Key, terms: Terms) -> Result<Self> {
        let name = key.clone();
        Self::open_with(keeper, key, terms, move |lost| exit(name, lost)).await
    }

    /// Takes the gate; when it is lost, calls `on_loss`, once, from any thread.
    pub async fn open_with(
        keeper: &Keeper,
        key: Key,
        terms: Terms,
        on_loss: impl FnOnce(Lost) + Send + 'static,
    ) -> Result<Self> {
        let terms = terms.policy(Policy::FailClosed);
        let guard = acquire::acquire(keeper, key, terms, Want::once(None)).await?;
        Self::arm(keeper, guard, Box::new(on_loss))
    }

    /// Takes the gate as [`Gate::open_with`] does, but waits up to `wait` for a holder that is in the way, and takes
    /// its place at once when `is_dead` is sure that it lives no more.
    ///
    /// Only a live holder, and what a store keeps free after one, is waited for; the quarantine of a store comes before
    /// that. Everything else in the way, and every doubt, is an error at once.
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
            let taken = acquire::acquire(keeper, key.clone(), terms.clone(), Want::once(dead)).await;
            let busy = match taken {
                Ok(guard) => return Self::arm(keeper, guard, Box::new(on_loss)),
                Err(Error::Busy { busy, .. }) => busy,
                Err(error) => return Err(error),
            };
            let now = clock.now();
            if busy.reason == Reason::Quarantine {
                // Nobody can hold it meanwhile, and it has an end of its own: the wait for a holder begins after it.
                end = now + wait;
            }
            if !is_waited_for(&busy) || now >= end {
                return Err(Error::Busy { key, busy });
            }
            let status = keeper.bounded(limits::LOOK, keeper.store().inspect(&key)).await?;
            let same = status.holder.is_some() && status.generation == busy.generation;
            dead = status.generation.filter(|_| same && dead.is_none() && is_dead(&status));
            if dead.is_none() {
                let pause = busy.remaining.unwrap_or(limits::GATE_LOOK).min(limits::GATE_LOOK);
                clock.sleep_until(end.min(now + pause)).await;
            }
        }
    }

    fn arm(keeper: &Keeper, guard: Guard, on_loss: OnLoss) -> Result<Self> {
        let (fuse, closed) = (Fuse::new(on_loss), CancellationToken::new());
        if keeper.shared().watchdog {
            watchdog::watch(guard.core().clone(), fuse.clone())?;
        }
        let (lost, ends, blown) = (guard.lost(), closed.clone(), fuse.clone());
        keeper.tasks().spawn(async move {
            tokio::select! {
                biased;
                () = ends.cancelled() => {}
                lost = lost => blown.blow(lost),
            }
        });
        Ok(Self { armed: Armed { fuse, closed }, guard })
    }

    /// What proves to the store that this process holds the gate.
    pub fn proof(&self) -> Result<Proof> {
        let fence = self.guard.permit(Duration::ZERO)?.fence(lease::Mode::Strict);
        Ok(Proof { key: fence.key, token: fence.token, generation: fence.generation })
    }

    /// Ends every lease under `prefix` but the gate itself, and answers how many there were. The store checks
    /// the proof in the same step.
    pub async fn wipe(&self, prefix: Prefix) -> Result<usize> {
        let wipe = Wipe { prefix, gate: self.proof()? };
        let keeper = self.guard.keeper();
        let answer = tokio::select! {
            biased;
            lost = self.guard.lost() => return Err(Error::Lost { key: self.guard.key().clone(), lost }),
            answer = keeper.bounded(limits::WIPE, keeper.store().wipe(wipe)) => answer?,
        };
        match answer {
            Wiped::Wiped { count } => Ok(count),
            Wiped::Unproven => {
                // The store knows better than this process: that is a loss like any other.
                self.guard.core().lose(Lost::Ended(End::Gone));
                Err(Error::Unproven { key: self.guard.key().clone() })
            }
        }
    }

    /// Closes the gate: nothing is acted upon any more, and the key is given back.
    pub async fn close(self) -> Result<Released> {
        let Self { armed, guard } = self;
        drop(armed);
        guard.release().await
    }
}

/// Whether time can free a gate from what is in the way.
fn is_waited_for(busy: &Busy) -> bool {
    match busy.reason {
        Reason::Held => busy.holder.is_some(),
        Reason::Delayed | Reason::Reserved | Reason::Queued | Reason::Quarantine => true,
        // The one that was dead is gone meanwhile; who is there now is asked for.
        Reason::NotThatGeneration => true,
        Reason::Foreign => false,
    }
}

/// Says why and ends the process. The last words get a thread and a bound of their own: a log that blocks
/// must not keep a process alive that lost its gate.
fn exit(key: Key, lost: Lost) {
    let (said, heard) = mpsc::sync_channel(1);
    let words = std::thread::Builder::new().spawn(move || {
        telemetry::gate_lost(&key, lost);
        said.send(()).ok();
    });
    if words.is_ok() {
        heard.recv_timeout(limits::LAST_WORDS).ok();
    }
    std::process::exit(limits::EXIT);
}

impl Deref for Gate {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.guard
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.guard).finish()
    }
}
