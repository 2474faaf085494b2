//! WebTransport over QUIC.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustix::net::sockopt;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tenure_lease::Clock;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use url::Url;
use web_transport_quinn::{self as wt, SessionError, WebTransportError};

use crate::limits;
use crate::transport::{
    Closed, Connect, Listener as TransportListener, Offer as TransportOffer, PathStats, ReceiveLimits,
    RecvStream, SendStream, Session as TransportSession, Streams, TransportError,
};

/// Application protocols that are confirmed to clients that ask for them.
const PROTOCOLS: [&str; 1] = ["tenure-media-1"];

/// The endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("WebTransport endpoint: {0}")]
pub struct EndpointError(String);

fn failed(error: impl std::fmt::Display) -> EndpointError {
    EndpointError(error.to_string())
}

/// Idle timeout and keep-alive interval. The shorter timeout of the two peers applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Idle timeout.
    pub idle: Duration,
    /// Keep-alive interval.
    pub keep_alive: Duration,
}

impl Default for Timing {
    /// An idle timeout of five seconds with four keep-alives in it.
    fn default() -> Self {
        Self { idle: limits::IDLE, keep_alive: limits::KEEP_ALIVE }
    }
}

fn transport(timing: Timing) -> Result<quinn::TransportConfig, EndpointError> {
    let mut config = quinn::TransportConfig::default();
    config
        .max_idle_timeout(Some(timing.idle.try_into().map_err(failed)?))
        .keep_alive_interval(Some(timing.keep_alive))
        .initial_rtt(limits::FIRST_RTT)
        .send_fairness(false)
        .datagram_send_buffer_size(limits::DATAGRAMS_OUT);
    Ok(config)
}

/// A server accepts little from a peer that it does not know. [`TransportSession::set_receive_limits`] raises that.
fn server_transport(timing: Timing) -> Result<Arc<quinn::TransportConfig>, EndpointError> {
    let mut config = transport(timing)?;
    config
        .max_concurrent_bidi_streams(limits::BIDI_STREAMS.into())
        .max_concurrent_uni_streams(ReceiveLimits::UNKNOWN_PEER.uni_streams.into())
        .receive_window(ReceiveLimits::UNKNOWN_PEER.window.into())
        .stream_receive_window(limits::STREAM_WINDOW.into())
        .send_window(limits::SEND_WINDOW)
        .datagram_receive_buffer_size(Some(limits::DATAGRAMS_IN));
    Ok(Arc::new(config))
}

/// A client chose its server, and receives the media of a whole meeting.
fn client_transport(timing: Timing) -> Result<Arc<quinn::TransportConfig>, EndpointError> {
    let mut config = transport(timing)?;
    config
        .max_concurrent_bidi_streams(limits::BIDI_STREAMS.into())
        .max_concurrent_uni_streams(limits::CLIENT_UNI_STREAMS.into())
        .receive_window(limits::CLIENT_WINDOW.into())
        .stream_receive_window(limits::STREAM_WINDOW.into())
        .datagram_receive_buffer_size(Some(limits::CLIENT_DATAGRAMS_IN));
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    timing: Timing,
) -> Result<quinn::ServerConfig, EndpointError> {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(failed)?;
    tls.alpn_protocols = vec![wt::ALPN.as_bytes().to_vec()];
    let crypto = QuicServerConfig::try_from(tls).map_err(failed)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(server_transport(timing)?).max_incoming(limits::WAITING);
    Ok(config)
}

/// Binds a socket with buffers for a connection storm: its reader has one core and may be busy for a while.
fn socket(address: SocketAddr) -> Result<std::net::UdpSocket, EndpointError> {
    let socket = std::net::UdpSocket::bind(address).map_err(failed)?;
    // Exceeding the system limit needs a privilege. Without it, the limit applies.
    if sockopt::set_socket_recv_buffer_size_force(&socket, limits::BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, limits::BUFFER).map_err(failed)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, limits::BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, limits::BUFFER).map_err(failed)?;
    }
    Ok(socket)
}

