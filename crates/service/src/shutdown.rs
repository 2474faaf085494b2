//! The shutdown signal of the process.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The shutdown of a process, triggered by Ctrl-C, SIGTERM or [`Shutdown::trigger`]. Clones share the trigger.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    /// The task that listens for signals; it ends with the last clone.
    listener: Arc<Mutex<JoinSet<()>>>,
}

impl Shutdown {
    /// A shutdown that only [`Shutdown::trigger`] triggers.
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown that Ctrl-C and SIGTERM trigger. A second signal ends the process at once.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let shutdown = Self::new();
        let token = shutdown.token.clone();
        shutdown.listener.lock().spawn(listen(interrupt, terminate, token));
        Ok(shutdown)
    }

    /// Starts the shutdown. Idempotent.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Whether the shutdown has started.
    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Completes when the shutdown has started.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// The token itself, for code that takes one.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }
}

async fn listen(mut interrupt: Signal, mut terminate: Signal, token: CancellationToken) {
    let name = either(&mut interrupt, &mut terminate).await.0;
    tracing::info!(signal = name, "shutting down; a second signal exits at once");
    token.cancel();
    let (name, number) = either(&mut interrupt, &mut terminate).await;
    tracing::warn!(signal = name, "second signal; exiting without draining");
    std::process::exit(128 + number);
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clones_share_the_trigger() {
        let shutdown = Shutdown::new();
        let clone = shutdown.clone();
        assert!(!clone.is_triggered());
        shutdown.trigger();
        clone.wait().await;
        assert!(clone.is_triggered());
    }

    #[tokio::test]
    async fn sigterm_starts_the_shutdown() {
        let shutdown = Shutdown::on_signals().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        shutdown.wait().await;
    }
}
