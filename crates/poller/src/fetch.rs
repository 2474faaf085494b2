//! Sends polls over HTTP: limited in time, size and redirects, with conditional requests.

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::{Certificate, Client, Response, Url};
use tenure_lease::Clock;
use tokio::sync::Semaphore;

use crate::address_filter::{DeniedAddress, FilteredResolver};
use crate::{AddressFilter, Settings, Target};

/// An HTTP client for HTTP/1.1 and HTTP/2, with and without TLS. All targets share its connections.
pub(crate) struct Fetcher {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    max_body: usize,
    max_redirects: usize,
    addresses: AddressFilter,
    /// Limits the requests in flight.
    pub(crate) slots: Semaphore,
}

/// Validators of the last response, for conditional requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Validators {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct FetchedResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
    pub(crate) validators: Validators,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no response within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("response body larger than {0} bytes")]
    TooLarge(usize),
    #[error("more than {0} redirects")]
    Redirects(usize),
    #[error("redirect without a valid location")]
    InvalidRedirect,
    #[error("redirect from https to http")]
    Downgrade,
    /// The lease did not allow the next request.
    #[error("lease no longer permits requests")]
    NotPermitted,
    #[error(transparent)]
    Denied(#[from] DeniedAddress),
    #[error("{0}")]
    Failed(String),
}

impl FetchError {
    /// The label for metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::TooLarge(_) => "too_large",
            Self::Redirects(_) | Self::InvalidRedirect | Self::Downgrade => "redirect",
            Self::NotPermitted => "not_permitted",
            Self::Denied(_) => "denied",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<reqwest::Error> for FetchError {
    /// The innermost cause, without the URL, which may contain a password.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        if let Some(denied) = cause.downcast_ref::<DeniedAddress>() {
            return Self::Denied(denied.clone());
        }
        Self::Failed(cause.to_string())
    }
}

impl Fetcher {
    pub(crate) fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, FetchError> {
        tenure_service::install_crypto();
        let mut builder = Client::builder();
        if let Some(path) = &settings.ca {
            let pem = std::fs::read(path).map_err(|error| {
                FetchError::Failed(format!("poll.ca: cannot read {}: {error}", path.display()))
            })?;
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(&pem)?);
        }
        let client = builder
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(settings.timeout)
            .gzip(true)
            .no_proxy()
            .dns_resolver(Arc::new(FilteredResolver(settings.addresses.clone())))
            .build()?;
        Ok(Self {
            client,
            clock,
            timeout: settings.timeout,
            max_body: settings.max_body,
            max_redirects: settings.max_redirects,
            addresses: settings.addresses.clone(),
            slots: Semaphore::new(settings.max_in_flight),
        })
    }

    /// The client, for calls that are no polls.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Polls a target. `permitted` is checked before every request, including redirects.
    pub(crate) async fn poll(
        &self,
        target: &Target,
        user_agent: &HeaderValue,
        last: &Validators,
        permitted: impl Fn() -> bool,
    ) -> Result<FetchedResponse, FetchError> {
        let limit = target.timeout.unwrap_or(self.timeout);
        let work = async {
            let response = self.send(Method::GET, target, user_agent, Some(last), permitted).await?;
            self.read_body(response).await
        };
        self.with_timeout(limit, work).await
    }

    /// Checks with a HEAD request whether a target that was down responds again. No body is read.
    pub(crate) async fn probe(
        &self,
        target: &Target,
        user_agent: &HeaderValue,
        permitted: impl Fn() -> bool,
    ) -> Result<StatusCode, FetchError> {
        let limit = target.timeout.unwrap_or(self.timeout).min(Duration::from_secs(2));
        let work = async { Ok(self.send(Method::HEAD, target, user_agent, None, permitted).await?.status()) };
        self.with_timeout(limit, work).await
    }

    async fn with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let clock = &self.clock;
        tokio::select! {
            biased;
            done = work => done,
            () = clock.sleep_until(clock.now() + limit) => Err(FetchError::Timeout(limit)),
        }
    }

    async fn send(
        &self,
        method: Method,
        target: &Target,
        user_agent: &HeaderValue,
        last: Option<&Validators>,
        permitted: impl Fn() -> bool,
    ) -> Result<Response, FetchError> {
        let mut url = target.address.clone();
        let mut headers = target.headers.clone();
        headers.insert(header::USER_AGENT, user_agent.clone());
        if let Some(last) = last {
            last.add_conditions(&mut headers);
        }
        for _ in 0..=self.max_redirects {
            if !permitted() {
                return Err(FetchError::NotPermitted);
            }
            self.addresses.check_url(&url)?;
            let request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            let response = request.send().await?;
            let Some(next) = redirect_location(&response)? else { return Ok(response) };
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(FetchError::Downgrade);
            }
            if next.origin() != url.origin() {
                // Another origin must not receive the target's secrets.
                headers = HeaderMap::new();
                headers.insert(header::USER_AGENT, user_agent.clone());
            }
            url = next;
        }
        Err(FetchError::Redirects(self.max_redirects))
    }

    /// Reads the decompressed body, up to the limit.
    async fn read_body(&self, mut response: Response) -> Result<FetchedResponse, FetchError> {
        let (status, validators) = (response.status(), Validators::from_headers(response.headers()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > self.max_body {
                return Err(FetchError::TooLarge(self.max_body));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(FetchedResponse { status, body, validators })
    }
}

impl Validators {
    fn from_headers(headers: &HeaderMap) -> Self {
        Self {
            etag: headers.get(header::ETAG).cloned(),
            modified: headers.get(header::LAST_MODIFIED).cloned(),
        }
    }

    fn add_conditions(&self, headers: &mut HeaderMap) {
        if let Some(etag) = &self.etag {
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        if let Some(modified) = &self.modified {
            headers.insert(header::IF_MODIFIED_SINCE, modified.clone());
        }
    }
}

/// The location of a redirect, if the response is one.
fn redirect_location(response: &Response) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| response.url().join(location).ok());
    match next.filter(|url| matches!(url.scheme(), "http" | "https")) {
        Some(url) => Ok(Some(url)),
        None => Err(FetchError::InvalidRedirect),
    }
}

#[cfg(test)]
mod tests;
