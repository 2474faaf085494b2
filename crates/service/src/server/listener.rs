//! Accepts connections up to a limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock;

/// How long to wait after a failed accept, for example for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// File descriptors kept for everything but connections.
const SPARE_FILES: u64 = 256;

/// A listener and its connection slots.
#[derive(Debug)]
pub(super) struct Listener {
    tcp: TcpListener,
    slots: Arc<Semaphore>,
}

impl Listener {
    /// Listens on `address`, with at most `most` connections, or fewer if the system allows fewer open files.
    pub(super) async fn bind(address: SocketAddr, most: usize) -> io::Result<Self> {
        let most =
            most.min(raise_file_limit(most as u64 + SPARE_FILES).saturating_sub(SPARE_FILES).max(1) as usize);
        let tcp = TcpListener::bind(address).await?;
        Ok(Self { tcp, slots: Arc::new(Semaphore::new(most)) })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The next connection, with a slot if one is free.
    pub(super) async fn accept(&self) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
        loop {
            match self.tcp.accept().await {
                Ok((stream, peer)) => {
                    // Responses are small and awaited, so batching them gains nothing.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer, self.slots.clone().try_acquire_owned().ok());
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    clock::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Raises the soft limit of open files to `wanted`, as far as the hard limit allows. Returns the limit in force.
fn raise_file_limit(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if soft >= wanted {
        return soft;
    }
    let raised = wanted.min(hard);
    let now = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    if now < wanted {
        tracing::warn!(
            files = now,
            wanted,
            "the open file limit allows fewer connections than limits.max_connections"
        );
    }
    now
}
