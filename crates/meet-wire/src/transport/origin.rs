//! The origins of pages that may open sessions. WebTransport has no CORS: the server must check.

use std::sync::Arc;

use parking_lot::Mutex;

/// Refused origins that are remembered.
const REFUSED: usize = 16;

/// A list of origins, such as `https://console.example:8443`. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct AllowedOrigins(Option<Arc<Mutex<Origins>>>);

#[derive(Default, Debug)]
struct Origins {
    allowed: Vec<String>,
    /// Origins that were refused since they were last taken.
    refused: Vec<String>,
}

impl AllowedOrigins {
    /// Pages of these origins may connect.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        let origins = Origins { allowed: origins.into_iter().collect(), refused: Vec::new() };
        Self(Some(Arc::new(Mutex::new(origins))))
    }

    /// Every page may connect.
    pub const fn any() -> Self {
        Self(None)
    }

    /// Replaces the list.
    pub fn replace(&self, allowed: Vec<String>) {
        if let Some(origins) = &self.0 {
            origins.lock().allowed = allowed;
        }
    }

    /// Takes the origins that were refused since the last call, for the log.
    pub fn take_refused(&self) -> Vec<String> {
        self.0.as_ref().map(|origins| std::mem::take(&mut origins.lock().refused)).unwrap_or_default()
    }

    /// Whether a connect request with this origin is allowed. Native clients may omit it; browsers cannot.
    pub fn allows(&self, origin: Option<&str>) -> bool {
        let (Some(origins), Some(origin)) = (&self.0, origin) else { return true };
        let mut origins = origins.lock();
        let allowed = origins.allowed.iter().any(|allowed| allowed == origin);
        let known = origins.refused.iter().any(|refused| refused == origin);
        if !allowed && !known && origins.refused.len() < REFUSED {
            origins.refused.push(origin.to_owned());
        }
        allowed
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
        let refused = ["https://a.example:444", "https://a.example.evil", "null", ""];
        assert_eq!(
            (origins.take_refused(), origins.take_refused().len()),
            (refused.map(str::to_owned).into(), 0)
        );
        origins.clone().replace(vec!["https://b.example".to_owned()]);
        assert!(origins.allows(Some("https://b.example")) && !origins.allows(Some("https://a.example")));
        assert!(AllowedOrigins::any().allows(Some("https://b.example")));
    }
}
