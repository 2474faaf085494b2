//! Prometheus metrics: recorded anywhere through the `metrics` macros, read at `/metrics`.

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::header;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use crate::clock;
use crate::shutdown::Shutdown;

/// Seconds: from a tenth of a millisecond, below which nothing on a network is, to a minute.
const SECONDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];
/// How often histogram samples are aggregated.
const UPKEEP: Duration = Duration::from_secs(5);

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder. Idempotent.
pub(super) fn install() -> &'static PrometheusHandle {
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS);
        let recorder = builder.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics stays empty");
        }
        Collector::default().describe();
        handle
    })
}

/// The metrics in Prometheus' text format, those of the process (`process_*`) as of now.
pub fn metrics_text() -> String {
    let handle = install();
    Collector::default().collect();
    handle.render()
}

/// `GET /metrics`, without a token.
pub fn metrics_routes() -> Router {
    install();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Router::new().route("/metrics", get(move || async move { (kind, metrics_text()) }))
}

/// Keeps the memory of histograms bounded until the shutdown.
pub(crate) async fn upkeep(shutdown: Shutdown) {
    let handle = install();
    while clock::within(UPKEEP, shutdown.wait()).await.is_none() {
        handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_histograms_with_buckets() {
        install();
        metrics::histogram!("test_wait_seconds").record(0.003);
        metrics::counter!("test_total", "result" => "ok").increment(2);
        let text = metrics_text();
        for line in [
            "test_wait_seconds_bucket{le=\"0.0025\"} 0",
            "test_wait_seconds_bucket{le=\"0.005\"} 1",
            "process_resident_memory_bytes ",
            "# HELP process_open_fds ",
            "test_total{result=\"ok\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
