//! The guard of the house: one worker at a time.

use std::sync::mpsc;
use std::time::Duration;

use lease::{Holder, Key, Meta, Reason, Status, Store, Ttl};
use lease_keeper::{Error, Gate, Keeper, Lost, OsEntropy, Terms};

use crate::world::Loss;
use crate::{Fatal, Options, identity, keys, limits, metric, rows};

/// The name of this process as the guard's holder: nobody else ever has it.
pub(crate) fn holder(options: &Options) -> Result<Holder, Fatal> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let host: String = options.host.chars().map(plain).take(64).collect();
    let pid = std::process::id();
    Holder::unique(&format!("{host}-{pid}"), &OsEntropy).map_err(Fatal::store)
}

/// Takes the guard before anything else happens. Who has it is waited for as long as it could still be alive, and
/// replaced at once if it is proven dead. Every doubt is fatal.
pub(crate) async fn open(keeper: &Keeper, options: &Options, loss: &Loss) -> Result<Gate, Fatal> {
    let key = Key::new(keys::GUARD).map_err(Fatal::store)?;
    let told = loss.clone();
    let last_resort = options.last_resort;
    let opened = Gate::open_after(
        keeper,
        key,
        terms(options)?,
        options.guard_wait.unwrap_or(options.guard_ttl + limits::GUARD_GRACE),
        is_dead(&**keeper.store(), options),
        move |lost| lost_guard(&told, lost, last_resort),
    );
    opened.await.map_err(|error| match error {
        Error::Busy { busy, .. } => match &busy.holder {
            Some(holder) if busy.reason != Reason::Foreign => Fatal::Held { holder: holder.to_string() },
            _ => Fatal::Ambiguous { why: busy.reason.as_str().to_owned() },
        },
        error => Fatal::store(error),
    })
}

fn terms(options: &Options) -> Result<Terms, Fatal> {
    let ttl = Ttl::from_millis(options.guard_ttl.as_millis() as u64).map_err(Fatal::store)?;
    let says = options.identity.as_ref().and_then(|identity| rows::identity(identity).ok());
    let meta = says.and_then(|bytes| Meta::new(String::from_utf8_lossy(&bytes)).ok()).unwrap_or_default();
    Ok(Terms::new(ttl).heartbeat(options.guard_heartbeat).meta(meta))
}

/// Only a Redis outlives its workers without knowing whether they live: an engine in a process ends the leases of that
/// process itself, and who is behind a network says nothing that could be proven here.
fn is_dead(store: &dyn Store, options: &Options) -> impl Fn(&Status) -> bool + Send + use<> {
    let me = options.identity.clone().filter(|_| store.capabilities().engine == "redis");
    move |status| {
        let other = rows::read_identity(status.meta.as_str());
        let dead = match (&me, &other) {
            (Some(me), Some(other)) => me.proves_dead(other, identity::look),
            _ => false,
        };
        if dead && let Some(holder) = &status.holder {
            tracing::warn!(target: metric::TARGET, %holder, "the worker before this one is dead: its guard is taken over");
        }
        dead
    }
}

/// From any thread, also when the runtime is stuck: then the process ends by force.
fn lost_guard(loss: &Loss, lost: Lost, last_resort: Option<Duration>) {
    loss.tell(lost);
    let Some(time) = last_resort else { return };
    let forced = std::thread::Builder::new().name("last-resort".to_owned()).spawn(move || {
        let (_kept, never) = mpsc::sync_channel::<()>(1);
        // Nobody sends: this waits for the time to pass.
        let _time_is_over = never.recv_timeout(time);
        std::process::exit(lease_keeper::limits::EXIT);
    });
    if forced.is_err() {
        std::process::exit(lease_keeper::limits::EXIT);
    }
}

/// Ends what an earlier worker left held. The store checks the guard in the same step.
pub(crate) async fn wipe(gate: &Gate) -> Result<usize, Fatal> {
    let mut count = 0;
    for prefix in keys::WIPED {
        let prefix = keys::prefix(prefix).map_err(Fatal::store)?;
        count += gate.wipe(prefix).await.map_err(Fatal::store)?;
    }
    if count > 0 {
        tracing::info!(target: metric::TARGET, count, "leases of an earlier worker were ended");
    }
    Ok(count)
}
