//! A Tenure server as a store, over gRPC.

use std::sync::Arc;

use tenure_client::ClientOptions;
use tenure_lease::{Error, Store};

use super::{Failure, Result};

/// URL schemes of a server, and the scheme of the client for each.
const SCHEMES: [(&str, &str); 4] = [
    ("tenure://", "tenure://"),
    ("tenures://", "tenures://"),
    ("http://", "tenure://"),
    ("https://", "tenures://"),
];

/// Whether a URL is that of a server rather than of an engine.
pub(crate) fn is_server(url: &str) -> bool {
    SCHEMES.iter().any(|(scheme, _)| url.starts_with(scheme))
}

/// The host and port of a URL.
pub(crate) fn host(url: &str) -> &str {
    let rest = SCHEMES.iter().find_map(|(scheme, _)| url.strip_prefix(scheme)).unwrap_or(url);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// The URL for the client.
fn client_url(url: &str) -> Result<String> {
    let scheme = SCHEMES.iter().find(|(scheme, _)| url.starts_with(scheme));
    let (_, scheme) = scheme.ok_or_else(|| {
        Failure::usage(format!("invalid server URL {url:?}; use a URL such as http://127.0.0.1:7400"))
    })?;
    Ok(format!("{scheme}{}", host(url)))
}

/// The URL for HTTP.
pub(crate) fn http(url: &str) -> Result<String> {
    Ok(client_url(url)?.replacen("tenure", "http", 1))
}

/// Connects to the server at `url`, trusting the certificates in `ca` instead of those of the system.
pub(crate) async fn connect(url: &str, token: Option<&str>, ca: Option<Vec<u8>>) -> Result<Arc<dyn Store>> {
    let mut remote = ClientOptions::default().inject_headers(tenure_service::telemetry::inject);
    if let Some(token) = token {
        remote = remote.token(token);
    }
    if let Some(pem) = ca {
        remote = remote.ca(pem);
    }
    let options = tenure_store::OpenOptions { remote };
    match tenure_store::Store::open_with(&client_url(url)?, options).await {
        Ok(store) => Ok(store.into()),
        // The message of the client says what is wrong with the token.
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
        assert!(!is_server("redis://h:1") && client_url("redis://h:1").is_err());
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
            assert_eq!((client_url(url).unwrap(), http(url).unwrap()), (grpc.to_owned(), web.to_owned()));
        }
    }
}
