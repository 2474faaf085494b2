//! Extractors whose rejections are problems with stable codes.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::header;
use http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::BodyError;
use crate::code::Code;
use crate::problem::Problem;

/// A JSON body, in or out. In, it is an object. Unknown fields are refused where `T` says `deny_unknown_fields`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<T>(pub T);

/// The query string.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<T>(pub T);

/// The parameters of the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(is_json) {
            let given = kind.map_or_else(|| "none".to_owned(), |kind| format!("`{kind}`"));
            return Err(Problem::new(
                Code::UNSUPPORTED_MEDIA_TYPE,
                format!("the content type must be application/json; it is {given}"),
            ));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            BodyError::problem_of(&rejection)
                .unwrap_or_else(|| Problem::new(Code::from_status(rejection.status()), rejection.body_text()))
        })?;
        require_object(&bytes)?;
        serde_json::from_slice(&bytes).map(Json).map_err(|error| invalid("the body", &error.to_string()))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                tracing::error!(%error, "cannot serialize a response");
                Problem::new(Code::INTERNAL, "the response could not be serialized").into_response()
            }
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|query| Self(query.0))
            .map_err(|rejection| invalid("the query", &innermost_cause(&rejection)))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|rejection| invalid("the path", &rejection.body_text()))
    }
}

/// Derived structs would also accept a list of their fields, which no schema allows.
fn require_object(bytes: &[u8]) -> Result<(), Problem> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') | None => Ok(()),
        Some(_) => Err(invalid("the body", "expected an object")),
    }
}

fn invalid(part: &str, reason: &str) -> Problem {
    Problem::new(Code::INVALID_REQUEST, format!("{part} is invalid: {reason}"))
}

/// The innermost cause: the error of the deserializer itself.
fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// `application/json` or `application/<anything>+json`, with or without parameters.
fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    subtype == "json" || (subtype.len() > 5 && subtype.ends_with("+json"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Claim {
        #[expect(dead_code, reason = "only its type matters")]
        ttl_ms: u64,
    }

    async fn refused(kind: Option<&str>, body: &str) -> Problem {
        let mut request = Request::builder();
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        Json::<Claim>::from_request(request, &()).await.unwrap_err()
    }

    #[tokio::test]
    async fn bad_bodies_are_invalid_requests_that_name_what_is_wrong() {
        for (body, word) in [
            ("", "EOF"),
            ("{", "EOF"),
            ("{\"ttl_ms\":1}x", "trailing"),
            ("{\"ttl_ms\":\"1\"}", "expected u64"),
            ("{\"ttl_ms\":-1}", "expected u64"),
            ("{\"ttl_ms\":1,\"tll\":2}", "unknown field `tll`"),
            ("{\"ttl_ms\":1,\"ttl_ms\":2}", "duplicate field"),
            ("[1]", "expected an object"),
            ("{}", "missing field `ttl_ms`"),
        ] {
            let problem = refused(Some("application/json"), body).await;
            assert_eq!(problem.code, Code::INVALID_REQUEST, "{body}");
            assert!(problem.detail.contains(word), "{body}: {}", problem.detail);
        }
    }

    #[tokio::test]
    async fn other_content_types_are_refused() {
        for kind in
            [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/+json")]
        {
            assert_eq!(refused(kind, "{\"ttl_ms\":1}").await.code, Code::UNSUPPORTED_MEDIA_TYPE, "{kind:?}");
        }
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
            assert!(is_json(kind), "{kind}");
        }
    }

    #[tokio::test]
    async fn a_bad_query_is_an_invalid_request() {
        for (query, word) in
            [("ttl_ms=x", "invalid digit"), ("", "missing field"), ("ttl_ms=1&b=2", "unknown")]
        {
            let request = Request::builder().uri(format!("/?{query}")).body(()).unwrap();
            let error =
                Query::<Claim>::from_request_parts(&mut request.into_parts().0, &()).await.unwrap_err();
            assert_eq!(error.code, Code::INVALID_REQUEST);
            assert!(error.detail.contains(word), "{}", error.detail);
        }
    }
}
