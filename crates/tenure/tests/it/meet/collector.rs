//! A collector of traces, as operators run one: it takes spans over OTLP and shows what hangs below what.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use parking_lot::Mutex;
use tenure_testkit::wait;
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::harness::LIMIT;

/// A received span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) trace: String,
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) name: String,
}

impl ReceivedSpan {
    /// Whether it has this name and this parent.
    pub(crate) fn of(&self, trace: &str, parent: u64, name: &str) -> bool {
        self.trace == trace && self.parent == parent && self.name == name
    }
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<ReceivedSpan>>>);

pub(crate) struct Collector {
    pub(crate) url: String,
    spans: Spans,
    _serving: JoinSet<Result<(), tonic::transport::Error>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let spans = Spans::default();
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let service = TraceServiceServer::new(spans.clone());
        let mut serving = JoinSet::new();
        serving.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { url, spans, _serving: serving }
    }

    /// Waits for a matching span.
    pub(crate) async fn find(&self, what: &str, fits: impl Fn(&ReceivedSpan) -> bool) -> ReceivedSpan {
        let find = || self.spans.0.lock().iter().find(|span| fits(span)).cloned();
        if let Err(error) = wait::until_async(what, LIMIT, async || find().is_some()).await {
            panic!("{error}: {:#?}", self.spans.0.lock());
        }
        find().unwrap()
    }

    /// Whether a span is a descendant of another.
    pub(crate) fn is_below(&self, span: &ReceivedSpan, other: &ReceivedSpan) -> bool {
        let spans = self.spans.0.lock();
        let mut at = Some(span);
        while let Some(span) = at {
            if span == other {
                return true;
            }
            at = spans.iter().find(|above| above.trace == span.trace && above.id == span.parent);
        }
        false
    }
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let sent = request.into_inner().resource_spans;
        let spans = sent.into_iter().flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().extend(spans.map(|span| ReceivedSpan {
            trace: span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            id: number(&span.span_id),
            parent: number(&span.parent_span_id),
            name: span.name,
        }));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
