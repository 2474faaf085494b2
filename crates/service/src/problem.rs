//! An error as the client sees it: RFC 9457 `application/problem+json`, or a gRPC status where the client
//! speaks gRPC.

use std::fmt;

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

use crate::code::Code;
use crate::context::Context;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The gRPC metadata entry that carries [`Code::as_str`].
pub const GRPC_CODE: HeaderName = HeaderName::from_static("tenure-code");

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The error of one request. `detail` is for people; `extra` has values for programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What happened this time, in a sentence.
    pub detail: String,
    /// Further members of the body, such as the holder of a busy key.
    pub extra: Map<String, Value>,
}

/// Marks a response as made from a problem, so that the server leaves its body alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rendered(pub(crate) Code);

impl Problem {
    /// A problem without further members.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), extra: Map::new() }
    }

    /// Adds a member to the body. The members of RFC 9457 and `code` cannot be replaced.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// The body, with the id of the current request.
    pub fn body(&self) -> Value {
        let mut body = self.extra.clone();
        body.insert("type".into(), format!("urn:tenure:error:{}", self.code).into());
        body.insert("title".into(), self.code.title().into());
        body.insert("status".into(), self.code.status().as_u16().into());
        body.insert("detail".into(), self.detail.clone().into());
        body.insert("code".into(), self.code.as_str().into());
        if let Some(context) = Context::current() {
            body.insert("requestId".into(), context.id().into());
        }
        Value::Object(body)
    }

    /// The problem as a gRPC response without a message.
    pub fn into_grpc(self) -> Response {
        let mut response = Response::new(axum::body::Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(self.code.grpc())));
        if let Ok(message) = HeaderValue::from_str(&percent_encode(&self.detail)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        headers.insert(GRPC_CODE, HeaderValue::from_static(self.code.as_str()));
        response.extensions_mut().insert(Rendered(self.code));
        response
    }

    fn into_http(self) -> Response {
        let status = self.code.status();
        let body = self.body().to_string();
        let mut response =
            (status, [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))], body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tenure\""));
        }
        response.extensions_mut().insert(Rendered(self.code));
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let retry = self.extra.get("retryAfterSeconds").and_then(Value::as_u64);
        let grpc = Context::current().is_some_and(|context| context.is_grpc());
        let mut response = if grpc { self.into_grpc() } else { self.into_http() };
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for Problem {}

/// The encoding of `grpc-message`: printable ASCII, with `%` and everything else percent-encoded.
fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if (0x20..=0x7e).contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_members_do_not_replace_the_standard_ones() {
        let problem =
            Problem::new(Code::BUSY, "held by a").with("holder", "a").with("status", 200).with("code", "X");
        let body = problem.body();
        assert_eq!(body["holder"], "a");
        assert_eq!(body["status"], 409);
        assert_eq!(body["code"], "BUSY");
        assert_eq!(body["type"], "urn:tenure:error:BUSY");
    }

    #[test]
    fn a_grpc_message_is_printable_ascii() {
        let response = Problem::new(Code::BUSY, "100 % für a\n").into_grpc();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["grpc-status"], "9");
        assert_eq!(response.headers()["grpc-message"], "100 %25 f%C3%BCr a%0A");
        assert_eq!(response.headers()["tenure-code"], "BUSY");
    }

    #[test]
    fn a_401_says_how_to_authenticate() {
        let response = Problem::new(Code::UNAUTHENTICATED, "no token").into_response();
        assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"tenure\"");
    }
}
