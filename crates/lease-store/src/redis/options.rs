//! The options in a `redis://` address.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo};
use tenure_lease::{Error, Result, Ttl};

/// The shortest TTL this engine keeps.
pub(super) const MIN_TTL_MS: u64 = 500;

/// Most replicas that a write can wait for.
const REPLICAS: u64 = 16;

/// How an engine is reached and what it grants.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The server's address, without the parameters of this engine.
    pub(super) client: Client,
    /// The greatest TTL granted.
    pub(super) max_ttl: Ttl,
    /// How long nothing is granted after the server was replaced; zero adds nothing to what other clients ask for.
    pub(super) quarantine: Duration,
    /// How long one verb may take, all attempts included.
    pub(super) op_timeout: Duration,
    /// How many replicas must have a write of records before it is answered.
    pub(super) replicas: u64,
    /// Whether a server that may delete live leases is accepted.
    pub(super) allow_eviction: bool,
}

impl Options {
    /// Reads `redis://HOST:PORT/DB?max_ttl_ms=&quarantine_ms=&op_timeout_ms=&wait_replicas=&allow_eviction=`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut max_ttl, mut quarantine, mut op_timeout, mut replicas) = (30_000, None, 2_000, 0);
        let mut allow_eviction = false;
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "max_ttl_ms" => max_ttl = number(name, value)?,
                "quarantine_ms" => quarantine = Some(number(name, value)?),
                "op_timeout_ms" => op_timeout = number(name, value)?,
                "wait_replicas" => replicas = count(name, value)?,
                "allow_eviction" => allow_eviction = flag(name, value)?,
                _ => rest.push(pair),
            }
        }
        if max_ttl < MIN_TTL_MS {
            let why = format!("max_ttl_ms={max_ttl} is below {MIN_TTL_MS}, the shortest ttl of redis");
            return Err(Error::invalid("store", why));
        }
        if op_timeout == 0 {
            return Err(Error::invalid("store", "op_timeout_ms must not be 0"));
        }
        let address = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        // Without TCP_NODELAY a call would wait until the one before it is acknowledged.
        let client = address
            .into_connection_info()
            .map(|info| info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
            .and_then(Client::open)
            .map_err(|e| Error::invalid("store", format!("invalid Redis address: {e}")))?;
        Ok(Self {
            client,
            max_ttl: Ttl::from_millis(max_ttl)?,
            quarantine: Duration::from_millis(quarantine.unwrap_or(max_ttl)),
            op_timeout: Duration::from_millis(op_timeout),
            replicas,
            allow_eviction,
        })
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    value.parse().map_err(|_| Error::invalid("store", format!("{name}={value:?} is not true or false")))
}

fn number(name: &str, value: &str) -> Result<u64> {
    value
        .parse()
        .map_err(|_| Error::invalid("store", format!("{name}={value:?} is not a number of milliseconds")))
}

fn count(name: &str, value: &str) -> Result<u64> {
    let count = value.parse().ok().filter(|count| *count <= REPLICAS);
    count.ok_or_else(|| {
        Error::invalid("store", format!("{name}={value:?} is not a number of replicas from 0 to {REPLICAS}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_parameters_are_removed_from_the_address() {
        let options =
            Options::parse("redis://127.0.0.1:7/3?max_ttl_ms=60000&protocol=resp3&quarantine_ms=0").unwrap();
        assert_eq!(options.max_ttl.as_millis(), 60_000);
        assert!(options.quarantine.is_zero());
        let plain = Options::parse("redis://localhost").unwrap();
        assert_eq!(plain.quarantine, plain.max_ttl.as_duration());
    }

    #[test]
    fn a_call_does_not_wait_until_the_one_before_it_is_acknowledged() {
        let options = Options::parse("redis://127.0.0.1:7?max_ttl_ms=60000").unwrap();
        assert!(options.client.get_connection_info().tcp_settings().nodelay());
    }

    #[test]
    fn invalid_options_are_refused() {
        for bad in [
            "redis://h?max_ttl_ms=499",
            "redis://h?quarantine_ms=soon",
            "redis://h?op_timeout_ms=0",
            "redis://h?wait_replicas=all",
            "redis://h?wait_replicas=17",
            "redis://h?allow_eviction=yes",
            "redis://",
        ] {
            assert!(Options::parse(bad).is_err() || bad == "redis://", "{bad}");
        }
    }
}
