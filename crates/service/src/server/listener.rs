//! Accepting connections, as many as are allowed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock;

/// How long to wait when the system gives no connection, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// File descriptors kept for everything but connections.
const SPARE_FILES: u64 = 256;

/// A listener and the places it has.
#[derive(Debug)]
pub(super) struct Listener {
    tcp: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener {
    /// Listens on `address`, with at most `most` connections; fewer, if the system allows fewer files.
    pub(super) async fn bind(address: SocketAddr, most: usize) -> io::Result<Self> {
        let most =
            most.min(allow_files(most as u64 + SPARE_FILES).saturating_sub(SPARE_FILES).max(1) as usize);
        let tcp = TcpListener::bind(address).await?;
        Ok(Self { tcp, places: Arc::new(Semaphore::new(most)) })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The next connection, with its place if there is one.
    pub(super) async fn accept(&self) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
        loop {
            match self.tcp.accept().await {
                Ok((stream, peer)) => {
                    // Answers are small and awaited: nothing is gained by holding them back.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer, self.places.clone().try_acquire_owned().ok());
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    clock::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Raises the soft limit of open files to `wanted`, as far as the hard limit allows. The limit then in force.
fn allow_files(wanted: u64) -> u64 {
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
            "the limit of open files allows fewer connections than the settings"
        );
    }
    now
}
