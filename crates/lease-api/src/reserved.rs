//! Keys that belong to Tenure's own services.

use lease::{Key, Phase, Status};
use service::{Code, Problem};

/// What such keys begin with.
const PREFIXES: [&str; 11] =
    ["control:", "gc:", "meeting:", "mc:", "mh:", "poll:", "session:", "v3:", "lease:", "system:", "tenure:"];

/// Whether a key belongs to a service.
pub(crate) fn is_reserved(key: &Key) -> bool {
    PREFIXES.iter().any(|prefix| key.as_str().starts_with(prefix))
}

/// Takes away what is under such a key if that is no lease: on Redis every text has a holder, and this one may be a secret.
pub(crate) fn hide(mut status: Status) -> Status {
    if is_reserved(&status.key) && status.phase == Phase::Held && status.since.is_none() {
        status.holder = None;
    }
    status
}

/// Refuses a key that belongs to a service.
pub(crate) fn refuse(key: &Key) -> Result<(), Problem> {
    if !is_reserved(key) {
        return Ok(());
    }
    let word = key.as_str().split_inclusive(':').next().unwrap_or_default();
    let detail = format!("keys that begin with {word} belong to a service of Tenure; choose another name");
    Err(Problem::new(Code::RESERVED_KEY, detail).with("key", key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_prefixes_are_reserved() {
        for (text, reserved) in [
            ("control:device", true),
            ("v3:lease:tuner", true),
            ("tenure:x", true),
            ("controls", false),
            ("my:control:device", false),
            ("mcx:1", false),
        ] {
            let key = Key::new(text).unwrap();
            assert_eq!(is_reserved(&key), reserved, "{text}");
            assert_eq!(refuse(&key).is_err(), reserved, "{text}");
        }
    }
}
