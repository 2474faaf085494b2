//! What every call carries: the token, and the trace it belongs to.

use lease::{Error, Result};
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};

/// The `authorization` metadata of a client; cloning it copies nothing.
#[derive(Clone, Default)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub(super) fn new(token: Option<&str>) -> Result<Self> {
        let Some(token) = token else { return Ok(Self(None)) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.trim())
            .parse()
            .map_err(|_| Error::invalid("token", "has characters that no token has; was it copied whole?"))?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }

    /// A request with the token and the current trace context.
    pub(super) fn on<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        service::telemetry::inject(request.metadata_mut().as_mut());
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}
