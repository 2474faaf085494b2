//! One poll over HTTP: bounded in time, size and redirects, and asked for again only if it changed.

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lease::Clock;
use reqwest::{Certificate, Client, Response, Url};
use tokio::sync::Semaphore;

use crate::{Settings, Target};

/// Asks over HTTP/1.1 and HTTP/2, with and without TLS, over connections that all targets share.
pub(crate) struct Fetcher {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    max_body: usize,
    max_redirects: usize,
    /// Requests that may be under way.
    pub(crate) slots: Semaphore,
}

/// What the server said the last time, to ask whether it still holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Validators {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
    pub(crate) validators: Validators,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("more than {0} redirects")]
    Redirects(usize),
    #[error("a redirect that leads nowhere")]
    Nowhere,
    #[error("a redirect from https to http")]
    Downgrade,
    /// The lease did not allow the next request.
    #[error("not permitted any more")]
    NotPermitted,
    #[error("{0}")]
    Failed(String),
}

impl FetchError {
    /// The word for metrics.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::TooLarge(_) => "too_large",
            Self::Redirects(_) | Self::Nowhere | Self::Downgrade => "redirect",
            Self::NotPermitted => "not_permitted",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<reqwest::Error> for FetchError {
    /// The innermost cause, without the address: that may carry a password.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        Self::Failed(cause.to_string())
    }
}

impl Fetcher {
    pub(crate) fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, FetchError> {
        service::install_crypto();
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
            .build()?;
        Ok(Self {
            client,
            clock,
            timeout: settings.timeout,
            max_body: settings.max_body,
            max_redirects: settings.max_redirects,
            slots: Semaphore::new(settings.max_in_flight),
        })
    }

    /// The client, for calls that are no polls.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// A whole poll. `agent` says who asks; `permitted` is asked before every request that leaves.
    pub(crate) async fn poll(
        &self,
        target: &Target,
        agent: &HeaderValue,
        last: &Validators,
        permitted: impl Fn() -> bool,
    ) -> Result<Reply, FetchError> {
        let limit = target.timeout.unwrap_or(self.timeout);
        let work = async {
            let response = self.follow(Method::GET, target, agent, Some(last), permitted).await?;
            self.read(response).await
        };
        self.within(limit, work).await
    }

    /// A light question whether a target that was down answers again: no body is read.
    pub(crate) async fn probe(
        &self,
        target: &Target,
        agent: &HeaderValue,
        permitted: impl Fn() -> bool,
    ) -> Result<StatusCode, FetchError> {
        let limit = target.timeout.unwrap_or(self.timeout).min(Duration::from_secs(2));
        let work = async { Ok(self.follow(Method::HEAD, target, agent, None, permitted).await?.status()) };
        self.within(limit, work).await
    }

    async fn within<T>(
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

    async fn follow(
        &self,
        method: Method,
        target: &Target,
        agent: &HeaderValue,
        last: Option<&Validators>,
        permitted: impl Fn() -> bool,
    ) -> Result<Response, FetchError> {
        let mut url = target.address.clone();
        let mut headers = target.headers.clone();
        headers.insert(header::USER_AGENT, agent.clone());
        if let Some(last) = last {
            last.ask(&mut headers);
        }
        for _ in 0..=self.max_redirects {
            if !permitted() {
                return Err(FetchError::NotPermitted);
            }
            let request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
            let response = request.send().await?;
            let Some(next) = redirect(&response)? else { return Ok(response) };
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(FetchError::Downgrade);
            }
            if next.origin() != url.origin() {
                // What was meant for one server is shown to no other.
                headers = HeaderMap::new();
                headers.insert(header::USER_AGENT, agent.clone());
            }
            url = next;
        }
        Err(FetchError::Redirects(self.max_redirects))
    }

    /// Reads the body, after its decompression, up to the limit.
    async fn read(&self, mut response: Response) -> Result<Reply, FetchError> {
        let (status, validators) = (response.status(), Validators::of(response.headers()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > self.max_body {
                return Err(FetchError::TooLarge(self.max_body));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, body, validators })
    }
}

impl Validators {
    fn of(headers: &HeaderMap) -> Self {
        Self {
            etag: headers.get(header::ETAG).cloned(),
            modified: headers.get(header::LAST_MODIFIED).cloned(),
        }
    }

    fn ask(&self, headers: &mut HeaderMap) {
        if let Some(etag) = &self.etag {
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        if let Some(modified) = &self.modified {
            headers.insert(header::IF_MODIFIED_SINCE, modified.clone());
        }
    }
}

/// Where a response leads, if it leads elsewhere.
fn redirect(response: &Response) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
    let next = location.and_then(|place| response.url().join(place).ok());
    match next.filter(|url| matches!(url.scheme(), "http" | "https")) {
        Some(url) => Ok(Some(url)),
        None => Err(FetchError::Nowhere),
    }
}

#[cfg(test)]
mod tests;
