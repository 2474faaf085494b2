//! The running server as a store.

use std::sync::Arc;

use lease::{Error, Result, Store};

/// The schemes of a server's address: over gRPC they all mean the same.
const SCHEMES: [&str; 4] = ["tenure://", "tenures://", "http://", "https://"];

/// Whether an address is that of a server rather than of an engine.
pub(crate) fn is_server(url: &str) -> bool {
    SCHEMES.iter().any(|scheme| url.starts_with(scheme))
}

/// The host and port of an address.
pub(crate) fn host(url: &str) -> &str {
    let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)).unwrap_or(url);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// Connects to the server at `url`.
pub(crate) async fn connect(url: &str, _token: Option<&str>) -> Result<Arc<dyn Store>> {
    if !is_server(url) {
        let why = format!("{url:?} is not an address of a server, such as http://127.0.0.1:7400");
        return Err(Error::invalid("server", why));
    }
    Err(Error::unavailable("server", "this build has no client for it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_same_host_in_every_scheme() {
        for url in ["http://h:1", "http://h:1/", "tenure://h:1", "https://h:1/x?y#z"] {
            assert_eq!((host(url), is_server(url)), ("h:1", true), "{url}");
        }
        assert!(!is_server("redis://h:1"));
    }
}
