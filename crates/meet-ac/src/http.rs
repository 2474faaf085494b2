//! The key set and service tokens over HTTP.

use std::sync::Arc;

use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{Authority, Credentials, Error, limits};

/// `GET /.well-known/jwks.json` and `POST /oauth/token`. Neither needs a token.
pub fn routes(authority: Arc<Authority>) -> Router {
    Router::new()
        .route("/.well-known/jwks.json", get(key_set))
        .route("/oauth/token", post(token))
        .layer(DefaultBodyLimit::max(limits::BODY))
        .with_state(authority)
}

async fn key_set(State(authority): State<Arc<Authority>>) -> impl IntoResponse {
    let cache = format!("public, max-age={}", limits::CACHE.as_secs());
    ([(header::CACHE_CONTROL, cache)], Json(authority.published()))
}

#[derive(Deserialize)]
struct Fields {
    grant_type: String,
    client_id: Option<String>,
    client_secret: Option<String>,
    scope: Option<String>,
}

#[derive(Serialize)]
struct Granted {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
}

/// Client credentials of RFC 6749: in the form or as basic authentication, not both.
async fn token(
    State(authority): State<Arc<Authority>>,
    headers: HeaderMap,
    form: Result<Form<Fields>, FormRejection>,
) -> Response {
    let Ok(Form(form)) = form else {
        return refused(StatusCode::BAD_REQUEST, "invalid_request");
    };
    if form.grant_type != "client_credentials" {
        return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type");
    }
    let in_form = form.client_id.zip(form.client_secret);
    let in_form = in_form.map(|(client_id, client_secret)| Credentials { client_id, client_secret });
    let credentials = match (basic(&headers), in_form) {
        (Some(_), Some(_)) => return refused(StatusCode::BAD_REQUEST, "invalid_request"),
        (basic, in_form) => basic.or(in_form),
    };
    let Some(credentials) = credentials else { return refused(StatusCode::UNAUTHORIZED, "invalid_client") };
    match authority.service(&credentials, form.scope.as_deref()) {
        Ok((access_token, life)) => {
            let granted = Granted { access_token, token_type: "Bearer", expires_in: life.as_secs() };
            ([(header::CACHE_CONTROL, "no-store")], Json(granted)).into_response()
        }
        Err(Error::InvalidClient) => refused(StatusCode::UNAUTHORIZED, "invalid_client"),
        Err(Error::InvalidScope) => refused(StatusCode::BAD_REQUEST, "invalid_scope"),
        Err(error) => {
            tracing::error!(%error, "cannot issue a service token");
            refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable")
        }
    }
}

fn basic(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let text = String::from_utf8(STANDARD.decode(value.strip_prefix("Basic ")?).ok()?).ok()?;
    let (client_id, client_secret) = text.split_once(':')?;
    Some(Credentials { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() })
}

fn refused(status: StatusCode, error: &'static str) -> Response {
    #[derive(Serialize)]
    struct Refused {
        error: &'static str,
    }
    let mut response =
        (status, [(header::CACHE_CONTROL, "no-store")], Json(Refused { error })).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Basic realm=\"tenure\""));
    }
    response
}
