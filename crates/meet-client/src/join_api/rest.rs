//! The join API over REST.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenure_lease::{Clock, Tick};

use crate::dial::Endpoint;
use crate::join_api::{Admission, Home, JoinApi, JoinApiError, UnreachableReport};

/// Timeout of a call.
const LIMIT: Duration = Duration::from_secs(20);
/// A guest token is renewed when less than this is left.
const EARLY: Duration = Duration::from_secs(60);
/// Maximum length of a response.
const ANSWER: usize = 256 * 1024;

/// The caller.
enum Identity {
    /// A user with a token.
    Bearer(String),
    /// A guest without an account. The last token preserves its id.
    Guest { name: String, pass: Mutex<Option<Pass>> },
}

#[derive(Clone)]
struct Pass {
    token: String,
    until: Tick,
}

/// A request to the REST API. It has a token and no `Debug`.
#[derive(Clone, PartialEq)]
pub struct RestRequest {
    /// The method.
    pub method: Method,
    /// The whole URL.
    pub url: String,
    /// The bearer token.
    pub bearer: Option<String>,
    /// The JSON body.
    pub body: Option<Value>,
}

/// Sends requests to the REST API and returns status and body: over HTTP, or inside a simulation.
#[async_trait]
pub trait RestTransport: Send + Sync + 'static {
    /// Sends one request. Callers bound its time.
    async fn send(&self, request: RestRequest) -> Result<(StatusCode, Vec<u8>), JoinApiError>;
}

/// The join API over HTTP. Many can share one HTTP client.
pub struct RestJoinApi {
    http: Arc<dyn RestTransport>,
    base: String,
    code: String,
    identity: Identity,
    clock: Arc<dyn Clock>,
}

/// A created meeting.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct CreatedMeeting {
    /// Its id.
    pub meeting_id: String,
    /// The code to join it.
    pub meeting_code: String,
    /// The display name.
    pub display_name: String,
}

#[derive(Deserialize)]
struct Joined {
    token: String,
    meeting_id: String,
    mc_assignment: Assignment,
}

#[derive(Deserialize)]
struct Assignment {
    mc_id: String,
    webtransport_endpoint: String,
    #[serde(default)]
    certificate_hashes: Vec<String>,
    generation: Option<String>,
}

#[derive(Deserialize)]
struct Decision {
    mc_assignment: Option<Assignment>,
}

impl Assignment {
    fn home(self) -> Result<Home, JoinApiError> {
        let hashes =
            self.certificate_hashes.iter().map(|hash| STANDARD.decode(hash)).collect::<Result<_, _>>();
        let hashes =
            hashes.map_err(|_| JoinApiError::Unavailable("certificate hash is not base64".to_owned()))?;
        let place = Endpoint { url: self.webtransport_endpoint, hashes };
        let generation = self.generation.and_then(|text| text.parse().ok()).unwrap_or_default();
        Ok(Home { mc_id: self.mc_id, place, generation })
    }
}

#[derive(Deserialize)]
struct Guest {
    token: String,
    expires_in: u64,
}

#[derive(Deserialize)]
struct Problem {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    code: String,
    message: String,
}

impl RestJoinApi {
    /// A join API for the meeting `code` at the server `base` (`http://HOST:PORT`), for a user with a token.
    pub fn user(base: &str, code: &str, bearer: &str, clock: Arc<dyn Clock>) -> Result<Self, JoinApiError> {
        Self::new(base, code, Identity::Bearer(bearer.to_owned()), clock)
    }

    /// The same over another transport than HTTP.
    pub fn user_over(http: Arc<dyn RestTransport>, code: &str, bearer: &str, clock: Arc<dyn Clock>) -> Self {
        let (base, code) = (String::new(), code.to_owned());
        Self { http, base, code, identity: Identity::Bearer(bearer.to_owned()), clock }
    }

    /// The same for a guest with this name.
    pub fn guest(base: &str, code: &str, name: &str, clock: Arc<dyn Clock>) -> Result<Self, JoinApiError> {
        Self::new(base, code, Identity::Guest { name: name.to_owned(), pass: Mutex::new(None) }, clock)
    }

    fn new(base: &str, code: &str, identity: Identity, clock: Arc<dyn Clock>) -> Result<Self, JoinApiError> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { http: Arc::new(http()?), base, code: code.to_owned(), identity, clock })
    }

    fn url(&self, rest: &str) -> String {
        let code: String =
            self.code.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        format!("{}/api/v1/meetings/{code}{rest}", self.base)
    }

    /// The token to send. A guest token is fetched when there is none or it expires soon.
    async fn bearer(&self) -> Result<String, JoinApiError> {
        let (name, pass) = match &self.identity {
            Identity::Bearer(token) => return Ok(token.clone()),
            Identity::Guest { name, pass } => (name, pass),
        };
        let kept = pass.lock().clone();
        if let Some(kept) = &kept
            && self.clock.now() + EARLY < kept.until
        {
            return Ok(kept.token.clone());
        }
        let asked = self.clock.now();
        let shown = kept.as_ref().map(|kept| kept.token.as_str());
        let body = json!({ "display_name": name });
        let guest: Guest =
            call(&*self.http, &*self.clock, Method::POST, &self.url("/guest-token"), shown, Some(&body))
                .await?;
        let until = asked + Duration::from_secs(guest.expires_in);
        *pass.lock() = Some(Pass { token: guest.token.clone(), until });
        Ok(guest.token)
    }
}