/// Opens an endpoint on its own socket.
fn endpoint(
    address: SocketAddr,
    config: quinn::EndpointConfig,
    server: Option<quinn::ServerConfig>,
) -> Result<quinn::Endpoint, EndpointError> {
    let runtime = quinn::default_runtime().ok_or_else(|| failed("no tokio runtime"))?;
    quinn::Endpoint::new(config, server, socket(address)?, runtime).map_err(failed)
}

/// Accepts clients over the network.
pub struct Listener {
    endpoint: quinn::Endpoint,
    clock: Arc<dyn Clock>,
    timing: Timing,
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
        Self::bind_with(address, chain, key, clock, timing, None)
    }

    /// Like [`Listener::bind`], with a stateless reset key: peers of an earlier listener with the same key learn at once that it is gone.
    pub fn bind_with(
        address: SocketAddr,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        clock: Arc<dyn Clock>,
        timing: Timing,
        reset_key: Option<&[u8; 64]>,
    ) -> Result<Self, EndpointError> {
        let config = server_config(chain, key, timing)?;
        let endpoint_config = reset_key.map_or_else(quinn::EndpointConfig::default, |key| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
            quinn::EndpointConfig::new(Arc::new(key))
        });
        let endpoint = endpoint(address, endpoint_config, Some(config))?;
        Ok(Self { endpoint, clock, timing, handshakes: Mutex::new(JoinSet::new()) })
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
        self.endpoint.set_server_config(Some(server_config(chain, key, self.timing)?));
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
    Some(Offer { connect, request })
}

struct Offer {
    connect: Connect,
    request: wt::Request,
}

#[async_trait]
impl TransportOffer for Offer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<SocketAddr> {
        Some(self.request.conn().remote_address())
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn TransportSession>, TransportError> {
        let offered = &self.request.connect().protocols;
        let chosen = PROTOCOLS.into_iter().find(|ours| offered.iter().any(|theirs| theirs == ours));
        let response = wt::proto::ConnectResponse::OK;
        let response = match chosen {
            Some(protocol) => response.with_protocol(protocol),
            None => response,
        };
        let session = self.request.respond(response).await;
        let session = session.map_err(|error| TransportError::Refused(error.to_string()))?;
        Ok(Arc::new(Session(session)))
    }

    async fn reject(self: Box<Self>, status: u16) {
        let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::NOT_FOUND);
        let _gone_already = self.request.reject(status).await;
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
        let config = client_config(hashes, &self.roots, self.timing).map_err(|error| refused(&error))?;
        let mut request = wt::proto::ConnectRequest::new(url);
        if let Some(traceparent) = traceparent {
            let value = http::HeaderValue::from_str(traceparent).map_err(|error| refused(&error))?;
            request = request.with_header(http::HeaderName::from_static("traceparent"), value);
        }
        let client = wt::Client::new(self.endpoint.clone(), config);
        let session = client.connect(request).await.map_err(|error| refused(&error))?;
        Ok(Arc::new(Session(session)))
    }

    /// Waits until all sessions are closed and their peers notified.
    pub async fn settled(&self) {
        self.endpoint.wait_idle().await;
    }
}

