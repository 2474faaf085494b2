//! The table of error codes: code, HTTP status, gRPC status number, title. Each code has a page `docs/errors/<CODE>.md`;
//! a published code keeps its meaning.

use std::fmt;

use http::StatusCode;

/// A stable error code. Programs match on [`Code::as_str`].
#[derive(Clone, Copy)]
pub struct Code {
    text: &'static str,
    status: StatusCode,
    grpc: u8,
    title: &'static str,
}

/// Declares the constants and [`Code::ALL`] from one list, so that neither can lack a code.
macro_rules! codes {
    ($($name:ident $text:literal $status:ident $grpc:literal $title:literal;)+) => {
        impl Code {
            $(
                #[doc = $title]
                pub const $name: Code =
                    Code { text: $text, status: StatusCode::$status, grpc: $grpc, title: $title };
            )+

            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name),+];
        }
    };
}

codes! {
    INVALID_REQUEST "INVALID_REQUEST" BAD_REQUEST 3 "The request is malformed";
    TTL_OUT_OF_RANGE "TTL_OUT_OF_RANGE" BAD_REQUEST 3 "The TTL is outside what this engine grants";
    INVALID_INPUT "INVALID_INPUT" BAD_REQUEST 3 "The intent is invalid";
    UNAUTHENTICATED "UNAUTHENTICATED" UNAUTHORIZED 16 "No valid credentials";
    UNAUTHORIZED "UNAUTHORIZED" UNAUTHORIZED 16 "No valid token for sessions";
    LOGIN_FAILED "LOGIN_FAILED" UNAUTHORIZED 16 "The login was refused";
    FORBIDDEN "FORBIDDEN" FORBIDDEN 7 "The credentials lack a scope";
    RESERVED_KEY "RESERVED_KEY" FORBIDDEN 7 "The key belongs to a service";
    ORIGIN_REFUSED "ORIGIN_REFUSED" FORBIDDEN 7 "The page's origin is not allowed";
    LAN_ONLY "LAN_ONLY" FORBIDDEN 7 "Sessions are for the local network";
    NOT_FOUND "NOT_FOUND" NOT_FOUND 5 "Nothing exists at this path";
    SESSION_NOT_FOUND "SESSION.NOT_FOUND" NOT_FOUND 5 "Unknown session";
    METHOD_NOT_ALLOWED "METHOD_NOT_ALLOWED" METHOD_NOT_ALLOWED 12 "The method is not allowed here";
    REQUEST_TIMEOUT "REQUEST_TIMEOUT" REQUEST_TIMEOUT 4 "The request arrived too slowly";
    BUSY "BUSY" CONFLICT 9 "Another holder has the key";
    LEASE_BUSY "LEASE_BUSY" CONFLICT 9 "The channel is in use";
    NOT_HELD "NOT_HELD" CONFLICT 9 "The lease is not held by this token";
    NO_SUCCESSOR "NO_SUCCESSOR" CONFLICT 9 "The successor is not waiting";
    STALE_GENERATION "STALE_GENERATION" CONFLICT 9 "The generation is not the current one";
    TOKEN_SPENT "TOKEN_SPENT" CONFLICT 9 "The reign of this token has ended";
    FENCED_OUT "FENCED_OUT" CONFLICT 9 "A later owner has fenced this write out";
    CONFLICT "CONFLICT" CONFLICT 10 "A condition of the write does not hold";
    KEY_IS_LEASED "KEY_IS_LEASED" CONFLICT 9 "The key is a lease, not a record";
    UNPROVEN "UNPROVEN" CONFLICT 9 "The gate was not proven";
    LAGGED "LAGGED" GONE 11 "The watch fell behind";
    SESSION_EXPIRED "SESSION.EXPIRED" GONE 9 "The session expired";
    SESSION_GONE "session_gone" GONE 9 "The session has ended";
    BODY_TOO_LARGE "BODY_TOO_LARGE" PAYLOAD_TOO_LARGE 8 "The body is too large";
    UNSUPPORTED_MEDIA_TYPE "UNSUPPORTED_MEDIA_TYPE" UNSUPPORTED_MEDIA_TYPE 3 "The body has the wrong content type";
    TOO_MANY "TOO_MANY" TOO_MANY_REQUESTS 8 "A limit of the lease kernel is reached";
    RATE_LIMITED "RATE_LIMITED" TOO_MANY_REQUESTS 8 "Too many requests in too little time";
    ADMISSION_SESSIONS_FULL "ADMISSION_SESSIONS_FULL" TOO_MANY_REQUESTS 8 "The limit of sessions is reached";
    INTERNAL "INTERNAL" INTERNAL_SERVER_ERROR 13 "The server failed";
    UNAVAILABLE "UNAVAILABLE" SERVICE_UNAVAILABLE 14 "Unavailable; the request had no effect";
    ADMISSION_NO_TUNERS "ADMISSION_NO_TUNERS" SERVICE_UNAVAILABLE 14 "No tuner is configured";
    SERVICE_UNAVAILABLE "SERVICE_UNAVAILABLE" SERVICE_UNAVAILABLE 14 "The intent was not completed";
    V3_UNAVAILABLE "V3_UNAVAILABLE" SERVICE_UNAVAILABLE 14 "Sessions are unavailable";
    SHUTTING_DOWN "SHUTTING_DOWN" SERVICE_UNAVAILABLE 14 "The server is shutting down";
    UNKNOWN_OUTCOME "UNKNOWN_OUTCOME" GATEWAY_TIMEOUT 2 "The outcome is unknown";
}

