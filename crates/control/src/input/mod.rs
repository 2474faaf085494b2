//! Local inputs: serial ports and rotary encoders. They cannot own the lease, so they are blocked while it is active.

pub(crate) mod encoder;
pub(crate) mod serial;
mod text_commands;

use std::sync::Arc;
use std::time::Duration;

use crate::service::ControlService;

/// Delay before a lost device is opened again.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Starts every configured input.
pub(crate) fn start(service: &Arc<ControlService>) {
    for port in service.options.serial.clone() {
        service.tasks.spawn(serial::run(service.clone(), port));
    }
    for path in service.options.encoder.clone() {
        service.tasks.spawn(encoder::run(service.clone(), path));
    }
}

/// Waits before the next attempt. Returns false on shutdown.
async fn wait_for_retry(service: &ControlService) -> bool {
    tokio::select! {
        biased;
        () = service.shutdown.cancelled() => false,
        () = service.uptime.sleep(RETRY_DELAY) => true,
    }
}
