//! Traces: W3C trace context in and out, OTLP when it is configured.

use http::HeaderMap;
use http::request::Parts;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::TelemetryError;
use crate::context::Context;

/// Crates whose spans are about sending the traces themselves.
const PLUMBING: [&str; 5] = ["h2", "hyper", "tonic", "tower", "opentelemetry"];

/// A provider that sends to the collector at `endpoint`.
pub(super) fn provider(endpoint: &str) -> Result<SdkTracerProvider, TelemetryError> {
    if !endpoint.starts_with("http://") {
        return Err(TelemetryError::OtlpScheme { endpoint: endpoint.to_owned() });
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .map_err(|source| TelemetryError::Otlp { endpoint: endpoint.to_owned(), source })?;
    let resource = Resource::builder().with_service_name("tenure").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// The layer that turns our spans into traces.
pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let tracer: Tracer = provider.tracer("tenure");
    tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter_fn(|metadata| {
        let target = metadata.target().split("::").next().unwrap_or_default();
        !PLUMBING.iter().any(|name| target.starts_with(name))
    }))
}

/// The span of one request, below the trace it came with.
pub(crate) fn request_span(parts: &Parts, context: &Context) -> Span {
    let span = tracing::info_span!(
        target: "tenure::request",
        "request",
        otel.kind = "server",
        method = %parts.method,
        path = parts.uri.path(),
        request_id = context.id(),
        trace_id = context.trace_id(),
        status = tracing::field::Empty,
    );
    if context.traceparent().is_some() {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(&parts.headers));
        // Without a collector there is no trace to be below.
        let _ = span.set_parent(parent);
    }
    span
}

/// Adds the trace context of the current request to the headers of a call made for it: the current span's
/// where traces are collected, and otherwise what came in.
pub fn inject(headers: &mut HeaderMap) {
    let current = Span::current().context();
    if current.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&current, &mut HeaderInjector(headers));
    } else if let Some(context) = Context::current()
        && let Some(traceparent) = context.traceparent()
    {
        headers.insert("traceparent", traceparent.clone());
    }
}
