//! Logs, metrics and traces.
//!
//! Logs go to stderr. Ownership events have the target [`OWNERSHIP`], the access log has [`ACCESS`], so that either can be
//! filtered or collected alone.

mod metrics;
mod trace;

use std::io::IsTerminal;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{Environment, Log, LogFormat};

pub(crate) use metrics::upkeep;
pub use metrics::{metrics_routes, metrics_text};
pub(crate) use trace::request_span;
pub use trace::{Trace, inject};

/// The target of events about ownership: grants, and losses with their reasons.
pub const OWNERSHIP: &str = "tenure::ownership";
/// The target of the access log.
pub const ACCESS: &str = "tenure::access";

/// Telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log.filter` is not a filter.
    #[error(
        "log.filter: invalid filter `{filter}`; write levels and targets, such as info,tenure::access=warn"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// `log.otlp_endpoint` cannot be used.
    #[error(
        "log.otlp_endpoint: `{endpoint}` cannot be used; write the collector's gRPC address, such as http://127.0.0.1:4317"
    )]
    Otlp {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// `log.otlp_endpoint` is not plain HTTP.
    #[error(
        "log.otlp_endpoint: `{endpoint}` must begin with http://; send traces to a collector on this machine or \
         in a trusted network, which can forward them over TLS"
    )]
    OtlpScheme {
        /// The endpoint.
        endpoint: String,
    },
    /// Another subscriber is installed in this process.
    #[error("logging was started twice")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Keeps telemetry running. Dropping it flushes what is left.
#[derive(Debug)]
#[must_use = "traces are sent until it is dropped"]
pub struct TelemetryGuard {
    traces: Option<SdkTracerProvider>,
}

/// Starts telemetry for the whole process. With an OTLP endpoint it must run inside a Tokio runtime.
pub fn init(log: &Log) -> Result<TelemetryGuard, TelemetryError> {
    metrics::install();
    let colours = std::io::stderr().is_terminal() && Environment::process().get("NO_COLOR").is_none();
    let (subscriber, guard) = subscriber(log, colours, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(TelemetryError::Twice)?;
    Ok(guard)
}

/// What [`init`] installs, with another writer: for tests, and for programs with a log of their own.
pub fn subscriber<W>(
    log: &Log,
    colours: bool,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, TelemetryGuard), TelemetryError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(&log.filter)
        .map_err(|source| TelemetryError::Filter { filter: log.filter.clone(), source })?;
    let traces = log.otlp_endpoint.as_deref().map(trace::provider).transpose()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(colours).boxed(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
        }
    };
    let spans = traces.as_ref().map(trace::layer);
    Ok((Registry::default().with(filter).with(lines).with(spans), TelemetryGuard { traces }))
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.traces.take().map(|traces| traces.shutdown()) {
            tracing::warn!(%error, "cannot flush the last traces");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, work: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = Log { format, filter: filter.into(), otlp_endpoint: None };
        let (subscriber, _guard) = subscriber(&log, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, work);
        let bytes = buffer.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_and_the_span() {
        let text = logged(LogFormat::Json, "info", || {
            let _span = tracing::info_span!("request", request_id = "r1").entered();
            tracing::info!(target: "tenure::ownership", key = "a", "granted");
        });
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(line["target"], OWNERSHIP);
        assert_eq!(line["message"], "granted");
        assert_eq!(line["key"], "a");
        assert_eq!(line["span"]["request_id"], "r1");
    }

    #[test]
    fn text_lines_have_no_colours_unless_asked_and_the_filter_holds() {
        let text = logged(LogFormat::Text, "info,tenure::access=warn", || {
            tracing::info!("seen");
            tracing::debug!("too detailed");
            tracing::info!(target: "tenure::access", "filtered");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("seen") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn an_invalid_collector_address_is_an_error_that_names_the_setting() {
        for endpoint in ["https://collector:4317", "collector:4317", "http://"] {
            let log = Log { otlp_endpoint: Some(endpoint.into()), ..Log::default() };
            let error = subscriber(&log, false, std::io::stderr).err().unwrap();
            assert!(error.to_string().contains(&format!("log.otlp_endpoint: `{endpoint}`")), "{error}");
        }
    }

    #[test]
    fn a_wrong_filter_is_an_error_that_names_the_setting() {
        let log = Log { filter: "tenure=loud".into(), ..Log::default() };
        let error = subscriber(&log, false, std::io::stderr).err().unwrap();
        assert!(error.to_string().contains("log.filter: invalid filter `tenure=loud`"), "{error}");
    }
}
