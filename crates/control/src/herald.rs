//! The small tasks that follow the desk: they tell what changed, store it, and notice what is over.

use std::sync::Arc;
use std::time::Duration;

use crate::command::{state, status};
use crate::desk::Inner;
use crate::telemetry::TARGET;
use crate::wire;

/// Changes within this time are told together.
const TOGETHER: Duration = Duration::from_millis(100);
/// Changes within this time are stored together.
const STORED: Duration = Duration::from_secs(1);
/// How often everybody hears the whole status.
const STATUS: Duration = Duration::from_secs(5);
/// How long nothing can be over, at most: a look this often costs nothing.
const LONGEST: Duration = Duration::from_secs(1);

/// Ends what is over, when it is over.
pub(crate) async fn watch(inner: Arc<Inner>) {
    while !inner.ends.is_cancelled() {
        let wait = {
            let desk = inner.look();
            let now = inner.now();
            let view = desk.lease.view(now);
            let lease = view.active.then_some(view.remaining);
            let stream = desk.stream.expires().map(|expires| expires.left(now));
            let least = lease.into_iter().chain(stream).min();
            least.map_or(LONGEST, |ms| Duration::from_millis(u64::from(ms).max(1))).min(LONGEST)
        };
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => {}
            () = inner.wake.notified() => {}
            () = inner.uptime.sleep(wait) => {}
        }
    }
}

/// Tells everybody what the device shows, soon after each change, and everything now and then.
pub(crate) async fn tell(inner: Arc<Inner>) {
    let mut revised = inner.revised.subscribe();
    let mut due = inner.tick() + STATUS;
    loop {
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => return,
            changed = revised.changed() => {
                if changed.is_err() {
                    return;
                }
                inner.uptime.sleep(TOGETHER).await;
                revised.borrow_and_update();
                let told = wire::notice("device.stateChanged", &state(&inner.look().device));
                inner.tell(told);
            }
            () = inner.uptime.clock().sleep_until(due) => {
                due = inner.tick() + STATUS;
                // Nobody hears a process that stands by.
                if inner.news.receiver_count() > 0 {
                    let told = wire::notice("status", &status(&inner, &inner.look()));
                    inner.tell(told);
                }
            }
        }
    }
}

/// Stores what the device shows, so that a successor begins with it.
pub(crate) async fn store(inner: Arc<Inner>) {
    let mut revised = inner.revised.subscribe();
    loop {
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => return,
            changed = revised.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => {}
            () = inner.uptime.sleep(STORED) => {}
        }
        revised.borrow_and_update();
        save(&inner).await;
    }
}

/// Stores what the device shows now.
pub(crate) async fn save(inner: &Arc<Inner>) {
    let _turn = inner.saving.lock().await;
    // Without the gate there is nothing to store: what is shown is somebody else's.
    let Ok(fence) = inner.fence() else { return };
    let kept = inner.look().device.kept();
    if let Err(refusal) = inner.vault.keep(fence, &kept).await {
        tracing::warn!(target: TARGET, %refusal, "what the device shows was not stored");
    }
}
