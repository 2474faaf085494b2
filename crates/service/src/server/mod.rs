//! The HTTP server: one listener for HTTP/1.1, HTTP/2 and gRPC, plain or over TLS, with bounds on everything that a
//! client can make it hold. It is bound first, so that its port is known, and then run until the shutdown.

mod access_log;
mod activity;
mod certificate;
mod connection;
mod io;
mod listener;
mod refusal;
mod request;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::base_url;
use crate::clock::{self, Clock};
use crate::config::{Limits, Settings};
use crate::net::TrustedProxies;
use crate::shutdown::Shutdown;
use crate::telemetry;

pub use certificate::CertificateError;

use activity::{Activity, Timeouts};
use certificate::Certificate;
use connection::ConnectionServer;
use io::Io;
use listener::Listener;
use request::RequestHandler;

/// Clients over the connection limit that get a 503 response; more are closed without one.
const MAX_REFUSALS: usize = 64;
/// How long cancelled connections may take to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; the address is in use, or not one of this machine")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error("[tls]: {0}")]
    Certificate(#[from] CertificateError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A bound listener without a router.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    limits: Limits,
    trusted_proxies: TrustedProxies,
}

impl Server {
    /// Listens on the address of the settings. Clients can connect from here on; [`Server::run`] serves them.
    pub async fn bind(settings: &Settings) -> Result<Self, ServerError> {
        let certificate = settings.tls.as_ref().map(Certificate::load).transpose()?;
        let address = settings.listen;
        let failed = |source| ServerError::Bind { address, source };
        let listener = Listener::bind(address, settings.limits.max_connections).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (limits, trusted_proxies) = (settings.limits.clone(), settings.trusted_proxies.clone());
        Ok(Self { listener, address, certificate, limits, trusted_proxies })
    }

    /// The address it listens on, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The base URL on this machine, such as `http://127.0.0.1:7400`.
    pub fn url(&self) -> String {
        base_url(self.address, self.certificate.is_some())
    }

    /// Serves requests until the shutdown, then lets those under way finish within `limits.drain_timeout_ms`, and cancels
    /// the rest.
    pub async fn run(self, router: Router, shutdown: Shutdown) -> Result<(), ServerError> {
        let tasks = TaskTracker::new();
        let serve = self.serve(router, &shutdown)?;
        tasks.spawn(telemetry::upkeep(shutdown.clone()));
        if let Some(certificate) = &self.certificate {
            tasks.spawn(certificate.clone().keep_fresh(shutdown.clone()));
        }
        // No connection outlives this future, also when it is dropped.
        let cancel = CancellationToken::new();
        let _cancel = cancel.clone().drop_guard();
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        loop {
            let (stream, peer, slot) = tokio::select! {
                biased;
                () = shutdown.wait() => break,
                accepted = self.listener.accept() => accepted,
            };
            if let Some(slot) = slot {
                let activity = Activity::new(Clock::default());
                let io = Io::new(stream, activity.clone(), slot);
                let connection = serve.clone().connection(io, peer, activity);
                tasks.spawn(cancel.clone().run_until_cancelled_owned(connection));
                continue;
            }
            metrics::counter!("tenure_http_connections_refused_total").increment(1);
            if let (None, Ok(permit)) = (&self.certificate, refusals.clone().try_acquire_owned()) {
                tasks.spawn(async move {
                    refusal::refuse(stream).await;
                    drop(permit);
                });
            }
        }
        // The system refuses new connections from here on.
        drop(self.listener);
        tasks.close();
        if clock::within(self.limits.drain_timeout(), tasks.wait()).await.is_none() {
            tracing::warn!(tasks = tasks.len(), "drain timeout; cancelling the remaining connections");
            cancel.cancel();
            let _ = clock::within(CANCEL_TIMEOUT, tasks.wait()).await;
        }
        Ok(())
    }

    fn serve(&self, router: Router, shutdown: &Shutdown) -> Result<ConnectionServer, ServerError> {
        let limits = &self.limits;
        let tls = self.certificate.as_ref().map(Certificate::server_config).transpose()?;
        Ok(ConnectionServer {
            max_header_bytes: limits.max_header_bytes,
            handler: RequestHandler::new(
                router,
                limits.clone(),
                self.trusted_proxies.clone(),
                Clock::default(),
            ),
            timeouts: Timeouts { head: limits.header_timeout(), idle: limits.idle_timeout() },
            tls: tls.map(|config| TlsAcceptor::from(Arc::new(config))),
            shutdown: shutdown.clone(),
        })
    }
}
