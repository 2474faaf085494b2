//! The HTTP server: one listener for HTTP/1.1, HTTP/2 and gRPC, plain or over TLS, with bounds on everything
//! a client can make it hold. Bound first, so that its port is known, then run until the shutdown.

mod activity;
mod answer;
mod certificate;
mod connection;
mod edge;
mod io;
mod listener;
mod refusal;

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
use crate::shutdown::Shutdown;
use crate::telemetry;

pub use certificate::CertificateError;

use activity::{Activity, Patience};
use certificate::Certificate;
use connection::Serve;
use edge::Edge;
use io::Io;
use listener::Listener;

/// Clients that are told at once that there is no place; more are simply closed.
const REFUSALS: usize = 64;
/// How long tasks that were cut off may take to end.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; is another process there, or is it not an address of this machine?")]
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

/// A listener that waits for a router.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    address: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    limits: Limits,
}

impl Server {
    /// Listens where the settings say. From here clients can connect; they are answered by [`Server::run`].
    pub async fn bind(settings: &Settings) -> Result<Self, ServerError> {
        let certificate = settings.tls.as_ref().map(Certificate::load).transpose()?;
        let address = settings.listen;
        let failed = |source| ServerError::Bind { address, source };
        let listener = Listener::bind(address, settings.limits.max_connections).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, certificate, limits: settings.limits.clone() })
    }

    /// The address, with the port that was given if the settings asked for any.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where a person or a program on this machine finds it: `http://127.0.0.1:7400`.
    pub fn url(&self) -> String {
        base_url(self.address, self.certificate.is_some())
    }

    /// Answers requests until the shutdown, then lets those under way finish, for as long as the settings
    /// allow. What is left then is cut off.
    pub async fn run(self, router: Router, shutdown: Shutdown) -> Result<(), ServerError> {
        let tasks = TaskTracker::new();
        let serve = self.serve(router, &shutdown)?;
        tasks.spawn(telemetry::upkeep(shutdown.clone()));
        if let Some(certificate) = &self.certificate {
            tasks.spawn(certificate.clone().keep_fresh(shutdown.clone()));
        }
        // Also when this future is dropped, no connection outlives it.
        let cut = CancellationToken::new();
        let _cut = cut.clone().drop_guard();
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        loop {
            let (stream, peer, place) = tokio::select! {
                biased;
                () = shutdown.wait() => break,
                accepted = self.listener.accept() => accepted,
            };
            if let Some(place) = place {
                let activity = Activity::new(Clock::default());
                let io = Io::new(stream, activity.clone(), place);
                let connection = serve.clone().connection(io, peer, activity);
                tasks.spawn(cut.clone().run_until_cancelled_owned(connection));
                continue;
            }
            metrics::counter!("http_connections_refused_total").increment(1);
            if let (None, Ok(turn)) = (&self.certificate, refusals.clone().try_acquire_owned()) {
                tasks.spawn(async move {
                    refusal::refuse(stream).await;
                    drop(turn);
                });
            }
        }
        // New clients are refused by the system from here on.
        drop(self.listener);
        tasks.close();
        if clock::within(self.limits.drain_timeout(), tasks.wait()).await.is_none() {
            tracing::warn!(tasks = tasks.len(), "cutting off what did not finish in time");
            cut.cancel();
            let _ = clock::within(LAST_WAIT, tasks.wait()).await;
        }
        Ok(())
    }

    fn serve(&self, router: Router, shutdown: &Shutdown) -> Result<Serve, ServerError> {
        let limits = &self.limits;
        let tls = self.certificate.as_ref().map(Certificate::server_config).transpose()?;
        Ok(Serve {
            max_header_bytes: limits.max_header_bytes,
            edge: Edge::new(router, limits.clone(), Clock::default()),
            patience: Patience { head: limits.header_timeout(), idle: limits.idle_timeout() },
            tls: tls.map(|config| TlsAcceptor::from(Arc::new(config))),
            shutdown: shutdown.clone(),
        })
    }
}
