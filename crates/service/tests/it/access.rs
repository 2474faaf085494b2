//! One line per request, without anything secret.

use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use parking_lot::Mutex;
use tenure_service::config::{Log, LogFormat};
use tenure_service::{ApiToken, Caller, Scopes, health_routes, telemetry};

use crate::support::{listen_everywhere, start_with_auth};

/// A log in memory.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    fn requests(&self) -> Vec<serde_json::Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["target"] == telemetry::ACCESS).collect()
    }
}

// A single thread, so that the log of this test is the log of its server.
#[tokio::test(flavor = "current_thread")]
async fn a_request_is_logged_with_what_it_was_and_without_what_is_secret() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = Log { format: LogFormat::Json, ..Log::default() };
    listen_everywhere();
    let (subscriber, _guard) = telemetry::subscriber(&log, false, move || writer.clone()).unwrap();
    let _default = tracing::subscriber::set_default(subscriber);
    let router = Router::new()
        .route("/hello/{name}", get(|_: Caller| async { "hello" }))
        .merge(health_routes(|| tenure_service::Readiness::NotReady("opening the store".into())))
        .merge(telemetry::metrics_routes());
    let tokens = vec![ApiToken::new("ci", "hunter2", Scopes::all_admin())];
    let (server, _) = start_with_auth(|settings| settings.api_tokens = tokens, router).await;
    let head = "GET /hello/ann?token=hunter3 HTTP/1.1\r\nauthorization: Bearer hunter2\r\nx-request-id: r1";
    assert_eq!(server.send(head, "").await.body, "hello");
    let reply = server.send("GET /health/ready HTTP/1.1", "").await;
    assert_eq!((reply.status, reply.problem()["detail"].as_str()), (503, Some("opening the store")));
    assert_eq!(server.send("GET /health/live HTTP/1.1", "").await.status, 200);
    let requests = lines.requests();
    let first = &requests[0];
    assert_eq!(first["method"], "GET");
    assert_eq!(first["path"], "/hello/ann");
    assert_eq!(first["status"], 200);
    assert_eq!(first["bytes"], 5);
    assert_eq!(first["caller"], "ci");
    assert_eq!(first["request_id"], "r1");
    assert!(first["ms"].as_f64().is_some());
    let second = &requests[1];
    assert_eq!((&second["caller"], &second["code"]), (&"-".into(), &"UNAVAILABLE".into()));
    assert!(!lines.text().contains("hunter"), "{}", lines.text());
    let metrics = server.send("GET /metrics HTTP/1.1", "").await;
    let line = "tenure_http_requests_total{method=\"GET\",route=\"/hello/{name}\",status=\"200\"}";
    assert!(metrics.body.contains(line), "{}", metrics.body);
}
