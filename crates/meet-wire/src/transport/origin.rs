//! The origins of pages that may open sessions. WebTransport has no CORS: the server must check.

use std::sync::Arc;

/// A list of origins, such as `https://console.example:8443`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AllowedOrigins(Option<Arc<[String]>>);

impl AllowedOrigins {
    /// Pages of these origins may connect.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        Self(Some(origins.into_iter().collect()))
    }

    /// Every page may connect.
    pub const fn any() -> Self {
        Self(None)
    }

    /// Whether a connect request with this origin is allowed. Native clients may omit it; browsers cannot.
    pub fn allows(&self, origin: Option<&str>) -> bool {
        match (&self.0, origin) {
            (None, _) | (_, None) => true,
            (Some(allowed), Some(origin)) => allowed.iter().any(|allowed| allowed == origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_origins_and_clients_without_one_are_allowed() {
        let origins = AllowedOrigins::new(["https://a.example".to_owned()]);
        for (origin, allowed) in [
            (None, true),
            (Some("https://a.example"), true),
            (Some("https://a.example:444"), false),
            (Some("https://a.example.evil"), false),
            (Some("null"), false),
            (Some(""), false),
        ] {
            assert_eq!(origins.allows(origin), allowed, "{origin:?}");
        }
        assert!(AllowedOrigins::any().allows(Some("https://b.example")));
    }
}
