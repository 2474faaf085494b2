//! The context of the request that the current task handles: set by the server, read by problems, logs and outgoing
//! calls.

use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderValue, header};

tokio::task_local! {
    static CURRENT: Arc<Context>;
}

/// The longest request id accepted from a client.
const MAX_ID_BYTES: usize = 128;

/// The identity of one request.
#[derive(Debug)]
pub(crate) struct Context {
    id: String,
    grpc: bool,
    traceparent: Option<HeaderValue>,
    caller: OnceLock<String>,
}

/// The header that carries a request's id, in and out.
pub const REQUEST_ID: http::HeaderName = http::HeaderName::from_static("x-request-id");

/// The id of the request that the current task handles, if any.
pub fn request_id() -> Option<String> {
    CURRENT.try_with(|context| context.id.clone()).ok()
}

impl Context {
    /// The context of a request with these headers. A well-formed id is kept; otherwise a new one is generated.
    pub(crate) fn new(headers: &HeaderMap) -> Arc<Self> {
        let id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_id(id));
        Arc::new(Self {
            id: id.map_or_else(fresh_id, str::to_owned),
            grpc: is_grpc(headers),
            traceparent: headers.get("traceparent").filter(|value| is_traceparent(value)).cloned(),
            caller: OnceLock::new(),
        })
    }

    /// Runs `work` in this context.
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// The context of the current task.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the client uses gRPC and expects gRPC errors.
    pub(crate) fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// The trace context that came in, if it was well formed.
    pub(crate) fn traceparent(&self) -> Option<&HeaderValue> {
        self.traceparent.as_ref()
    }

    /// The trace that the request belongs to: the second part of a well-formed trace context.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.traceparent()?.to_str().ok()?.split('-').nth(1)
    }

    /// Records the caller for the access log.
    pub(crate) fn set_caller(&self, name: &str) {
        // A second layer of authentication may not rename the caller.
        let _ = self.caller.set(name.to_owned());
    }

    pub(crate) fn caller(&self) -> Option<&str> {
        self.caller.get().map(String::as_str)
    }
}

/// Whether the request is gRPC by its content type.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn is_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:/+=@".contains(c);
    !id.is_empty() && id.len() <= MAX_ID_BYTES && id.chars().all(allowed)
}

fn fresh_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, neither id all zero.
pub(crate) fn is_traceparent(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { return false };
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let some = |part: &str| part.bytes().any(|b| b != b'0');
    version == "00" && hex(trace, 32) && hex(span, 16) && hex(flags, 2) && some(trace) && some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &'static str, value: &str) -> Arc<Context> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        Context::new(&headers)
    }

    #[test]
    fn a_well_formed_request_id_is_kept_and_any_other_replaced() {
        assert_eq!(context("x-request-id", "abc-1").id(), "abc-1");
        for bad in ["", "a b", "a\"b", &"x".repeat(129)] {
            let made = context("x-request-id", bad);
            assert_eq!(made.id().len(), 32, "{bad}");
        }
    }

    #[test]
    fn only_a_well_formed_traceparent_is_passed_on() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(context("traceparent", good).traceparent().is_some());
        for bad in [
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "junk",
        ] {
            assert!(context("traceparent", bad).traceparent().is_none(), "{bad}");
        }
    }
}