impl Code {
    /// The stable code, such as `BUSY`.
    pub const fn as_str(self) -> &'static str {
        self.text
    }

    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        self.status
    }

    /// The gRPC status number.
    pub const fn grpc(self) -> u8 {
        self.grpc
    }

    /// A short sentence, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.title
    }

    /// The code with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.text == text)
    }

    /// The code for a response that has only a status, from a router, an extractor or a proxy.
    pub fn from_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::UNAUTHENTICATED,
            StatusCode::FORBIDDEN => Self::FORBIDDEN,
            StatusCode::NOT_FOUND => Self::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED => Self::METHOD_NOT_ALLOWED,
            StatusCode::REQUEST_TIMEOUT => Self::REQUEST_TIMEOUT,
            StatusCode::PAYLOAD_TOO_LARGE => Self::BODY_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::TOO_MANY_REQUESTS => Self::RATE_LIMITED,
            StatusCode::SERVICE_UNAVAILABLE => Self::UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT => Self::UNKNOWN_OUTCOME,
            other if other.is_client_error() => Self::INVALID_REQUEST,
            _ => Self::INTERNAL,
        }
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Code {}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_do_not_move() {
        let table: Vec<_> = Code::ALL.iter().map(|c| (c.as_str(), c.status().as_u16(), c.grpc())).collect();
        assert_eq!(
            table,
            [
                ("INVALID_REQUEST", 400, 3),
                ("TTL_OUT_OF_RANGE", 400, 3),
                ("INVALID_INPUT", 400, 3),
                ("UNAUTHENTICATED", 401, 16),
                ("UNAUTHORIZED", 401, 16),
                ("LOGIN_FAILED", 401, 16),
                ("FORBIDDEN", 403, 7),
                ("RESERVED_KEY", 403, 7),
                ("ORIGIN_REFUSED", 403, 7),
                ("LAN_ONLY", 403, 7),
                ("NOT_FOUND", 404, 5),
                ("SESSION.NOT_FOUND", 404, 5),
                ("METHOD_NOT_ALLOWED", 405, 12),
                ("REQUEST_TIMEOUT", 408, 4),
                ("BUSY", 409, 9),
                ("LEASE_BUSY", 409, 9),
                ("NOT_HELD", 409, 9),
                ("NO_SUCCESSOR", 409, 9),
                ("STALE_GENERATION", 409, 9),
                ("TOKEN_SPENT", 409, 9),
                ("FENCED_OUT", 409, 9),
                ("CONFLICT", 409, 10),
                ("KEY_IS_LEASED", 409, 9),
                ("UNPROVEN", 409, 9),
                ("LAGGED", 410, 11),
                ("SESSION.EXPIRED", 410, 9),
                ("session_gone", 410, 9),
                ("BODY_TOO_LARGE", 413, 8),
                ("UNSUPPORTED_MEDIA_TYPE", 415, 3),
                ("TOO_MANY", 429, 8),
                ("RATE_LIMITED", 429, 8),
                ("ADMISSION_SESSIONS_FULL", 429, 8),
                ("INTERNAL", 500, 13),
                ("UNAVAILABLE", 503, 14),
                ("ADMISSION_NO_TUNERS", 503, 14),
                ("SERVICE_UNAVAILABLE", 503, 14),
                ("V3_UNAVAILABLE", 503, 14),
                ("SHUTTING_DOWN", 503, 14),
                ("UNKNOWN_OUTCOME", 504, 2),
            ]
        );
    }

    #[test]
    fn every_code_parses() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(*code));
        }
        assert_eq!(Code::parse("NOPE"), None);
    }

    #[test]
    fn every_page_shows_a_body_as_the_server_writes_it() {
        for code in Code::ALL {
            let path = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
            let page = std::fs::read_to_string(&path).unwrap();
            let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
            let example: serde_json::Value = serde_json::from_str(example).unwrap();
            let body = crate::Problem::new(*code, example["detail"].as_str().unwrap()).body();
            for member in ["type", "title", "status", "detail", "code"] {
                assert_eq!(example[member], body[member], "{path}");
            }
            let head = format!("{}. HTTP {}, gRPC ", code.title(), code.status().as_u16());
            assert!(page.contains(&head) && page.contains(&format!(" ({}).", code.grpc())), "{path}");
        }
    }

    #[test]
    fn a_bare_status_becomes_the_code_of_the_same_status_family() {
        for status in [400u16, 401, 403, 404, 405, 408, 413, 415, 422, 429, 431, 500, 502, 503, 504] {
            let status = StatusCode::from_u16(status).unwrap();
            let code = Code::from_status(status).status();
            assert_eq!(code.is_client_error(), status.is_client_error(), "{status}");
        }
    }
}
