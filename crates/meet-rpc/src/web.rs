//! Asking the authority over HTTP: bounded in time and size, without redirects.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use lease::Clock;
use url::{Host, Url};

use crate::limits;

/// An address of the authority that is not used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadAddress {
    /// It is no URL of HTTP.
    #[error("{0:?} is no http:// or https:// address")]
    NotHttp(String),
    /// Secrets would travel in the clear.
    #[error("{0:?} would send secrets in the clear; use https://, or http:// on this machine only")]
    Insecure(String),
    /// There is no HTTP client.
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// One page of the authority.
pub(crate) struct Page {
    client: reqwest::Client,
    url: Url,
    clock: Arc<dyn Clock>,
}

impl Page {
    /// The page at this address. Plain HTTP is taken on this machine only, unless it is allowed.
    pub(crate) fn new(address: &str, insecure: bool, clock: Arc<dyn Clock>) -> Result<Self, BadAddress> {
        let url = Url::parse(address).map_err(|_| BadAddress::NotHttp(address.to_owned()))?;
        match url.scheme() {
            "https" => {}
            "http" if insecure || on_this_machine(&url) => {}
            "http" => return Err(BadAddress::Insecure(address.to_owned())),
            _ => return Err(BadAddress::NotHttp(address.to_owned())),
        }
        service::install_crypto();
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

    /// Sends a form.
    pub(crate) async fn post(&self, fields: &[(&str, &str)]) -> Result<(StatusCode, Vec<u8>), String> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(self.url.clone());
        let request = request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.bounded(request.body(body)).await
    }

    async fn bounded(&self, request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
        let late = self.clock.sleep_until(self.clock.now() + limits::AUTHORITY);
        tokio::select! {
            biased;
            answer = whole(request) => answer,
            () = late => Err(format!("no answer within {} s", Duration::as_secs(&limits::AUTHORITY))),
        }
    }
}

async fn whole(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    // The address is left out of errors: it may carry a password.
    let text = |error: reqwest::Error| innermost(&error.without_url());
    let mut response = request.send().await.map_err(text)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(text)? {
        if body.len() + chunk.len() > limits::ANSWER {
            return Err(format!("the answer is longer than {} bytes", limits::ANSWER));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use lease_store::BootClock;

    use super::*;

    #[test]
    fn secrets_do_not_leave_the_machine_in_the_clear_unless_that_is_allowed() {
        let page = |address, insecure| Page::new(address, insecure, Arc::new(BootClock)).map(|_| ());
        for good in ["https://ac.example.com/oauth/token", "http://127.0.0.1:8083/x", "http://[::1]:1/"] {
            assert_eq!(page(good, false), Ok(()), "{good}");
        }
        let far = "http://ac.example.com/oauth/token";
        assert_eq!(page(far, false), Err(BadAddress::Insecure(far.to_owned())));
        assert_eq!(page(far, true), Ok(()));
        for bad in ["", "ac:8083", "ftp://127.0.0.1/", "127.0.0.1"] {
            assert_eq!(page(bad, true), Err(BadAddress::NotHttp(bad.to_owned())), "{bad}");
        }
    }
}
