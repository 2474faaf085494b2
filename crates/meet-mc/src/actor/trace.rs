//! Trace context of the request behind a piece of work, for logs and traces.

use tenure_meet_rpc::Trace;
use tenure_meet_wire::TraceParent;
use tracing::{Instrument, Span};

use crate::metric;

/// The trace that a client's requests belong to.
#[derive(Clone, Default)]
pub(crate) struct ClientTrace {
    id: u128,
    trace: Trace,
}

impl ClientTrace {
    pub(crate) fn new(parent: Option<TraceParent>) -> Self {
        let trace = parent.map_or_else(Trace::default, |parent| Trace::new(&parent.to_string()));
        Self { id: parent.map_or(0, |parent| parent.trace_id), trace }
    }

    /// The trace id as logged.
    pub(crate) fn trace_id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// The trace of the client's request with this number.
    pub(crate) fn request(&self, seq: u64) -> RequestTrace {
        let id = format_args!("{:032x}", self.id);
        let span =
            tracing::info_span!(target: metric::TARGET, "request", otel.kind = "server", trace_id = id, seq);
        self.trace.adopt(&span);
        RequestTrace { span, trace: self.trace.clone() }
    }
}

/// The span and trace of one request.
pub(crate) struct RequestTrace {
    span: Span,
    trace: Trace,
}

impl RequestTrace {
    /// For work without a request.
    pub(crate) fn none() -> Self {
        Self { span: Span::none(), trace: Trace::default() }
    }

    /// The trace of the current task.
    pub(crate) fn current() -> Self {
        Self { span: Span::current(), trace: Trace::current() }
    }

    /// Runs `work` within this trace.
    pub(crate) fn run<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        self.trace.scope(work.instrument(self.span))
    }
}
