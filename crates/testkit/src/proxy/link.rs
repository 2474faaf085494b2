//! One client connection and the server connection behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Direction;
use super::lane::Shared;
use super::pump::{Break, Pump};
use crate::lock;

/// A socket that is reset when dropped, unless it was closed before. A cut, a trap or the end of the proxy must look like
/// a fault and not like an orderly close.
struct Socket {
    stream: TcpStream,
    in_peace: bool,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.in_peace {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// Counts a connection as open until it is dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An accepted and counted client. It is reset if it is dropped before it is served.
pub(super) struct Link {
    client: Socket,
    open: Open,
}

impl Link {
    pub(super) fn new(client: TcpStream, shared: Arc<Shared>) -> Self {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self { client: Socket { stream: client, in_peace: false }, open: Open(shared) }
    }

    /// Serves the client until both sides have closed or one fails.
    pub(super) async fn serve(self) {
        let Self { mut client, open } = self;
        let shared = &*open.0;
        let upstream = *lock(&shared.upstream);
        let Ok(server) = TcpStream::connect(upstream).await else { return };
        let mut server = Socket { stream: server, in_peace: false };
        // Otherwise a reply in two writes waits for a delayed acknowledgement, which tests would measure as latency.
        let _ = client.stream.set_nodelay(true);
        let _ = server.stream.set_nodelay(true);
        match exchange(&mut client.stream, &mut server.stream, shared).await {
            Ok(()) => {
                client.in_peace = true;
                server.in_peace = true;
            }
            Err(Break::Reset) => {}
            Err(Break::BeforeReply) => {
                shared.traps.count_sprung();
                drop(client);
                // The connection to the server stays open, so that the request is executed.
                drain(&mut server.stream).await;
            }
            Err(Break::AfterBytes(Direction::ToServer)) => {
                shared.traps.count_sprung();
                drop(client);
                hang_up(server).await;
            }
            Err(Break::AfterBytes(Direction::ToClient)) => {
                shared.traps.count_sprung();
                drop(server);
                hang_up(client).await;
            }
        }
    }
}

async fn exchange(client: &mut TcpStream, server: &mut TcpStream, shared: &Shared) -> Result<(), Break> {
    let marked = AtomicBool::new(false);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = Pump {
        direction: Direction::ToServer,
        source: from_client,
        sink: to_server,
        shared,
        marked: &marked,
    };
    let replies = Pump {
        direction: Direction::ToClient,
        source: from_server,
        sink: to_client,
        shared,
        marked: &marked,
    };
    tokio::try_join!(requests.run(), replies.run()).map(|_| ())
}

/// Closes the side of the receiver gracefully: a reset could overtake pending bytes.
async fn hang_up(mut receiver: Socket) {
    let _ = receiver.stream.shutdown().await;
    drain(&mut receiver.stream).await;
    receiver.in_peace = true;
}

async fn drain(stream: &mut TcpStream) {
    let mut buffer = vec![0; 4096];
    while matches!(stream.read(&mut buffer).await, Ok(n) if n > 0) {}
}
