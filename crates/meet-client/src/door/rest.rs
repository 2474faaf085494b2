//! The REST interface of meetings.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lease::{Clock, Tick};
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::dial::Place;
use crate::door::{Admission, Door, DoorError};

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(20);
/// A guest's token is renewed when it ends within this.
const EARLY: Duration = Duration::from_secs(60);
/// The longest answer that is read.
const ANSWER: usize = 256 * 1024;

/// Who asks.
enum Who {
    /// With a token of their own.
    Bearer(String),
    /// Without an account. The last token is shown to stay the same guest.
    Guest { name: String, pass: Mutex<Option<Pass>> },
}

#[derive(Clone)]
struct Pass {
    token: String,
    until: Tick,
}

/// A meeting's door over HTTP. Clones of its HTTP client may be shared by many.
pub struct Rest {
    http: reqwest::Client,
    base: String,
    code: String,
    who: Who,
    clock: Arc<dyn Clock>,
}

/// A meeting that was made.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Made {
    /// Its id.
    pub meeting_id: String,
    /// What people join it by.
    pub meeting_code: String,
    /// Its name.
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
}

#[derive(Deserialize)]
struct Guest {
    token: String,
    expires_in: u64,
}

#[derive(Deserialize)]
struct Problem {
    error: Words,
}

#[derive(Deserialize)]
struct Words {
    code: String,
    message: String,
}

impl Rest {
    /// The door of the meeting `code` at the server `base` (`http://HOST:PORT`), for somebody with a token.
    pub fn user(base: &str, code: &str, bearer: &str, clock: Arc<dyn Clock>) -> Result<Self, DoorError> {
        Self::new(base, code, Who::Bearer(bearer.to_owned()), clock)
    }

    /// The same for a guest of this name.
    pub fn guest(base: &str, code: &str, name: &str, clock: Arc<dyn Clock>) -> Result<Self, DoorError> {
        Self::new(base, code, Who::Guest { name: name.to_owned(), pass: Mutex::new(None) }, clock)
    }

    fn new(base: &str, code: &str, who: Who, clock: Arc<dyn Clock>) -> Result<Self, DoorError> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { http: http()?, base, code: code.to_owned(), who, clock })
    }

    fn url(&self, rest: &str) -> String {
        let code: String =
            self.code.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        format!("{}/api/v1/meetings/{code}{rest}", self.base)
    }

    /// The token to show; a guest's is fetched when there is none or it ends soon.
    async fn bearer(&self) -> Result<String, DoorError> {
        let (name, pass) = match &self.who {
            Who::Bearer(token) => return Ok(token.clone()),
            Who::Guest { name, pass } => (name, pass),
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
            call(&self.http, &*self.clock, Method::POST, &self.url("/guest-token"), shown, Some(&body))
                .await?;
        let until = asked + Duration::from_secs(guest.expires_in);
        *pass.lock() = Some(Pass { token: guest.token.clone(), until });
        Ok(guest.token)
    }
}

#[async_trait]
impl Door for Rest {
    async fn admit(&self) -> Result<Admission, DoorError> {
        let bearer = self.bearer().await?;
        let joined: Joined =
            call(&self.http, &*self.clock, Method::GET, &self.url(""), Some(&bearer), None).await?;
        let Assignment { mc_id, webtransport_endpoint: url, certificate_hashes } = joined.mc_assignment;
        let hashes = certificate_hashes.iter().map(|hash| STANDARD.decode(hash)).collect::<Result<_, _>>();
        let hashes =
            hashes.map_err(|_| DoorError::Unavailable("a certificate hash that is no base64".to_owned()))?;
        let place = Place { url, hashes };
        Ok(Admission { meeting_id: joined.meeting_id, token: joined.token, mc_id, place })
    }

    async fn unreachable(&self, admission: &Admission, why: &str) {
        let url = format!("{}/api/v1/meetings/{}/unreachable", self.base, admission.meeting_id);
        let why: String = why.chars().take(200).collect();
        let body = json!({ "mc_id": admission.mc_id, "reason": why });
        let told: Result<Value, DoorError> =
            call(&self.http, &*self.clock, Method::POST, &url, Some(&admission.token), Some(&body)).await;
        if let Err(error) = told {
            tracing::debug!(target: "meet_client", %error, "a report was not taken");
        }
    }
}

/// Makes a meeting, whose host is the one with this token.
pub async fn create(base: &str, bearer: &str, name: &str, clock: &dyn Clock) -> Result<Made, DoorError> {
    create_with(base, bearer, &json!({ "display_name": name }), clock).await
}

/// The same with settings besides its name, by their names in the REST interface.
pub async fn create_with(
    base: &str,
    bearer: &str,
    settings: &Value,
    clock: &dyn Clock,
) -> Result<Made, DoorError> {
    let url = format!("{}/api/v1/meetings", base.trim_end_matches('/'));
    call(&http()?, clock, Method::POST, &url, Some(bearer), Some(settings)).await
}

fn http() -> Result<reqwest::Client, DoorError> {
    // The only provider that is linked; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    built.map_err(|error| DoorError::Unavailable(error.to_string()))
}

async fn call<T: DeserializeOwned>(
    http: &reqwest::Client,
    clock: &dyn Clock,
    method: Method,
    url: &str,
    bearer: Option<&str>,
    body: Option<&Value>,
) -> Result<T, DoorError> {
    let late = clock.sleep_until(clock.now() + LIMIT);
    let mut request = http.request(method, url);
    if let Some(bearer) = bearer {
        request = request.bearer_auth(bearer);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let (status, body) = tokio::select! {
        answered = answer(request) => answered?,
        () = late => return Err(DoorError::Unavailable("no answer in time".to_owned())),
    };
    if status.is_success() {
        return serde_json::from_slice(&body)
            .map_err(|error| DoorError::Unavailable(format!("an answer that is not understood: {error}")));
    }
    Err(refusal(status, &body))
}

async fn answer(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), DoorError> {
    let away = |error: reqwest::Error| DoorError::Unavailable(error.to_string());
    let mut answer = request.send().await.map_err(away)?;
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(away)? {
        if body.len() + piece.len() > ANSWER {
            return Err(DoorError::Unavailable("an answer that is too long".to_owned()));
        }
        body.extend_from_slice(&piece);
    }
    Ok((answer.status(), body))
}

fn refusal(status: StatusCode, body: &[u8]) -> DoorError {
    let words = serde_json::from_slice::<Problem>(body).ok().map(|problem| problem.error);
    let (code, message) = match words {
        Some(Words { code, message }) => (code, message),
        None => (status.as_u16().to_string(), "the server said no more".to_owned()),
    };
    match status.as_u16() {
        404 | 410 => DoorError::NotFound(message),
        408 | 425 | 429 | 500..=599 => DoorError::Unavailable(format!("{code}: {message}")),
        _ => DoorError::Refused { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_unless_the_server_may_change_its_mind() {
        let body = br#"{"error":{"code":"FORBIDDEN","message":"no guests"}}"#;
        assert_eq!(
            refusal(StatusCode::FORBIDDEN, body),
            DoorError::Refused { code: "FORBIDDEN".to_owned(), message: "no guests".to_owned() }
        );
        assert!(matches!(refusal(StatusCode::NOT_FOUND, b"<html>"), DoorError::NotFound(_)));
        for status in
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY]
        {
            assert!(matches!(refusal(status, b""), DoorError::Unavailable(_)));
        }
    }
}
