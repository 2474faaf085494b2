//! Hands on the device itself: a serial line and a knob. Neither can own the lease, so neither changes anything while
//! somebody does.

pub(crate) mod encoder;
pub(crate) mod serial;
mod text;

use std::sync::Arc;
use std::time::Duration;

use crate::desk::Inner;

/// How long to wait before a device that is gone is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Listens on every input of the settings until the end.
pub(crate) fn start(inner: &Arc<Inner>) {
    for line in inner.options.serial.clone() {
        inner.tasks.spawn(serial::run(inner.clone(), line));
    }
    for path in inner.options.encoder.clone() {
        inner.tasks.spawn(encoder::run(inner.clone(), path));
    }
}

/// Waits before the next try; whether there is one.
async fn again(inner: &Inner) -> bool {
    tokio::select! {
        biased;
        () = inner.ends.cancelled() => false,
        () = inner.uptime.sleep(AGAIN) => true,
    }
}
