//! `/login`, `/login/codes`, `/logout` and `/whoami`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};
use http::request::Parts;
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};

use super::secret::{self, Digest};
use super::{Auth, LOGIN_CODE_LIFE, SESSION_LIFE, Session, rate_limited, record_failure};
use crate::caller::{Caller, Via};
use crate::code::Code;
use crate::extract::Json;
use crate::net::ClientAddress;
use crate::problem::Problem;
use crate::scope::Scopes;

/// The largest body of a login; the rest of the process accepts larger ones.
const MAX_LOGIN_BYTES: usize = 4_096;

/// Login and logout for browsers. Mount it inside [`auth_layer`](super::auth_layer).
pub fn login_routes(auth: Arc<Auth>) -> Router {
    Router::new()
        .route("/login", post(login).layer(DefaultBodyLimit::max(MAX_LOGIN_BYTES)))
        .route("/login/codes", post(new_code))
        .route("/logout", post(logout))
        .route("/whoami", get(whoami))
        .with_state(auth)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    code: Option<String>,
    token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewCode {
    code: String,
    url: String,
    expires_in_ms: u64,
}

#[derive(Debug, Serialize)]
struct Whoami {
    name: String,
    scopes: Vec<String>,
    via: &'static str,
}

/// A client that may try to log in, checked before its body is read.
struct LoginAttempt(ClientAddress);

impl FromRequestParts<Arc<Auth>> for LoginAttempt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, Problem> {
        auth.origins.check_login(&parts.headers)?;
        let client = ClientAddress::of(&parts.extensions);
        match auth.failures.lock().wait(&client.rate_limit_key(), auth.clock.now()) {
            Some(wait) => Err(rate_limited("too many failed logins from this address".into(), wait)),
            None => Ok(Self(client)),
        }
    }
}

/// Exchanges a code or a token for a session cookie.
async fn login(
    State(auth): State<Arc<Auth>>,
    LoginAttempt(client): LoginAttempt,
    Json(login): Json<Login>,
) -> Result<impl IntoResponse, Problem> {
    let now = auth.clock.now();
    let (name, scopes) = auth.identify(&login)?.ok_or_else(|| {
        auth.failures.lock().take(&client.rate_limit_key(), now);
        record_failure("login");
        tracing::warn!(client = %client.0, "login failed");
        let detail = "invalid code or token; a code works once, within ten minutes, and `tenure login` prints \
                      a new one";
        Problem::new(Code::LOGIN_FAILED, detail)
    })?;
    let (id, digest) = secret::fresh();
    tracing::info!(caller = name, "logged in");
    auth.sessions.lock().insert(digest, Session { name, scopes, until: now + SESSION_LIFE }, now);
    save_sessions(&auth).await;
    Ok((
        StatusCode::NO_CONTENT,
        AppendHeaders([(header::SET_COOKIE, auth.set_cookie(&id, SESSION_LIFE.as_secs()))]),
    ))
}

/// Creates a code for a browser, with the scopes of the caller. `tenure login` calls it.
async fn new_code(State(auth): State<Arc<Auth>>, caller: Caller) -> impl IntoResponse {
    let code = auth.login_code_for(&caller);
    let url = auth.login_url(&code);
    let body = NewCode { code, url, expires_in_ms: LOGIN_CODE_LIFE.as_millis() as u64 };
    (StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(body))
}

/// Ends the session of the cookie. A bearer token has no session to end.
async fn logout(State(auth): State<Arc<Auth>>, caller: Caller) -> impl IntoResponse {
    if let Some(session) = caller.session {
        auth.sessions.lock().remove(&Digest::from_bytes(session));
        save_sessions(&auth).await;
        tracing::info!(caller = caller.name, "logged out");
    }
    (StatusCode::NO_CONTENT, AppendHeaders([(header::SET_COOKIE, auth.set_cookie("", 0))]))
}

/// Stores the sessions before the response is sent.
async fn save_sessions(auth: &Arc<Auth>) {
    let auth = auth.clone();
    if tokio::task::spawn_blocking(move || auth.save_sessions()).await.is_err() {
        tracing::error!("cannot store the console sessions");
    }
}

async fn whoami(caller: Caller) -> impl IntoResponse {
    let via = match caller.via {
        Via::Bearer => "bearer",
        Via::Cookie => "cookie",
    };
    let scopes = caller.scopes.iter().map(|scope| scope.to_string()).collect();
    ([(header::CACHE_CONTROL, "no-store")], Json(Whoami { name: caller.name, scopes, via }))
}

impl Auth {
    fn identify(&self, login: &Login) -> Result<Option<(String, Scopes)>, Problem> {
        match (&login.code, &login.token) {
            (Some(code), None) => Ok(self.codes.lock().redeem(&Digest::of(code), self.clock.now())),
            (None, Some(token)) => Ok(self.tokens.find(&Digest::of(token))),
            _ => Err(Problem::new(Code::INVALID_REQUEST, "send either `code` or `token`")),
        }
    }

    fn set_cookie(&self, value: &str, seconds: u64) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }
}
