//! The access log: a response body that writes an entry when it has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{Method, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::activity::ActiveRequest;
use crate::clock::Clock;
use crate::code::Code;
use crate::context::Context;
use crate::telemetry::ACCESS;

/// An entry of the access log. It has no query string, which may hold secrets.
pub(super) struct AccessRecord {
    pub(super) context: Arc<Context>,
    pub(super) clock: Clock,
    pub(super) started: Duration,
    pub(super) method: Method,
    pub(super) path: String,
    /// The pattern of the route: a label with a bounded number of values.
    pub(super) route: String,
    pub(super) status: StatusCode,
    pub(super) code: Option<Code>,
    /// Keeps the connection active while the response is sent.
    pub(super) _active: ActiveRequest,
}

/// A body that writes its entry when it has been sent or dropped.
pub(super) struct LoggedBody {
    inner: Body,
    bytes: u64,
    /// Whether the body was sent to its end.
    complete: bool,
    record: AccessRecord,
}

impl LoggedBody {
    pub(super) fn new(inner: Body, record: AccessRecord) -> Self {
        let complete = inner.is_end_stream();
        Self { inner, bytes: 0, complete, record }
    }
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                self.complete = self.inner.is_end_stream();
            }
            Some(Err(_)) => {}
            None => self.complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.record.write(self.bytes, self.complete);
    }
}

impl AccessRecord {
    fn write(&self, bytes: u64, complete: bool) {
        let took = self.clock.now().saturating_sub(self.started);
        let status = self.status.as_u16();
        tracing::info!(
            target: ACCESS,
            parent: None,
            method = %self.method,
            path = self.path,
            status,
            ms = took.as_micros() as f64 / 1_000.0,
            bytes,
            complete,
            code = self.code.map_or("-", Code::as_str),
            caller = self.context.caller().unwrap_or("-"),
            request_id = self.context.id(),
            trace_id = self.context.trace_id(),
            "request"
        );
        let method = method_label(&self.method);
        let route = self.route.clone();
        metrics::counter!(
            "tenure_http_requests_total", "method" => method, "route" => route.clone(), "status" => status.to_string()
        )
        .increment(1);
        metrics::histogram!("tenure_http_request_seconds", "method" => method, "route" => route)
            .record(took.as_secs_f64());
    }
}

/// The method as a metric label: clients may invent methods, and metrics keep every label.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        "CONNECT" => "CONNECT",
        _ => "other",
    }
}
