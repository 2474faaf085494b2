//! Identifiers supplied by clients, validated on construction.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result, limits};

macro_rules! id_type {
    ($(#[$doc:meta])+ $name:ident, $field:literal, $limit:expr, $allowed:expr, $allowed_text:literal) => {
        $(#[$doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates and wraps a text.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check($field, text, $limit, $allowed, $allowed_text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

id_type! {
    /// A channel of the receiver. Printable ASCII without spaces and without `|`, the separator in the idempotency hash.
    ServiceRef, "serviceRef", limits::SERVICE_REF, |byte| byte.is_ascii_graphic() && byte != b'|',
    "printable ASCII without spaces and `|`"
}

id_type! {
    /// A recording: a file name in the recordings directory. It cannot contain a path.
    RecordingId, "recordingId", limits::RECORDING, plain_or_dot, "letters, digits, `.`, `_` and `-`"
}

id_type! {
    /// A configured profile.
    ProfileId, "profileID", limits::PROFILE, plain_or_dot, "letters, digits, `.`, `_` and `-`"
}

id_type! {
    /// A client's name for its own request.
    CorrelationId, "correlationId", limits::CORRELATION, |byte| byte.is_ascii_graphic(),
    "printable ASCII without spaces"
}

id_type! {
    /// The id of a session.
    SessionId, "sessionId", limits::SESSION, plain, "letters, digits, `_` and `-`"
}

fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn plain_or_dot(byte: u8) -> bool {
    plain(byte) || byte == b'.'
}

fn check(
    field: &'static str,
    text: &str,
    limit: usize,
    allowed: impl Fn(u8) -> bool,
    allowed_text: &str,
) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(field, "must not be empty"));
    }
    if text.len() > limit {
        return Err(Error::invalid(field, format!("is {} bytes long; the limit is {limit}", text.len())));
    }
    if text.starts_with('.') {
        return Err(Error::invalid(field, "must not start with a dot"));
    }
    match text.bytes().find(|byte| !allowed(*byte)) {
        Some(byte) => {
            Err(Error::invalid(field, format!("byte 0x{byte:02x} is not allowed; use {allowed_text}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_ref_cannot_contain_the_hash_separator() {
        assert!(ServiceRef::new("1:0:1:445D:453:1:C00000:0:0:0:").is_ok());
        assert!(ServiceRef::new("s".repeat(200)).is_ok());
        for bad in ["", "a|b", "a b", "a\nb", "é", "a\u{7f}", &"s".repeat(201)] {
            assert!(
                matches!(ServiceRef::new(bad), Err(Error::Invalid { field: "serviceRef", .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_recording_id_cannot_name_another_directory() {
        assert!(RecordingId::new("rec-1").is_ok() && RecordingId::new("2026-11-15_news.ts").is_ok());
        for bad in ["..", "../etc", "a/b", "a\\b", ".hidden", "a|b", ""] {
            assert!(RecordingId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_id_contains_no_dot_or_slash() {
        assert!(SessionId::new("0198c0de-77aa-7bbb-8ccc-ddddeeeeffff").is_ok());
        for bad in ["a.b", "a/b", "%2e", " ", &"s".repeat(65)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
        }
    }
}
