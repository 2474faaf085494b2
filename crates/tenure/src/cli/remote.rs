//! The running server as a store, over gRPC.

use std::sync::Arc;

use lease::{Error, Store};
use lease_api::{Client, Dial};

use super::{Failure, Result};

/// What a server's address begins with, and what that means to the client.
const SCHEMES: [(&str, &str); 4] = [
    ("tenure://", "tenure://"),
    ("tenures://", "tenures://"),
    ("http://", "tenure://"),
    ("https://", "tenures://"),
];

/// Whether an address is that of a server rather than of an engine.
pub(crate) fn is_server(url: &str) -> bool {
    SCHEMES.iter().any(|(scheme, _)| url.starts_with(scheme))
}

/// The host and port of an address.
pub(crate) fn host(url: &str) -> &str {
    let rest = SCHEMES.iter().find_map(|(scheme, _)| url.strip_prefix(scheme)).unwrap_or(url);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// The address as the client writes it.
fn address(url: &str) -> Result<String> {
    let scheme = SCHEMES.iter().find(|(scheme, _)| url.starts_with(scheme));
    let (_, scheme) = scheme.ok_or_else(|| {
        Failure::usage(format!("{url:?} is not the address of a server, such as http://127.0.0.1:7400"))
    })?;
    Ok(format!("{scheme}{}", host(url)))
}

/// The address for HTTP.
pub(crate) fn http(url: &str) -> Result<String> {
    Ok(address(url)?.replacen("tenure", "http", 1))
}

/// Connects to the server at `url`, trusting the certificates in `ca` instead of the machine's.
pub(crate) async fn connect(url: &str, token: Option<&str>, ca: Option<Vec<u8>>) -> Result<Arc<dyn Store>> {
    let mut dial = Dial::default();
    if let Some(token) = token {
        dial = dial.token(token);
    }
    if let Some(pem) = ca {
        dial = dial.ca(pem);
    }
    match Client::dial(&address(url)?, dial).await {
        Ok(client) => Ok(Arc::new(client)),
        // The client's advice about the token it was given, or was not.
        Err(Error::Invalid { what: "token", why }) => Err(Failure::forbidden(why)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_same_host_in_every_scheme() {
        for url in ["http://h:1", "http://h:1/", "tenure://h:1", "https://h:1/x?y#z"] {
            assert_eq!((host(url), is_server(url)), ("h:1", true), "{url}");
        }
        assert!(!is_server("redis://h:1") && address("redis://h:1").is_err());
    }

    #[test]
    fn encryption_is_kept_between_schemes() {
        let table = [
            ("http://h:1/", "tenure://h:1", "http://h:1"),
            ("https://h:1", "tenures://h:1", "https://h:1"),
            ("tenure://h", "tenure://h", "http://h"),
            ("tenures://h:1", "tenures://h:1", "https://h:1"),
        ];
        for (url, grpc, web) in table {
            assert_eq!((address(url).unwrap(), http(url).unwrap()), (grpc.to_owned(), web.to_owned()));
        }
    }
}
