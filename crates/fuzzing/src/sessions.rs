//! Intents.

use tenure_session::{Secret, Secrets};

/// Any body is parsed or rejected.
pub(crate) fn intents(data: &[u8]) {
    let secret = |text: &str| Secret::new(text).expect("it is not empty");
    tenure_session_api::fuzzing::intents(
        data,
        &Secrets { current: secret("new"), previous: Some(secret("old")) },
    );
}
