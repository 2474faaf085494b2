//! Wishes to watch.

use session::{Secret, Secrets};

/// Any body is a wish or refused.
pub(crate) fn intents(data: &[u8]) {
    let secret = |text: &str| Secret::new(text).expect("it is not empty");
    session_api::fuzzing::intents(data, &Secrets { current: secret("new"), previous: Some(secret("old")) });
}
