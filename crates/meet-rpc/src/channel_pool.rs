//! Resolves endpoints to channels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tenure_lease::Clock;
use tonic::service::Routes;
use tonic::transport::{self, Certificate, ClientTlsConfig, Endpoint};

use crate::channel::Transport;
use crate::{Channel, TokenError, TokenSource, limits};

/// The prefix of endpoints inside this process.
const IN_PROCESS: &str = "inproc:";

/// An invalid endpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid endpoint {endpoint:?}: {why}")]
pub struct BadEndpoint {
    /// The endpoint.
    pub endpoint: String,
    /// What is wrong with it.
    pub why: String,
}

/// Channels to all other roles. Clones share their connections, and so does [`ChannelPool::with_tokens`].
#[derive(Clone)]
pub struct ChannelPool {
    endpoints: Arc<Endpoints>,
    tokens: Arc<dyn TokenSource>,
    clock: Arc<dyn Clock>,
}

/// State shared by all pools of this process.
pub(crate) struct Endpoints {
    offered: RwLock<HashMap<String, Routes>>,
    dialled: Mutex<HashMap<String, NetworkChannel>>,
    uses: AtomicU64,
    ca: Option<Vec<u8>>,
}

struct NetworkChannel {
    channel: transport::Channel,
    used: u64,
}

impl ChannelPool {
    /// Creates a pool whose calls carry these tokens. `ca` (PEM) replaces the system's trust roots.
    pub fn new(tokens: Arc<dyn TokenSource>, clock: Arc<dyn Clock>, ca: Option<Vec<u8>>) -> Self {
        let endpoints =
            Endpoints { offered: RwLock::default(), dialled: Mutex::default(), uses: AtomicU64::new(0), ca };
        Self { endpoints: Arc::new(endpoints), tokens, clock }
    }

    /// Shares the connections but uses other tokens, for another role in this process.
    #[must_use]
    pub fn with_tokens(&self, tokens: Arc<dyn TokenSource>) -> Self {
        Self { tokens, ..self.clone() }
    }

    /// Serves `inproc:NAME` and returns that endpoint. Wrap the routes in a gatekeeper first: calls inside the process carry
    /// tokens too.
    pub fn offer(&self, name: &str, routes: Routes) -> String {
        self.endpoints.offered.write().insert(name.to_owned(), routes.prepare());
        format!("{IN_PROCESS}{name}")
    }

    /// Stops serving `inproc:NAME`.
    pub fn withdraw(&self, name: &str) {
        self.endpoints.offered.write().remove(name);
    }

    /// Returns a service token, for a connection that is not a channel.
    pub async fn bearer(&self) -> Result<String, TokenError> {
        self.tokens.bearer().await
    }

    /// Returns the channel to an endpoint: `inproc:NAME`, `http://HOST:PORT` or `https://HOST:PORT`. It connects on the first call.
    pub fn to(&self, endpoint: &str) -> Result<Channel, BadEndpoint> {
        let transport = match endpoint.strip_prefix(IN_PROCESS) {
            Some(name) => Transport::InProcess(self.endpoints.clone(), name.to_owned()),
            None => Transport::Network(self.endpoints.channel(endpoint)?),
        };
        Ok(Channel::new(transport, self.tokens.clone(), self.clock.clone()))
    }
}

impl Endpoints {
    pub(crate) fn offered(&self, name: &str) -> Option<Routes> {
        self.offered.read().get(name).cloned()
    }

    /// Returns the connection to an endpoint. All callers share it.
    fn channel(&self, endpoint: &str) -> Result<transport::Channel, BadEndpoint> {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut dialled = self.dialled.lock();
        if let Some(known) = dialled.get_mut(endpoint) {
            known.used = used;
            return Ok(known.channel.clone());
        }
        let channel = dial(endpoint, self.ca.as_deref())?;
        if dialled.len() >= limits::CHANNELS {
            let oldest = dialled.iter().min_by_key(|(_, channel)| channel.used).map(|(name, _)| name.clone());
            oldest.and_then(|name| dialled.remove(&name));
        }
        dialled.insert(endpoint.to_owned(), NetworkChannel { channel: channel.clone(), used });
        Ok(channel)
    }
}

fn dial(endpoint: &str, ca: Option<&[u8]>) -> Result<transport::Channel, BadEndpoint> {
    let bad = |why: String| BadEndpoint { endpoint: endpoint.to_owned(), why };
    if endpoint.len() > limits::ENDPOINT {
        return Err(BadEndpoint { endpoint: String::new(), why: "too long".to_owned() });
    }
    let url = url::Url::parse(endpoint).map_err(|error| bad(error.to_string()))?;
    let tls = match url.scheme() {
        "http" => false,
        "https" => true,
        _ => return Err(bad("expected inproc:NAME, http://HOST:PORT or https://HOST:PORT".to_owned())),
    };
    let host = url.host_str().ok_or_else(|| bad("missing host".to_owned()))?;
    let mut dial = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|error| bad(error.to_string()))?
        .connect_timeout(limits::CONNECT)
        .concurrency_limit(limits::CALLS)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(limits::CONNECT)
        .keep_alive_timeout(limits::CONNECT);
    if tls {
        tenure_service::install_crypto();
        let config = ClientTlsConfig::new().domain_name(host.trim_matches(['[', ']']));
        let config = match ca {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        dial = dial.tls_config(config).map_err(|error| bad(error.to_string()))?;
    }
    Ok(dial.connect_lazy())
}
