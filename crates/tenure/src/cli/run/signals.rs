//! The signals of this process: forwarded to a command, or the end of a cluster.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives signals.
pub(in crate::cli) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    pub(in crate::cli) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// The number of the next signal. Cancel safe.
    pub(in crate::cli) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            Some(()) = self.interrupt.recv() => SignalKind::interrupt(),
            Some(()) = self.terminate.recv() => SignalKind::terminate(),
            Some(()) = self.hangup.recv() => SignalKind::hangup(),
            Some(()) = self.quit.recv() => SignalKind::quit(),
            else => return std::future::pending().await,
        };
        kind.as_raw_value()
    }
}
