//! Trace context comes in and goes out, and spans reach a collector when there is one.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use tenure_service::config::Log;
use tenure_service::telemetry;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::{listen_everywhere, soon, start};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Answers with the trace context it would send on.
async fn outgoing() -> String {
    let mut headers = HeaderMap::new();
    telemetry::inject(&mut headers);
    headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn router() -> Router {
    Router::new().route("/", get(outgoing))
}

fn request(trace: &str) -> String {
    format!("GET / HTTP/1.1\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01")
}

#[tokio::test]
async fn without_a_collector_the_context_is_passed_on() {
    let server = start(|_| {}, router()).await;
    let reply = server.send(&request(TRACE), "").await;
    assert_eq!(reply.body, format!("00-{TRACE}-00f067aa0ba902b7-01"));
    assert_eq!(server.send(&request("junk"), "").await.body, "");
}

#[tokio::test]
async fn work_outside_a_request_carries_its_trace() {
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let trace = telemetry::Trace::new(&parent);
    assert_eq!(trace.clone().scope(outgoing()).await, parent);
    assert_eq!(trace.scope(left_behind()).await, parent);
    assert_eq!(telemetry::Trace::new("junk").scope(outgoing()).await, "");
    assert_eq!(outgoing().await, "");
}

/// Starts a task, as one that outlives the request would be, and answers with what that would send on.
async fn left_behind() -> String {
    let mut tasks = JoinSet::new();
    tasks.spawn(telemetry::Trace::current().scope(outgoing()));
    tasks.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn tasks_of_a_request_belong_to_its_trace() {
    let server = start(|_| {}, Router::new().route("/", get(left_behind))).await;
    let reply = server.send(&request(TRACE), "").await;
    assert_eq!(reply.body, format!("00-{TRACE}-00f067aa0ba902b7-01"));
}

/// A collector that hands on what it is sent, on a thread of its own: the exporter waits for it.
fn collector() -> (String, mpsc::Receiver<Bytes>) {
    let (exports, received) = mpsc::channel(16);
    let (ready, url) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
            let router = Router::new().route(path, post(export)).with_state(Arc::new(exports));
            let mut server = start(|_| {}, router).await;
            ready.send(server.url.clone()).unwrap();
            server.ended().await;
        });
    });
    (url.recv().unwrap(), received)
}

async fn export(
    State(exports): State<Arc<mpsc::Sender<Bytes>>>,
    body: Bytes,
) -> http::Response<axum::body::Body> {
    exports.send(body).await.unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    // An empty message: not compressed, of no length.
    let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(async { Some(Ok(trailers)) });
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(axum::body::Body::new(body)).unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn spans_of_a_request_reach_the_collector_below_the_trace_it_came_with() {
    let (url, mut exports) = collector();
    let log = Log { otlp_endpoint: Some(url), ..Log::default() };
    listen_everywhere();
    let (subscriber, guard) = telemetry::subscriber(&log, false, std::io::sink).unwrap();
    let default = tracing::subscriber::set_default(subscriber);
    let mut server = start(|_| {}, router()).await;
    let reply = server.send(&request(TRACE), "").await;
    let parts: Vec<&str> = reply.body.split('-').collect();
    assert_eq!(parts[1], TRACE, "the same trace: {}", reply.body);
    assert_ne!(parts[2], "00f067aa0ba902b7", "another span");
    server.shutdown.trigger();
    server.ended().await;
    drop(default);
    soon(tokio::task::spawn_blocking(move || drop(guard))).await.unwrap();
    let sent = soon(exports.recv()).await.unwrap();
    let trace: Vec<u8> =
        (0..32).step_by(2).map(|at| u8::from_str_radix(&TRACE[at..at + 2], 16).unwrap()).collect();
    assert!(sent.windows(16).any(|window| window == trace), "the export has the trace's id");
    assert!(sent.windows(7).any(|window| window == b"request"), "and the name of the span");
}