fn client_config(
    hashes: &[Vec<u8>],
    roots: &Arc<rustls::RootCertStore>,
    timing: Timing,
) -> Result<quinn::ClientConfig, EndpointError> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?;
    let mut tls = match hashes {
        [] => builder.with_root_certificates(roots.clone()).with_no_client_auth(),
        hashes => {
            let verifier = Arc::new(crate::transport::quic_hash::Hashes::new(provider(), hashes));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    tls.alpn_protocols = vec![wt::ALPN.as_bytes().to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(failed)?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(client_transport(timing)?);
    Ok(config)
}

struct Session(wt::Session);

fn ended(error: &SessionError) -> Closed {
    match error {
        SessionError::WebTransportError(WebTransportError::Closed(code, _)) => Closed::Code(*code),
        other => Closed::Lost(other.to_string()),
    }
}

fn gone(error: &SessionError) -> TransportError {
    TransportError::Closed(ended(error))
}

#[async_trait]
impl TransportSession for Session {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        let (send, receive) = self.0.accept_bi().await.map_err(|error| gone(&error))?;
        Ok((Box::new(Sending(send)), Box::new(Receiving(receive))))
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        let (send, receive) = self.0.open_bi().await.map_err(|error| gone(&error))?;
        Ok((Box::new(Sending(send)), Box::new(Receiving(receive))))
    }

    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError> {
        Ok(Box::new(Receiving(self.0.accept_uni().await.map_err(|error| gone(&error))?)))
    }

    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError> {
        Ok(Box::new(Sending(self.0.open_uni().await.map_err(|error| gone(&error))?)))
    }

    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError> {
        use quinn::SendDatagramError::{Disabled, TooLarge, UnsupportedByPeer};
        let len = bytes.len();
        self.0.send_datagram(bytes).map_err(|error| match error {
            SessionError::SendDatagramError(Disabled | TooLarge | UnsupportedByPeer) => {
                TransportError::Datagram(len)
            }
            error => gone(&error),
        })
    }

    async fn receive_datagram(&self) -> Result<Bytes, TransportError> {
        self.0.read_datagram().await.map_err(|error| gone(&error))
    }

    fn max_datagram(&self) -> usize {
        self.0.max_datagram_size()
    }

    fn stats(&self) -> PathStats {
        let stats = quinn::Connection::stats(&self.0);
        PathStats {
            rtt: stats.path.rtt,
            min_rtt: stats.path.min_rtt,
            sent_bytes: stats.udp_tx.bytes,
            lost_bytes: stats.path.lost_bytes,
            sent_packets: stats.path.sent_packets,
            lost_packets: stats.path.lost_packets,
            received_bytes: stats.udp_rx.bytes,
        }
    }

    fn set_send_window(&self, bytes: u64) {
        quinn::Connection::set_send_window(&self.0, bytes);
    }

    fn set_receive_limits(&self, limits: ReceiveLimits) {
        self.0.set_receive_window(limits.window.into());
        self.0.set_max_concurrent_uni_streams(limits.uni_streams.into());
    }

    fn close(&self, code: u32, reason: &str) {
        self.0.close(code, reason.as_bytes());
    }

    async fn closed(&self) -> Closed {
        ended(&self.0.closed().await)
    }

    fn remote(&self) -> Option<SocketAddr> {
        Some(self.0.remote_address())
    }
}

struct Sending(wt::SendStream);

#[async_trait]
impl SendStream for Sending {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        self.0.write_chunk(bytes).await.map_err(|error| match error {
            wt::WriteError::SessionError(error) => gone(&error),
            wt::WriteError::Stopped(code) => TransportError::Reset(Some(code)),
            _ => TransportError::Reset(None),
        })
    }

    fn finish(&mut self) {
        // The stream is already finished or reset.
        let _ = self.0.finish();
    }

    fn reset(&mut self, code: u32) {
        // The stream is already finished or reset.
        let _ = self.0.reset(code);
    }

    fn set_priority(&mut self, priority: i32) {
        // The stream is already closed.
        let _ = self.0.set_priority(priority);
    }
}

struct Receiving(wt::RecvStream);

#[async_trait]
impl RecvStream for Receiving {
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError> {
        match self.0.read_chunk(max, true).await {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(wt::ReadError::SessionError(error)) => Err(gone(&error)),
            Err(wt::ReadError::Reset(code)) => Err(TransportError::Reset(Some(code))),
            Err(_) => Err(TransportError::Reset(None)),
        }
    }

    fn stop(&mut self, code: u32) {
        // The stream has already ended.
        let _ = self.0.stop(code);
    }
}
