//! How to reach a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tenure_executor::ConnectionExecutor;
use tenure_host::BootClock;
use tenure_lease::{Clock, Error, Result};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::address::Address;

/// How often a connection is pinged, also when it is idle. Otherwise the kernel takes minutes to detect a network that
/// broke silently.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long a ping may remain unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow-control windows of a stream and a connection: large enough for the largest message.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Adds headers to every request, such as the trace context of the current task.
pub type InjectHeaders = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// Credentials, trusted certificates and time limits of a client.
#[derive(Clone)]
pub struct ClientOptions {
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inject_headers: Option<InjectHeaders>,
}

impl Default for ClientOptions {
    /// No token, the certificates that the machine trusts, 2 s to connect and 5 s for a call.
    fn default() -> Self {
        Self {
            token: None,
            ca: None,
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(5),
            clock: Arc::new(BootClock),
            inject_headers: None,
        }
    }
}

impl ClientOptions {
    /// Authenticates with this bearer token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Trusts these certificates (PEM) instead of those that the machine trusts.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Limits one attempt to connect.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Limits a call including its reconnects. A waiting claim has its wait on top.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }

    /// Uses another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Calls `inject` with the headers of every request.
    pub fn inject_headers(mut self, inject: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.inject_headers = Some(Arc::new(inject));
        self
    }

    /// A channel that connects at its first use, and reconnects.
    pub(crate) fn channel(&self, address: &Address) -> Result<Channel> {
        Ok(self.endpoint(address)?.connect_lazy())
    }

    /// The same, with its connection running on `executor`.
    pub(crate) fn channel_on(&self, executor: ConnectionExecutor, address: &Address) -> Result<Channel> {
        Ok(self.endpoint(address)?.executor(executor).connect_lazy())
    }

    fn endpoint(&self, address: &Address) -> Result<Endpoint> {
        let invalid = |error: tonic::transport::Error| {
            let why = crate::error::describe_causes(&error);
            Error::invalid("address", format!("{address} cannot be used: {why}"))
        };
        let mut endpoint = Endpoint::from_shared(address.uri())
            .map_err(invalid)?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if address.tls {
            let tls = ClientTlsConfig::new().domain_name(address.host.trim_matches(['[', ']']));
            let tls = match &self.ca {
                Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
                None => tls.with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(invalid)?;
        }
        Ok(endpoint)
    }
}

/// Does not show the token.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}
