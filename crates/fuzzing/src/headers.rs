//! Request ids, trace contexts, credentials, cookies, origins and the login body.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use tenure_service::{ApiToken, Auth, Scopes, Settings, auth_layer, login_routes};
use tower::ServiceExt;

/// A token that no input contains.
const SECRET: &str = "a-token-that-no-input-can-contain-e2c1b9d4";

thread_local! {
    static ROUTER: RefCell<Option<axum::Router>> = const { RefCell::new(None) };
}

fn router() -> axum::Router {
    let settings = Settings {
        api_tokens: vec![ApiToken::new("only", SECRET, Scopes::all_admin())],
        ..Settings::default()
    };
    let auth = Arc::new(Auth::open(&settings, settings.listen).expect("tokens are configured"));
    login_routes(auth.clone()).layer(auth_layer(auth))
}

/// Parses lines of `name: value` up to an empty line, and the body after it.
fn parts(data: &[u8]) -> (HeaderMap, Vec<u8>) {
    let mut headers = HeaderMap::new();
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if line.is_empty() {
            break;
        }
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = (&line[..at], line.get(at + 1..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            && headers.len() < 64
        {
            headers.append(name, value);
        }
    }
    (headers, rest.to_vec())
}

/// Accepted headers are well formed, and only the right credentials are accepted.
pub(crate) fn headers(data: &[u8]) {
    let (headers, body) = parts(data);
    let (id, trace) = tenure_service::fuzzing::context(&headers);
    assert!((1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()), "{id:?}");
    if let Some(trace) = trace {
        let text = trace.to_str().expect("text");
        assert!(text.len() == 55 && text.starts_with("00-") && text.is_ascii(), "{text}");
        assert_eq!(headers.get("traceparent"), Some(&trace));
    }
    if data.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
        return;
    }
    let router = ROUTER.with_borrow_mut(|router| router.get_or_insert_with(self::router).clone());
    for (method, path) in [(Method::GET, "/whoami"), (Method::POST, "/login"), (Method::POST, "/login/codes")]
    {
        let mut request = Request::new(Body::from(body.clone()));
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().expect("a valid path"));
        *request.headers_mut() = headers.clone();
        if path == "/login" {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let mut answering = Box::pin(router.clone().oneshot(request));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(response)) = answering.as_mut().poll(&mut context) else {
            panic!("{path} does not wait");
        };
        let status = response.status();
        let refused = [
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::BAD_REQUEST,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        assert!(refused.contains(&status), "{path}: {status}");
    }
}
