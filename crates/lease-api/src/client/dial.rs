//! How to reach a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Error, Result};
use lease_store::BootClock;
use service::Convoy;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::address::Address;

/// How often a connection is asked whether it lives, also when nothing is under way. A connection whose
/// network broke silently is otherwise found dead only by the kernel, after minutes.
const PING: Duration = Duration::from_secs(5);
/// How long such a question waits for its answer.
const PONG: Duration = Duration::from_secs(5);
/// What a stream and a connection may have in flight: enough for the largest message at once.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// How to reach a server: credentials, trust and patience.
#[derive(Clone)]
pub struct Dial {
    pub(super) token: Option<String>,
    pub(super) ca: Option<Vec<u8>>,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

impl Default for Dial {
    /// No token, the machine's certificates, 2 s to connect and 5 s for a call.
    fn default() -> Self {
        Self {
            token: None,
            ca: None,
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(5),
            clock: Arc::new(BootClock),
        }
    }
}

impl Dial {
    /// With this bearer token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Trusting these certificates (PEM) instead of the machine's.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// With this long for one attempt to connect.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// With this long for a call, reconnects included; a claim that waits has its wait on top.
    pub fn call_timeout(mut self, time: Duration) -> Self {
        self.call_timeout = time;
        self
    }

    /// On another clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// A connection that is made when it is first used, and again when it broke.
    pub(super) fn channel(&self, address: &Address) -> Result<Channel> {
        Ok(self.endpoint(address)?.connect_lazy())
    }

    /// The same, with all that it does in the task of this convoy.
    pub(super) fn channel_in(&self, convoy: Convoy, address: &Address) -> Result<Channel> {
        Ok(self.endpoint(address)?.executor(convoy).connect_lazy())
    }

    fn endpoint(&self, address: &Address) -> Result<Endpoint> {
        let wrong = |error: tonic::transport::Error| {
            Error::invalid("address", format!("{address} cannot be used: {}", super::fault::chain(&error)))
        };
        let mut endpoint = Endpoint::from_shared(address.uri())
            .map_err(wrong)?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if address.tls {
            let tls = ClientTlsConfig::new().domain_name(address.host.trim_matches(['[', ']']));
            let tls = match &self.ca {
                Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
                None => tls.with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(wrong)?;
        }
        Ok(endpoint)
    }
}

/// Shows no token.
impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}