#[async_trait]
impl JoinApi for RestJoinApi {
    async fn admit(&self) -> Result<Admission, JoinApiError> {
        let bearer = self.bearer().await?;
        let joined: Joined =
            call(&*self.http, &*self.clock, Method::GET, &self.url(""), Some(&bearer), None).await?;
        let Home { mc_id, place, generation } = joined.mc_assignment.home()?;
        Ok(Admission { meeting_id: joined.meeting_id, token: joined.token, mc_id, place, generation })
    }

    async fn unreachable(
        &self,
        admission: &Admission,
        report: UnreachableReport,
    ) -> Result<Option<Home>, JoinApiError> {
        let url = format!("{}/api/v1/meetings/{}/unreachable", self.base, admission.meeting_id);
        let body = json!({
            "mc_id": admission.mc_id, "reason": report.reason.as_str(), "suspect": report.suspect,
        });
        let decision: Decision =
            call(&*self.http, &*self.clock, Method::POST, &url, Some(&admission.token), Some(&body)).await?;
        decision.mc_assignment.map(Assignment::home).transpose()
    }
}

/// Creates a meeting. Its host is the owner of the token.
pub async fn create(
    base: &str,
    bearer: &str,
    name: &str,
    clock: &dyn Clock,
) -> Result<CreatedMeeting, JoinApiError> {
    create_with(base, bearer, &json!({ "display_name": name }), clock).await
}

/// Creates a meeting with further settings, by their names in the REST API.
pub async fn create_with(
    base: &str,
    bearer: &str,
    settings: &Value,
    clock: &dyn Clock,
) -> Result<CreatedMeeting, JoinApiError> {
    let url = format!("{}/api/v1/meetings", base.trim_end_matches('/'));
    call(&http()?, clock, Method::POST, &url, Some(bearer), Some(settings)).await
}

fn http() -> Result<reqwest::Client, JoinApiError> {
    // The only linked provider. An error means that it is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    built.map_err(|error| JoinApiError::Unavailable(error.to_string()))
}

async fn call<T: DeserializeOwned>(
    http: &dyn RestTransport,
    clock: &dyn Clock,
    method: Method,
    url: &str,
    bearer: Option<&str>,
    body: Option<&Value>,
) -> Result<T, JoinApiError> {
    let late = clock.sleep_until(clock.now() + LIMIT);
    let (url, bearer, body) = (url.to_owned(), bearer.map(str::to_owned), body.cloned());
    let request = RestRequest { method, url, bearer, body };
    let (status, body) = tokio::select! {
        biased;
        answered = http.send(request) => answered?,
        () = late => return Err(JoinApiError::Unavailable("request timed out".to_owned())),
    };
    if status.is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| JoinApiError::Unavailable(format!("malformed response: {error}")));
    }
    Err(refusal(status, &body))
}

#[async_trait]
impl RestTransport for reqwest::Client {
    async fn send(&self, request: RestRequest) -> Result<(StatusCode, Vec<u8>), JoinApiError> {
        let RestRequest { method, url, bearer, body } = request;
        let mut request = self.request(method, url);
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), JoinApiError> {
    let away = |error: reqwest::Error| JoinApiError::Unavailable(error.to_string());
    let mut answer = request.send().await.map_err(away)?;
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(away)? {
        if body.len() + piece.len() > ANSWER {
            return Err(JoinApiError::Unavailable("response too long".to_owned()));
        }
        body.extend_from_slice(&piece);
    }
    Ok((answer.status(), body))
}

fn refusal(status: StatusCode, body: &[u8]) -> JoinApiError {
    let words = serde_json::from_slice::<Problem>(body).ok().map(|problem| problem.error);
    let (code, message) = match words {
        Some(ErrorDetail { code, message }) => (code, message),
        None => (status.as_u16().to_string(), "no details".to_owned()),
    };
    match status.as_u16() {
        404 | 410 => JoinApiError::NotFound(message),
        408 | 425 | 429 | 500..=599 => JoinApiError::Unavailable(format!("{code}: {message}")),
        _ => JoinApiError::Refused { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_final_unless_it_may_be_temporary() {
        let body = br#"{"error":{"code":"FORBIDDEN","message":"no guests"}}"#;
        assert_eq!(
            refusal(StatusCode::FORBIDDEN, body),
            JoinApiError::Refused { code: "FORBIDDEN".to_owned(), message: "no guests".to_owned() }
        );
        assert!(matches!(refusal(StatusCode::NOT_FOUND, b"<html>"), JoinApiError::NotFound(_)));
        for status in
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY]
        {
            assert!(matches!(refusal(status, b""), JoinApiError::Unavailable(_)));
        }
    }
}
