//! How endpoints are configured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustix::net::sockopt;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::hashes::Hashes;
use crate::limits;
use crate::transport::{RELAY, ReceiveLimits};

/// The endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("WebTransport endpoint: {0}")]
pub struct EndpointError(String);

pub(super) fn failed(error: impl std::fmt::Display) -> EndpointError {
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

/// How a sender finds out what a path carries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Congestion {
    /// CUBIC: backs off when packets are lost.
    #[default]
    Cubic,
    /// BBR: follows the measured rate and round trip.
    Bbr,
}

/// Options of a listener.
#[derive(Clone, Copy, Default)]
pub struct ListenerOptions<'a> {
    /// Idle timeout and keep-alive.
    pub timing: Timing,
    /// How this end sends.
    pub congestion: Congestion,
    /// The stateless reset key: peers of an earlier listener with the same key learn at once that it is gone.
    pub reset_key: Option<&'a [u8; 64]>,
}

fn transport(timing: Timing, congestion: Congestion) -> Result<quinn::TransportConfig, EndpointError> {
    let mut config = quinn::TransportConfig::default();
    config
        .max_idle_timeout(Some(timing.idle.try_into().map_err(failed)?))
        .keep_alive_interval(Some(timing.keep_alive))
        .initial_rtt(limits::FIRST_RTT)
        .send_fairness(false)
        .datagram_send_buffer_size(limits::DATAGRAMS_OUT);
    if congestion == Congestion::Bbr {
        config.congestion_controller_factory(Arc::new(quinn::congestion::BbrConfig::default()));
    }
    Ok(config)
}

/// A server accepts little from a peer that it does not know. `Session::set_receive_limits` raises that.
fn server_transport(
    timing: Timing,
    congestion: Congestion,
) -> Result<Arc<quinn::TransportConfig>, EndpointError> {
    let mut config = transport(timing, congestion)?;
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
    let mut config = transport(timing, Congestion::default())?;
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

/// The configuration of a server with this certificate, for clients and for other handlers.
pub(super) fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    timing: Timing,
    congestion: Congestion,
) -> Result<quinn::ServerConfig, EndpointError> {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(failed)?;
    tls.alpn_protocols = [web_transport_quinn::ALPN, RELAY].map(|name| name.as_bytes().to_vec()).to_vec();
    let crypto = QuicServerConfig::try_from(tls).map_err(failed)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(server_transport(timing, congestion)?).max_incoming(limits::WAITING);
    Ok(config)
}

/// The configuration of a client that speaks one protocol. The server's certificate must have one of these hashes, or be
/// signed by one of these authorities if there are none.
pub(super) fn client_config(
    protocol: &str,
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
            let verifier = Arc::new(Hashes::new(provider(), hashes));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let crypto = QuicClientConfig::try_from(tls).map_err(failed)?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(client_transport(timing)?);
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
pub(super) fn endpoint(
    address: SocketAddr,
    config: quinn::EndpointConfig,
    server: Option<quinn::ServerConfig>,
) -> Result<quinn::Endpoint, EndpointError> {
    let runtime = quinn::default_runtime().ok_or_else(|| failed("no tokio runtime"))?;
    quinn::Endpoint::new(config, server, socket(address)?, runtime).map_err(failed)
}
