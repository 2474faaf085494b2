//! From an endpoint to whoever answers there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lease::Clock;
use parking_lot::{Mutex, RwLock};
use tonic::service::Routes;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::line::Way;
use crate::{Line, Tokens, limits};

/// What endpoints inside this process begin with.
const HERE: &str = "inproc:";

/// An endpoint that nobody can call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{endpoint:?} is no endpoint: {why}")]
pub struct BadEndpoint {
    /// The endpoint.
    pub endpoint: String,
    /// What is wrong with it.
    pub why: String,
}

/// Lines to all other parts. Cloning shares them, and so does [`Lines::speaking_as`].
#[derive(Clone)]
pub struct Lines {
    exchange: Arc<Exchange>,
    tokens: Arc<dyn Tokens>,
    clock: Arc<dyn Clock>,
}

/// What all who speak in this process share.
pub(crate) struct Exchange {
    offered: RwLock<HashMap<String, Routes>>,
    dialled: Mutex<HashMap<String, Dialled>>,
    uses: AtomicU64,
    ca: Option<Vec<u8>>,
}

struct Dialled {
    channel: Channel,
    used: u64,
}

impl Lines {
    /// Lines for whoever has these tokens. `ca` is the authority (PEM) that is trusted over TLS instead of the machine's.
    pub fn new(tokens: Arc<dyn Tokens>, clock: Arc<dyn Clock>, ca: Option<Vec<u8>>) -> Self {
        let exchange =
            Exchange { offered: RwLock::default(), dialled: Mutex::default(), uses: AtomicU64::new(0), ca };
        Self { exchange: Arc::new(exchange), tokens, clock }
    }

    /// The same lines for somebody else in this process.
    #[must_use]
    pub fn speaking_as(&self, tokens: Arc<dyn Tokens>) -> Self {
        Self { tokens, ..self.clone() }
    }

    /// Answers calls to `inproc:NAME`, and gives that endpoint. Put the gatekeeper around the routes first: calls inside the process carry
    /// tokens as well.
    pub fn offer(&self, name: &str, routes: Routes) -> String {
        self.exchange.offered.write().insert(name.to_owned(), routes.prepare());
        format!("{HERE}{name}")
    }

    /// Nobody answers to this name any more.
    pub fn withdraw(&self, name: &str) {
        self.exchange.offered.write().remove(name);
    }

    /// The line to an endpoint: `inproc:NAME`, `http://HOST:PORT` or `https://HOST:PORT`. Nothing is connected before the first call.
    pub fn to(&self, endpoint: &str) -> Result<Line, BadEndpoint> {
        let way = match endpoint.strip_prefix(HERE) {
            Some(name) => Way::Here(self.exchange.clone(), name.to_owned()),
            None => Way::Dialled(self.exchange.channel(endpoint)?),
        };
        Ok(Line::new(way, self.tokens.clone(), self.clock.clone()))
    }
}

impl Exchange {
    pub(crate) fn offered(&self, name: &str) -> Option<Routes> {
        self.offered.read().get(name).cloned()
    }

    /// The connection to an endpoint; one for all who call there.
    fn channel(&self, endpoint: &str) -> Result<Channel, BadEndpoint> {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut dialled = self.dialled.lock();
        if let Some(known) = dialled.get_mut(endpoint) {
            known.used = used;
            return Ok(known.channel.clone());
        }
        let channel = dial(endpoint, self.ca.as_deref())?;
        if dialled.len() >= limits::LINES {
            let oldest = dialled.iter().min_by_key(|(_, line)| line.used).map(|(name, _)| name.clone());
            oldest.and_then(|name| dialled.remove(&name));
        }
        dialled.insert(endpoint.to_owned(), Dialled { channel: channel.clone(), used });
        Ok(channel)
    }
}

fn dial(endpoint: &str, ca: Option<&[u8]>) -> Result<Channel, BadEndpoint> {
    let bad = |why: String| BadEndpoint { endpoint: endpoint.to_owned(), why };
    if endpoint.len() > limits::ENDPOINT {
        return Err(BadEndpoint { endpoint: String::new(), why: "it is too long".to_owned() });
    }
    let url = url::Url::parse(endpoint).map_err(|error| bad(error.to_string()))?;
    let tls = match url.scheme() {
        "http" => false,
        "https" => true,
        _ => return Err(bad("write inproc:NAME, http://HOST:PORT or https://HOST:PORT".to_owned())),
    };
    let host = url.host_str().ok_or_else(|| bad("it has no host".to_owned()))?;
    let mut dial = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|error| bad(error.to_string()))?
        .connect_timeout(limits::CONNECT)
        .concurrency_limit(limits::CALLS)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(limits::CONNECT)
        .keep_alive_timeout(limits::CONNECT);
    if tls {
        service::install_crypto();
        let config = ClientTlsConfig::new().domain_name(host.trim_matches(['[', ']']));
        let config = match ca {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        dial = dial.tls_config(config).map_err(|error| bad(error.to_string()))?;
    }
    Ok(dial.connect_lazy())
}
