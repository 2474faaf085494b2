//! WebTransport over QUIC, and plain QUIC between media handlers.

mod config;
mod hashes;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tenure_lease::Clock;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use url::Url;
use web_transport_quinn as wt;

pub use config::{Congestion, EndpointError, ListenerOptions, Timing};
use config::{client_config, endpoint, failed, server_config};
use session::Session;

use crate::limits;
use crate::transport::{
    Connect, Listener as TransportListener, Offer as TransportOffer, RELAY, Session as TransportSession,
    TransportError,
};

/// Application protocols that are confirmed to clients that ask for them.
const PROTOCOLS: [&str; 1] = ["tenure-media-1"];

/// Accepts clients over the network.
pub struct Listener {
    endpoint: quinn::Endpoint,
    clock: Arc<dyn Clock>,
    timing: Timing,
    congestion: Congestion,
    handshakes: Mutex<JoinSet<Option<Offer>>>,
}

impl Listener {
    /// Listens on a UDP address with this certificate.
    pub fn bind(
        address: SocketAddr,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Result<Self, EndpointError> {
        Self::bind_with(address, chain, key, clock, ListenerOptions { timing, ..ListenerOptions::default() })
    }

    /// Like [`Listener::bind`], with all options.
    pub fn bind_with(
        address: SocketAddr,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        clock: Arc<dyn Clock>,
        options: ListenerOptions<'_>,
    ) -> Result<Self, EndpointError> {
        let ListenerOptions { timing, congestion, reset_key } = options;
        let config = server_config(chain, key, timing, congestion)?;
        let endpoint_config = reset_key.map_or_else(quinn::EndpointConfig::default, |key| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
            quinn::EndpointConfig::new(Arc::new(key))
        });
        let endpoint = endpoint(address, endpoint_config, Some(config))?;
        Ok(Self { endpoint, clock, timing, congestion, handshakes: Mutex::new(JoinSet::new()) })
    }

    /// The local address.
    pub fn address(&self) -> Result<SocketAddr, EndpointError> {
        self.endpoint.local_addr().map_err(failed)
    }

    /// Serves new connections with another certificate. Existing connections are kept.
    pub fn renew(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), EndpointError> {
        let config = server_config(chain, key, self.timing, self.congestion)?;
        self.endpoint.set_server_config(Some(config));
        Ok(())
    }

    /// Waits until all sessions are closed and their peers notified.
    pub async fn settled(&self) {
        self.endpoint.wait_idle().await;
    }

    /// Accepts no further connections.
    pub fn close(&self) {
        self.endpoint.set_server_config(None);
        self.endpoint.close(quinn::VarInt::from_u32(0), b"closing");
    }
}

#[async_trait]
impl TransportListener for Listener {
    async fn offer(&self) -> Option<Box<dyn TransportOffer>> {
        let mut handshakes = self.handshakes.lock().await;
        loop {
            tokio::select! {
                Some(done) = handshakes.join_next() => {
                    if let Ok(Some(offer)) = done {
                        return Some(Box::new(offer));
                    }
                }
                // Further connections queue in the endpoint in order, so that a storm drains instead of being refused and retried.
                incoming = self.endpoint.accept(), if handshakes.len() < limits::HANDSHAKES => {
                    let incoming = incoming?;
                    let clock = self.clock.clone();
                    handshakes.spawn(async move {
                        let late = clock.sleep_until(clock.now() + limits::HANDSHAKE);
                        tokio::select! {
                            offer = shake(incoming) => offer,
                            () = late => None,
                        }
                    });
                }
            }
        }
    }
}

