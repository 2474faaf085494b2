//! Calls to the REST APIs of the running server.

use std::time::Duration;

use reqwest::{Client, Method};
use serde::Deserialize;
use serde_json::Value;
use tenure_lease::Clock;
use tenure_store::BootClock;

use super::target::{Server, StoreLocation};
use super::{Failure, Result, exit, remote};

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A REST API of a server.
pub(super) struct Api {
    client: Client,
    base: String,
    token: Option<String>,
    display_url: String,
}

/// An error response of the server.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

impl Api {
    /// The API under this path.
    pub(super) fn open(server: &Server, path: &str) -> Result<Self> {
        let location = server.locate()?;
        let StoreLocation::Server { url, token, .. } = &location else {
            return Err(Failure::internal("only a server has this API"));
        };
        tenure_service::install_crypto();
        let mut builder = Client::builder();
        if let Some(pem) = location.read_ca()? {
            let trusted = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| Failure::usage(error.to_string()))?;
            builder = builder.tls_certs_only(trusted);
        }
        let client = builder.build().map_err(|error| Failure::internal(error.to_string()))?;
        let base = format!("{}{path}", remote::http(url)?);
        Ok(Self { client, base, token: token.clone(), display_url: location.display_url() })
    }

    /// Calls the API and returns the body of the response; null if it is empty.
    pub(super) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let response = tokio::select! {
            response = self.send(method, path, body) => response,
            () = BootClock.sleep_until(BootClock.now() + TIMEOUT) => Err(Failure::unavailable("timed out")),
        };
        response.map_err(|failure| failure.during(&self.display_url))
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| {
            Failure::unavailable(error.to_string())
                .hint("check that the server is running; `tenure up` starts one on this machine")
        })?;
        let status = response.status();
        if status.is_success() {
            let bytes = response.bytes().await.map_err(|error| Failure::unavailable(error.to_string()))?;
            return match bytes.is_empty() {
                true => Ok(Value::Null),
                false => {
                    serde_json::from_slice(&bytes).map_err(|error| Failure::unavailable(error.to_string()))
                }
            };
        }
        let problem = response.json::<Problem>().await.ok();
        let detail =
            problem.as_ref().map_or_else(|| format!("unexpected response {status}"), |p| p.detail.clone());
        Err(match (status.as_u16(), problem.map(|p| p.code).as_deref()) {
            (401 | 403, _) => Failure::forbidden(detail),
            (404, Some("NOT_FOUND")) => Failure::new(exit::FAILED, "NOT_FOUND", detail),
            (409, _) => Failure::new(exit::NOT_NOW, "CONFLICT", detail),
            (400..=499, _) => Failure::usage(detail),
            _ => Failure::unavailable(detail),
        })
    }
}

/// Percent-encodes a path segment.
pub(super) fn segment(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect()
}

/// A value of a response as text; empty for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
