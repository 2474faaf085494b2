//! Traces: W3C trace context in and out, OTLP when it is configured.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
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
use crate::context::{Context, is_traceparent};

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
        // Without a collector there is no parent.
        let _ = span.set_parent(parent);
    }
    span
}

/// Adds the trace context of the current task to the headers of a call made for it: the current span's
/// where traces are collected, and otherwise what came in.
pub fn inject(headers: &mut HeaderMap) {
    let current = Span::current().context();
    if current.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&current, &mut HeaderInjector(headers));
    } else if let Some(traceparent) = incoming() {
        headers.insert(TRACEPARENT, traceparent);
    }
}

/// The trace context of the current task.
fn incoming() -> Option<HeaderValue> {
    let given = TRACE.try_with(|trace| trace.0.as_ref().map(|given| given.header.clone()));
    given.ok().flatten().or_else(|| Context::current()?.traceparent().cloned())
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static TRACE: Trace;
}

/// The trace of work outside an HTTP request: of a connection of another kind, or of a request that ends before the work.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Incoming>>);

#[derive(Debug)]
struct Incoming {
    header: HeaderValue,
    parent: opentelemetry::Context,
}

impl Trace {
    /// The trace of a `traceparent`; none if it is malformed.
    pub fn new(traceparent: &str) -> Self {
        let header = HeaderValue::from_str(traceparent).ok().filter(is_traceparent);
        Self(header.map(|header| Arc::new(Incoming::new(header))))
    }

    /// The trace of the current task.
    pub fn current() -> Self {
        let given = TRACE.try_with(Self::clone).ok().filter(|trace| trace.0.is_some());
        given.unwrap_or_else(|| Self(incoming().map(|header| Arc::new(Incoming::new(header)))))
    }

    /// Makes it the parent of a new span.
    pub fn adopt(&self, span: &Span) {
        if let Some(given) = &self.0 {
            // Without a collector there is no parent.
            let _ = span.set_parent(given.parent.clone());
        }
    }

    /// Runs work whose outgoing calls belong to it.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        TRACE.scope(self, work)
    }
}

impl Incoming {
    fn new(header: HeaderValue) -> Self {
        let headers = HeaderMap::from_iter([(TRACEPARENT, header.clone())]);
        Self { header, parent: TraceContextPropagator::new().extract(&HeaderExtractor(&headers)) }
    }
}
