//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tenure_executor::ConnectionExecutor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, ConnectionCheck, Timeouts};
use super::io::Io;
use super::request::RequestHandler;
use crate::clock;
use crate::shutdown::Shutdown;

/// Concurrent requests on one HTTP/2 connection. A client may have one per lease that it waits for.
const MAX_STREAMS: u32 = 1_024;
/// The smallest buffer that hyper accepts.
const MIN_BUFFER: usize = 8_192;
/// How often an HTTP/2 peer is pinged, and how long it may take to respond.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the graceful close of an idle connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What all connections share.
#[derive(Clone)]
pub(super) struct ConnectionServer {
    pub(super) max_header_bytes: usize,
    pub(super) handler: RequestHandler,
    pub(super) timeouts: Timeouts,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) shutdown: Shutdown,
}

/// HTTP with these limits. The requests of an HTTP/2 connection run in its task.
fn builder(max_header_bytes: usize, executor: ConnectionExecutor) -> Builder<ConnectionExecutor> {
    let mut builder = Builder::new(executor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).half_close(false);
    builder.http1().max_buf_size(max_header_bytes.max(MIN_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

impl ConnectionServer {
    /// Serves until the client closes, is idle or too slow, or has finished its requests after the shutdown.
    pub(super) async fn connection(self, io: Io, peer: SocketAddr, activity: Arc<Activity>) {
        let Some(tls) = self.tls.clone() else {
            return self.run(io, peer, activity).await;
        };
        match clock::within(self.timeouts.head, tls.accept(io)).await {
            Some(Ok(io)) => {
                activity.handshake_done(io.get_ref().1.alpn_protocol() == Some(b"h2"));
                self.run(io, peer, activity).await;
            }
            Some(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            None => tracing::debug!(%peer, "TLS handshake timed out"),
        }
    }

    async fn run<S>(self, io: S, peer: SocketAddr, activity: Arc<Activity>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let executor = ConnectionExecutor::default();
        executor.clone().run(self.serve(io, peer, activity, executor)).await;
    }

    async fn serve<S>(self, io: S, peer: SocketAddr, activity: Arc<Activity>, executor: ConnectionExecutor)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| {
            let response = self.handler.clone().handle(request, peer, activity.clone());
            async move { Ok::<_, Infallible>(response.await) }
        });
        let builder = builder(self.max_header_bytes, executor);
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), service));
        let mut ending = false;
        loop {
            let wait = match activity.check(self.timeouts) {
                ConnectionCheck::Later(wait) => wait,
                ConnectionCheck::Slow => {
                    tracing::debug!(%peer, "dropping a slow connection");
                    return;
                }
                ConnectionCheck::Idle if ending => return,
                ConnectionCheck::Idle => {
                    connection.as_mut().graceful_shutdown();
                    ending = true;
                    CLOSE_TIMEOUT
                }
            };
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "connection error");
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
