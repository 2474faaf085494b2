//! Error codes, and the refusal that carries one.

use http::StatusCode;
use serde_json::{Map, Value};

/// A stable error code of the device protocol, with its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    name: &'static str,
    status: u16,
}

macro_rules! codes {
    ($($name:ident $status:literal;)+) => {
        impl Code {
            $(
                #[doc = concat!("`", stringify!($name), "`, HTTP ", stringify!($status), ".")]
                pub const $name: Code = Code { name: stringify!($name), status: $status };
            )+

            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name),+];
        }
    };
}

codes! {
    INVALID_JSON 400;
    MISSING_FIELD 400;
    INVALID_VALUE 400;
    INVALID_TYPE 400;
    OUT_OF_RANGE 400;
    UNAUTHORIZED 401;
    RATE_LIMITED 429;
    INTERNAL_ERROR 500;
    NOT_FOUND 404;
    BUSY 409;
    CONNECTION_LIMIT 503;
    FEATURE_DISABLED 501;
    SYSTEM_NOT_READY 503;
    AUDIO_UNAVAILABLE 503;
    INVALID_ACTION 400;
    STORAGE_FULL 507;
    INVALID_PARAMETER 400;
    OPERATION_FAILED 500;
    CONTROL_LOCKED 409;
    LEASE_REQUIRED 428;
    LEASE_INVALID 403;
    LEASE_EXPIRED 409;
    STREAM_NOT_ACTIVE 409;
    STREAM_CONTRACT_MISMATCH 400;
    STREAM_FRAME_INVALID 400;
}

impl Code {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.name
    }

    /// The HTTP status of this code.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Why a command was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// A message for people.
    pub message: String,
    /// The invalid field.
    pub field: Option<String>,
    /// Further members, such as the owner of the lease.
    pub extra: Map<String, Value>,
    /// The HTTP status, if it differs from the code's.
    pub status: Option<StatusCode>,
}

impl Refusal {
    /// A refusal without further members.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, extra: Map::new(), status: None }
    }

    /// Sets the invalid field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>) -> Self {
        self.field = Some(name.into());
        self
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// Overrides the HTTP status.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// The `error` member of an envelope.
    pub(crate) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("code".into(), self.code.as_str().into());
        body.insert("message".into(), self.message.clone().into());
        if let Some(field) = &self.field {
            body.insert("field".into(), field.clone().into());
        }
        body.extend(self.extra.clone());
        Value::Object(body)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_has_status_423() {
        assert_eq!(Code::ALL.len(), 25);
        assert!(Code::ALL.iter().all(|code| code.status().as_u16() != 423));
    }

    #[test]
    fn the_lease_codes_keep_their_published_statuses() {
        let lease = [Code::CONTROL_LOCKED, Code::LEASE_REQUIRED, Code::LEASE_INVALID, Code::LEASE_EXPIRED];
        assert_eq!(lease.map(|code| code.status().as_u16()), [409, 428, 403, 409]);
    }
}