/// Completes a handshake. A client that fails it is dropped.
async fn shake(incoming: quinn::Incoming) -> Option<Offer> {
    let connection = incoming.await.ok()?;
    if protocol(&connection).is_some_and(|protocol| protocol == RELAY.as_bytes()) {
        let connect = Connect { path: RELAY.to_owned(), ..Connect::default() };
        return Some(Offer { connect, request: Request::Relay(connection) });
    }
    let request = wt::Request::accept(connection).await.ok()?;
    let header = |name: &str| {
        let value = request.connect().headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let connect = Connect {
        path: request.connect().url.path().to_owned(),
        origin: header("origin"),
        traceparent: header("traceparent"),
    };
    Some(Offer { connect, request: Request::WebTransport(Box::new(request)) })
}

/// The protocol that the handshake chose.
fn protocol(connection: &quinn::Connection) -> Option<Vec<u8>> {
    let data = connection.handshake_data()?.downcast::<quinn::crypto::rustls::HandshakeData>().ok()?;
    data.protocol
}

enum Request {
    WebTransport(Box<wt::Request>),
    Relay(quinn::Connection),
}

struct Offer {
    connect: Connect,
    request: Request,
}

#[async_trait]
impl TransportOffer for Offer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<SocketAddr> {
        Some(match &self.request {
            Request::WebTransport(request) => request.conn().remote_address(),
            Request::Relay(connection) => connection.remote_address(),
        })
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn TransportSession>, TransportError> {
        let request = match self.request {
            Request::WebTransport(request) => *request,
            Request::Relay(connection) => return Ok(Arc::new(Session(wt::Session::raw(connection)))),
        };
        let offered = &request.connect().protocols;
        let chosen = PROTOCOLS.into_iter().find(|ours| offered.iter().any(|theirs| theirs == ours));
        let response = wt::proto::ConnectResponse::OK;
        let response = match chosen {
            Some(protocol) => response.with_protocol(protocol),
            None => response,
        };
        let session = request.respond(response).await;
        let session = session.map_err(|error| TransportError::Refused(error.to_string()))?;
        Ok(Arc::new(Session(session)))
    }

    async fn reject(self: Box<Self>, status: u16) {
        match self.request {
            Request::WebTransport(request) => {
                let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::NOT_FOUND);
                let _gone_already = request.reject(status).await;
            }
            Request::Relay(connection) => connection.close(u32::from(status).into(), b"rejected"),
        }
    }
}

/// Connects to endpoints.
#[derive(Clone)]
pub struct Dialer {
    endpoint: quinn::Endpoint,
    timing: Timing,
    roots: Arc<rustls::RootCertStore>,
}

impl Dialer {
    /// Sends from this address; port 0 picks a free one.
    pub fn new(from: SocketAddr, timing: Timing) -> Result<Self, EndpointError> {
        let roots = Arc::new(rustls::RootCertStore::empty());
        Ok(Self { endpoint: endpoint(from, quinn::EndpointConfig::default(), None)?, timing, roots })
    }

    /// Trusts these authorities for endpoints without a pinned certificate hash.
    #[must_use]
    pub fn trusting(self, authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        // Invalid certificates are skipped.
        roots.add_parsable_certificates(authorities);
        Self { roots: Arc::new(roots), ..self }
    }

    /// Opens a session with the endpoint at an https URL, whose certificate has one of these SHA-256 hashes. Without hashes, the
    /// certificate must be signed by a trusted authority.
    pub async fn dial(
        &self,
        url: &str,
        hashes: &[Vec<u8>],
        traceparent: Option<&str>,
    ) -> Result<Arc<dyn TransportSession>, TransportError> {
        let refused = |error: &dyn std::fmt::Display| TransportError::Refused(error.to_string());
        let url = Url::parse(url).map_err(|error| refused(&error))?;
        let config =
            client_config(wt::ALPN, hashes, &self.roots, self.timing).map_err(|error| refused(&error))?;
        let mut request = wt::proto::ConnectRequest::new(url);
        if let Some(traceparent) = traceparent {
            let value = http::HeaderValue::from_str(traceparent).map_err(|error| refused(&error))?;
            request = request.with_header(http::HeaderName::from_static("traceparent"), value);
        }
        let client = wt::Client::new(self.endpoint.clone(), config);
        let session = client.connect(request).await.map_err(|error| refused(&error))?;
        Ok(Arc::new(Session(session)))
    }

    /// Opens a plain QUIC connection with the handler at an https URL, whose certificate is checked as in
    /// [`Dialer::dial`]. The path does not matter.
    pub async fn dial_relay(
        &self,
        url: &str,
        hashes: &[Vec<u8>],
    ) -> Result<Arc<dyn TransportSession>, TransportError> {
        let refused = |error: &dyn std::fmt::Display| TransportError::Refused(error.to_string());
        let url = Url::parse(url).map_err(|error| refused(&error))?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = url.port_or_known_default().unwrap_or_default();
        let mut addresses = tokio::net::lookup_host((host, port)).await.map_err(|error| refused(&error))?;
        let address = addresses.next().ok_or_else(|| refused(&"the name has no address"))?;
        let config =
            client_config(RELAY, hashes, &self.roots, self.timing).map_err(|error| refused(&error))?;
        let connecting =
            self.endpoint.connect_with(config, address, host).map_err(|error| refused(&error))?;
        let connection = connecting.await.map_err(|error| refused(&error))?;
        Ok(Arc::new(Session(wt::Session::raw(connection))))
    }

    /// Waits until all sessions are closed and their peers notified.
    pub async fn settled(&self) {
        self.endpoint.wait_idle().await;
    }
}
