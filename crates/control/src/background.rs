//! Background tasks: they end expired leases and streams, publish changes and store them.

use std::sync::Arc;
use std::time::Duration;

use crate::command::{device_state, device_status};
use crate::service::ControlService;
use crate::telemetry::TARGET;
use crate::wire;

/// Changes within this time are published together.
const PUBLISH_DELAY: Duration = Duration::from_millis(100);
/// Changes within this time are stored together.
const STORE_DELAY: Duration = Duration::from_secs(1);
/// Interval of the full status broadcast.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait between two checks for expired leases and streams.
const MAX_EXPIRY_WAIT: Duration = Duration::from_secs(1);

/// Ends expired leases and streams on time.
pub(crate) async fn expire_due(service: Arc<ControlService>) {
    while !service.shutdown.is_cancelled() {
        let wait = {
            let state = service.lock_state();
            let now = service.now();
            let view = state.lease.view(now);
            let lease = view.active.then_some(view.remaining);
            let stream = state.stream.expires().map(|expires| expires.left(now));
            let least = lease.into_iter().chain(stream).min();
            least
                .map_or(MAX_EXPIRY_WAIT, |ms| Duration::from_millis(u64::from(ms).max(1)))
                .min(MAX_EXPIRY_WAIT)
        };
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => {}
            () = service.expiry_wake.notified() => {}
            () = service.uptime.sleep(wait) => {}
        }
    }
}

/// Broadcasts the device state soon after each change, and the full status at intervals.
pub(crate) async fn publish_changes(service: Arc<ControlService>) {
    let mut revisions = service.revisions.subscribe();
    let mut due = service.tick() + STATUS_INTERVAL;
    loop {
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return,
            changed = revisions.changed() => {
                if changed.is_err() {
                    return;
                }
                service.uptime.sleep(PUBLISH_DELAY).await;
                revisions.borrow_and_update();
                let message = wire::broadcast_state("device.stateChanged", &device_state(&service.lock_state().device));
                service.broadcast(message);
            }
            () = service.uptime.clock().sleep_until(due) => {
                due = service.tick() + STATUS_INTERVAL;
                // A standby has no clients.
                if service.broadcasts.receiver_count() > 0 {
                    let message = wire::broadcast_state("status", &device_status(&service, &service.lock_state()));
                    service.broadcast(message);
                }
            }
        }
    }
}

/// Stores the device state after changes, for the next serving process.
pub(crate) async fn store_changes(service: Arc<ControlService>) {
    let mut revisions = service.revisions.subscribe();
    loop {
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => return,
            changed = revisions.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => {}
            () = service.uptime.sleep(STORE_DELAY) => {}
        }
        revisions.borrow_and_update();
        save_device(&service).await;
    }
}

/// Stores the current device state.
pub(crate) async fn save_device(service: &Arc<ControlService>) {
    let _turn = service.save_lock.lock().await;
    // Without the gate, another process owns the stored state.
    let Ok(fence) = service.fence() else { return };
    let snapshot = service.lock_state().device.snapshot();
    if let Err(refusal) = service.device_store.save_snapshot(fence, &snapshot).await {
        tracing::warn!(target: TARGET, %refusal, "cannot store the device state");
    }
}
