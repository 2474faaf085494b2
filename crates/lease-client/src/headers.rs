//! The headers of every call: the bearer token, and what the embedding process adds.

use tenure_lease::{Error, Result};
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};

use crate::options::InjectHeaders;

/// The headers that a client sends with every call. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RequestHeaders {
    authorization: Option<MetadataValue<Ascii>>,
    inject: Option<InjectHeaders>,
}

impl RequestHeaders {
    pub(crate) fn new(token: Option<&str>, inject: Option<InjectHeaders>) -> Result<Self> {
        let Some(token) = token else { return Ok(Self { authorization: None, inject }) };
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.trim())
            .parse()
            .map_err(|_| Error::invalid("token", "has characters that are not allowed in a token"))?;
        value.set_sensitive(true);
        Ok(Self { authorization: Some(value), inject })
    }

    /// A request with these headers.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(inject) = &self.inject {
            inject(request.metadata_mut().as_mut());
        }
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    pub(crate) const fn have_token(&self) -> bool {
        self.authorization.is_some()
    }
}
