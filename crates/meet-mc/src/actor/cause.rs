//! What work is done for: the request of a client or of a neighbour, in the log and in the trace.

use meet_rpc::Trace;
use meet_wire::TraceParent;
use tracing::{Instrument, Span};

use crate::metric;

/// The trace that a client's requests belong to.
#[derive(Clone, Default)]
pub(crate) struct Origin {
    id: u128,
    trace: Trace,
}

impl Origin {
    pub(crate) fn new(parent: Option<TraceParent>) -> Self {
        let trace = parent.map_or_else(Trace::default, |parent| Trace::new(&parent.to_string()));
        Self { id: parent.map_or(0, |parent| parent.trace_id), trace }
    }

    /// As the log has it.
    pub(crate) fn trace_id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// The client's request with this number.
    pub(crate) fn asked(&self, seq: u64) -> Cause {
        let id = format_args!("{:032x}", self.id);
        let span =
            tracing::info_span!(target: metric::TARGET, "asked", otel.kind = "server", trace_id = id, seq);
        self.trace.adopt(&span);
        Cause { span, trace: self.trace.clone() }
    }
}

/// What a piece of work is done for.
pub(crate) struct Cause {
    span: Span,
    trace: Trace,
}

impl Cause {
    /// Work of our own.
    pub(crate) fn none() -> Self {
        Self { span: Span::none(), trace: Trace::default() }
    }

    /// The same as what the current task does.
    pub(crate) fn current() -> Self {
        Self { span: Span::current(), trace: Trace::current() }
    }

    /// Does it: what it logs and whom it calls belongs to the cause.
    pub(crate) fn run<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        self.trace.scope(work.instrument(self.span))
    }
}
