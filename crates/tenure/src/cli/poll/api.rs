//! Requests to the running server.

use std::time::Duration;

use lease::Clock;
use lease_store::BootClock;
use reqwest::{Client, Method};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::target::{Place, Server};
use crate::cli::{Failure, Result, exit, remote};

/// How long the server may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The interface of polling at one server.
pub(super) struct Api {
    client: Client,
    base: String,
    token: Option<String>,
    shown: String,
}

/// What the server says when it refuses.
#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

impl Api {
    pub(super) fn open(server: &Server) -> Result<Self> {
        let place = server.place()?;
        let Place::Server { url, token, .. } = &place else {
            return Err(Failure::internal("targets are asked of a server"));
        };
        service::install_crypto();
        let mut builder = Client::builder();
        if let Some(pem) = place.trust()? {
            let trusted = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| Failure::usage(error.to_string()))?;
            builder = builder.tls_certs_only(trusted);
        }
        let client = builder.build().map_err(|error| Failure::internal(error.to_string()))?;
        let base = format!("{}/poll/v1", remote::http(url)?);
        Ok(Self { client, base, token: token.clone(), shown: place.shown() })
    }

    /// Asks, and answers with what the server said: null for nothing.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let asked = tokio::select! {
            asked = self.send(method, path, body) => asked,
            () = BootClock.sleep_until(BootClock.now() + LIMIT) => Err(Failure::unavailable("no answer")),
        };
        asked.map_err(|failure| failure.during(&format!("{} says", self.shown)))
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| {
            Failure::unavailable(error.to_string())
                .hint("is it running? `tenure up` starts one on this machine")
        })?;
        let status = answer.status();
        if status.is_success() {
            let bytes = answer.bytes().await.map_err(|error| Failure::unavailable(error.to_string()))?;
            return match bytes.is_empty() {
                true => Ok(Value::Null),
                false => {
                    serde_json::from_slice(&bytes).map_err(|error| Failure::unavailable(error.to_string()))
                }
            };
        }
        let problem = answer.json::<Problem>().await.ok();
        let detail = problem.as_ref().map_or_else(|| format!("it answered {status}"), |p| p.detail.clone());
        Err(match (status.as_u16(), problem.map(|p| p.code).as_deref()) {
            (401 | 403, _) => Failure::forbidden(detail),
            (404, Some("NOT_FOUND")) => Failure::new(exit::FAILED, "NOT_FOUND", detail),
            (409, _) => Failure::new(exit::NOT_NOW, "CONFLICT", detail),
            (400..=499, _) => Failure::usage(detail),
            _ => Failure::unavailable(detail),
        })
    }
}

/// A text in a path.
pub(super) fn segment(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect()
}
