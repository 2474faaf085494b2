//! The lease that a whole process stands on.

use std::fmt;
use std::ops::Deref;
use std::sync::mpsc;

use lease::{End, Key, Prefix, Proof, Released, Wipe, Wiped};
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
        let guard = acquire::acquire(keeper, key, terms, Want::once()).await?;
        Self::arm(keeper, guard, Box::new(on_loss))
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
        let fence = self.guard.permit(std::time::Duration::ZERO)?.fence(lease::Mode::Strict);
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
