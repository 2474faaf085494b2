//! The guard lease: one worker at a time per store.

use std::sync::mpsc;
use std::time::Duration;

use tenure_keeper::{Error, Gate, Keeper, Lost, OsEntropy, Terms};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{BusyReason, Holder, Key, Meta, Status, Store, Ttl};

use crate::state::GuardLoss;
use crate::{Options, WorkerError, identity, keys, limits, rows, telemetry};

/// The holder name of this process, unique per process.
pub(crate) fn holder(options: &Options) -> Result<Holder, WorkerError> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let host: String = options.host.chars().map(plain).take(64).collect();
    let pid = std::process::id();
    Holder::unique(&format!("{host}-{pid}"), &OsEntropy).map_err(WorkerError::store)
}

/// Acquires the guard before anything else. A guard held by another worker is waited for while that worker may be alive,
/// and taken over at once if it is proven dead. Any ambiguity is fatal.
pub(crate) async fn open(keeper: &Keeper, options: &Options, loss: &GuardLoss) -> Result<Gate, WorkerError> {
    let key = Key::new(keys::GUARD).map_err(WorkerError::store)?;
    let reported = loss.clone();
    let last_resort = options.last_resort;
    let opened = Gate::open_after(
        keeper,
        key,
        terms(options)?,
        options.guard_wait.unwrap_or(options.guard_ttl + limits::GUARD_GRACE),
        is_dead(&**keeper.store(), options),
        move |lost| report_loss(&reported, lost, last_resort),
    );
    opened.await.map_err(|error| match error {
        Error::Busy { busy, .. } => match &busy.holder {
            Some(holder) if busy.reason != BusyReason::Foreign => {
                WorkerError::GuardHeld { holder: holder.to_string() }
            }
            _ => WorkerError::GuardAmbiguous { why: busy.reason.as_str().to_owned() },
        },
        error => WorkerError::store(error),
    })
}

fn terms(options: &Options) -> Result<Terms, WorkerError> {
    let ttl = Ttl::from_millis(options.guard_ttl.as_millis() as u64).map_err(WorkerError::store)?;
    let encoded = options.identity.as_ref().and_then(|identity| rows::encode_identity(identity).ok());
    let meta = encoded.and_then(|bytes| Meta::new(String::from_utf8_lossy(&bytes)).ok()).unwrap_or_default();
    Ok(Terms::new(ttl).heartbeat(options.guard_heartbeat).meta(meta))
}

/// Recognizes a predecessor that is proven dead. Where leases end with their process no proof is needed.
fn is_dead(store: &dyn Store, options: &Options) -> impl Fn(&Status) -> bool + Send + use<> {
    let me = options.identity.clone().filter(|_| store.capabilities().proof_of_death);
    move |status| {
        let other = rows::decode_identity(status.meta.as_str());
        let dead = match (&me, &other) {
            _ if broken(Break::EveryHolderIsDead) => true,
            (Some(me), Some(other)) => me.proves_dead(other, identity::read_process),
            _ => false,
        };
        if dead && let Some(holder) = &status.holder {
            tracing::warn!(target: telemetry::TARGET, %holder, "the previous worker is dead; taking over its guard");
        }
        dead
    }
}

/// Reports the loss. Works from any thread, even when the runtime is blocked: then the process exits after `last_resort`.
fn report_loss(loss: &GuardLoss, lost: Lost, last_resort: Option<Duration>) {
    if broken(Break::StaysWithoutGuard) {
        return;
    }
    loss.report(lost);
    let Some(time) = last_resort else { return };
    let forced = std::thread::Builder::new().name("last-resort".to_owned()).spawn(move || {
        let (_kept, never) = mpsc::sync_channel::<()>(1);
        // Nothing is ever sent; this only waits for the timeout.
        let _timeout = never.recv_timeout(time);
        std::process::exit(tenure_keeper::limits::EXIT_CODE);
    });
    if forced.is_err() {
        std::process::exit(tenure_keeper::limits::EXIT_CODE);
    }
}

/// Ends the leases that an earlier worker left held. The store verifies the guard in the same step.
pub(crate) async fn wipe(gate: &Gate) -> Result<usize, WorkerError> {
    let mut count = 0;
    for prefix in keys::WIPED_PREFIXES {
        let prefix = keys::prefix(prefix).map_err(WorkerError::store)?;
        count += gate.wipe(prefix).await.map_err(WorkerError::store)?;
    }
    if count > 0 {
        tracing::info!(target: telemetry::TARGET, count, "ended leases of an earlier worker");
    }
    Ok(count)
}
