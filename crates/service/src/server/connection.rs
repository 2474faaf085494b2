//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, Look, Patience};
use super::edge::Edge;
use super::io::Io;
use crate::clock;
use crate::convoy::Convoy;
use crate::shutdown::Shutdown;

/// Requests at once on one HTTP/2 connection. A client may park one per lease it waits for.
const MOST_STREAMS: u32 = 1_024;
/// The least buffer that hyper accepts.
const LEAST_BUFFER: usize = 8_192;
/// How often an HTTP/2 peer is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the goodbye to an idle connection may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Clone)]
pub(super) struct Serve {
    pub(super) max_header_bytes: usize,
    pub(super) edge: Edge,
    pub(super) patience: Patience,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) shutdown: Shutdown,
}

/// How to speak HTTP within these limits. Requests of HTTP/2 travel with their connection.
fn builder(max_header_bytes: usize, convoy: Convoy) -> Builder<Convoy> {
    let mut builder = Builder::new(convoy);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).half_close(false);
    builder.http1().max_buf_size(max_header_bytes.max(LEAST_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

impl Serve {
    /// Serves until the client goes, is idle or too slow, or the shutdown has let it finish.
    pub(super) async fn connection(self, io: Io, peer: SocketAddr, activity: Arc<Activity>) {
        let Some(tls) = self.tls.clone() else {
            return self.speak(io, peer, activity).await;
        };
        match clock::within(self.patience.head, tls.accept(io)).await {
            Some(Ok(io)) => {
                activity.greeted(io.get_ref().1.alpn_protocol() == Some(b"h2"));
                self.speak(io, peer, activity).await;
            }
            Some(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
            None => tracing::debug!(%peer, "the TLS handshake took too long"),
        }
    }

    async fn speak<S>(self, io: S, peer: SocketAddr, activity: Arc<Activity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let convoy = Convoy::default();
        convoy.clone().lead(self.serve(io, peer, activity, convoy)).await;
    }

    async fn serve<S>(self, io: S, peer: SocketAddr, activity: Arc<Activity>, convoy: Convoy)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| {
            let answer = self.edge.clone().answer(request, peer, activity.clone());
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let builder = builder(self.max_header_bytes, convoy);
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), service));
        let mut ending = false;
        loop {
            let wait = match activity.look(self.patience) {
                Look::Later(wait) => wait,
                Look::Slow => {
                    tracing::debug!(%peer, "dropping a connection that is too slow");
                    return;
                }
                Look::Idle if ending => return,
                Look::Idle => {
                    connection.as_mut().graceful_shutdown();
                    ending = true;
                    GOODBYE
                }
            };
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "the connection ended");
                    }
                    return;
                }
                () = self.shutdown.wait(), if !ending => {
                    connection.as_mut().graceful_shutdown();
                    ending = true;
                }
                () = clock::sleep(wait) => {}
            }
        }
    }
}
