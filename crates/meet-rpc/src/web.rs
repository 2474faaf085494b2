//! HTTP requests to the authority: bounded in time and size, without redirects.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tenure_lease::Clock;
use url::{Host, Url};

use crate::limits;

/// An unusable URL of the authority.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAddress {
    /// Not an HTTP URL.
    #[error("{0:?} is not an http:// or https:// URL")]
    NotHttp(String),
    /// Secrets would be sent unencrypted.
    #[error("{0:?} would send secrets unencrypted; use https://, or http:// on loopback only")]
    Insecure(String),
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
}

/// One endpoint of the authority.
pub(crate) struct AuthorityEndpoint {
    client: reqwest::Client,
    url: Url,
    clock: Arc<dyn Clock>,
}

impl AuthorityEndpoint {
    /// Creates the endpoint for this URL. Plain HTTP is limited to loopback unless `insecure` is set.
    pub(crate) fn new(address: &str, insecure: bool, clock: Arc<dyn Clock>) -> Result<Self, BadAddress> {
        let url = Url::parse(address).map_err(|_| BadAddress::NotHttp(address.to_owned()))?;
        match url.scheme() {
            "https" => {}
            "http" if insecure || is_loopback(&url) => {}
            "http" => return Err(BadAddress::Insecure(address.to_owned())),
            _ => return Err(BadAddress::NotHttp(address.to_owned())),
        }
        tenure_service::install_crypto();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits::AUTHORITY)
            .no_proxy()
            .build()
            .map_err(|error| BadAddress::Client(error.to_string()))?;
        Ok(Self { client, url, clock })
    }

    pub(crate) async fn get(&self) -> Result<(StatusCode, Vec<u8>), String> {
        self.bounded(self.client.get(self.url.clone())).await
    }

    /// Posts a form.
    pub(crate) async fn post(&self, fields: &[(&str, &str)]) -> Result<(StatusCode, Vec<u8>), String> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(self.url.clone());
        let request = request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.bounded(request.body(body)).await
    }

    async fn bounded(&self, request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
        let deadline = self.clock.sleep_until(self.clock.now() + limits::AUTHORITY);
        tokio::select! {
            biased;
            answer = read_bounded(request) => answer,
            () = deadline => Err(format!("no response within {} s", Duration::as_secs(&limits::AUTHORITY))),
        }
    }
}

async fn read_bounded(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    // Errors omit the URL: it may carry a password.
    let text = |error: reqwest::Error| root_cause(&error.without_url());
    let mut response = request.send().await.map_err(text)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(text)? {
        if body.len() + chunk.len() > limits::RESPONSE {
            return Err(format!("response exceeds {} bytes", limits::RESPONSE));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::BootClock;

    use super::*;

    #[test]
    fn plain_http_is_limited_to_loopback_unless_allowed() {
        let endpoint =
            |address, insecure| AuthorityEndpoint::new(address, insecure, Arc::new(BootClock)).map(|_| ());
        for good in ["https://ac.example.com/oauth/token", "http://127.0.0.1:8083/x", "http://[::1]:1/"] {
            assert_eq!(endpoint(good, false), Ok(()), "{good}");
        }
        let far = "http://ac.example.com/oauth/token";
        assert_eq!(endpoint(far, false), Err(BadAddress::Insecure(far.to_owned())));
        assert_eq!(endpoint(far, true), Ok(()));
        for bad in ["", "ac:8083", "ftp://127.0.0.1/", "127.0.0.1"] {
            assert_eq!(endpoint(bad, true), Err(BadAddress::NotHttp(bad.to_owned())), "{bad}");
        }
    }
}
