//! Bodies, query strings and resume ids of the lease API.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use http::{Method, Request, Uri, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tenure_service::{Caller, Scopes};
use tower::ServiceExt;

/// The store is replaced after this many requests.
const REQUESTS: usize = 2_000;

struct Service {
    router: axum::Router,
    runtime: tokio::runtime::Runtime,
    left: usize,
}

thread_local! {
    static SERVICE: RefCell<Option<Service>> = const { RefCell::new(None) };
}

impl Service {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("the runtime starts");
        let router = runtime.block_on(async {
            let store = tenure_store::Store::open("memory:").await.expect("the memory engine opens");
            tenure_lease_api::http(store.into(), tenure_lease_api::Options::default()).0
        });
        Self { router, runtime, left: REQUESTS }
    }
}

fn request(data: &[u8]) -> Option<Request<Body>> {
    let (which, rest) = data.split_first()?;
    let posts = ["acquire", "renew", "release", "transfer", "revoke"];
    let gets = ["/v1/leases", "/v1/leases/one", "/v1/leases/history", "/v1/leases/watch", "/v1/records"];
    let which = usize::from(*which) % 12;
    let query =
        |path: &str, rest: &[u8]| format!("{path}?{}", String::from_utf8_lossy(rest)).parse::<Uri>().ok();
    let builder = Request::builder();
    let request = match which {
        0..5 => builder
            .method(Method::POST)
            .uri(format!("/v1/leases/{}", posts[which]))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(rest.to_vec())),
        5..10 => builder.uri(query(gets[which - 5], rest)?).body(Body::empty()),
        10 => builder.uri("/v1/leases/watch").header("last-event-id", rest).body(Body::empty()),
        _ => {
            let at = rest.iter().position(|byte| *byte == b'\n').unwrap_or(0);
            let (line, body) = rest.split_at(at);
            builder
                .method(Method::PUT)
                .uri(query("/v1/records", line)?)
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_vec()))
        }
    };
    let mut request = request.ok()?;
    request.extensions_mut().insert(Caller::bearer("fuzz", Scopes::all_admin()));
    Some(request)
}

/// Every request gets a response: success, or a problem with a code. No input causes a server error.
pub(crate) fn http(data: &[u8]) {
    let Some(request) = request(data) else { return };
    SERVICE.with_borrow_mut(|place| {
        if place.as_ref().is_none_or(|service| service.left == 0) {
            *place = Some(Service::start());
        }
        let service = place.as_mut().expect("started");
        service.left -= 1;
        let _inside = service.runtime.enter();
        let streams = request.uri().path().ends_with("/watch");
        let mut responding = Box::pin(check_response(service.router.clone(), request, streams));
        // Only a queued claim waits; it is cancelled.
        for _ in 0..8 {
            if let Poll::Ready(()) = responding.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                break;
            }
        }
    });
}

async fn check_response(router: axum::Router, request: Request<Body>, streams: bool) {
    let asked = format!("{} {}", request.method(), request.uri());
    let response = router.oneshot(request).await.expect("infallible");
    let status = response.status();
    assert!(!status.is_server_error(), "{asked}: {status}");
    if status.is_success() && streams {
        // The first event may be immediate; a second may never arrive.
        let mut body = response.into_body();
        let mut first = Box::pin(body.frame());
        let first = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(!matches!(first, Poll::Ready(Some(Err(_)))), "{asked}");
        return;
    }
    let kind = response.headers().get(header::CONTENT_TYPE).cloned();
    let body = response.into_body().collect().await.expect("the body is complete").to_bytes();
    let json: Arc<Value> = Arc::new(serde_json::from_slice(&body).unwrap_or_default());
    if status.is_success() {
        assert!(json.is_object(), "{asked}: {json}");
        assert!(json.get("generation").is_none_or(Value::is_string), "generations are texts: {json}");
    } else {
        assert_eq!(kind.expect("a content type"), "application/problem+json", "{asked}");
        assert!(json["code"].as_str().is_some_and(|code| !code.is_empty()), "{asked}: {json}");
        assert_eq!(json["status"], status.as_u16(), "{asked}");
    }
}
