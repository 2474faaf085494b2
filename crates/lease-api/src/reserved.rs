//! Keys that belong to Tenure's own services.

use tenure_lease::{Busy, BusyReason, Key, Phase, Status};
use tenure_service::{Code, Problem};

/// The prefixes of such keys.
const PREFIXES: [&str; 11] =
    ["control:", "gc:", "meeting:", "mc:", "mh:", "poll:", "session:", "v3:", "lease:", "system:", "tenure:"];

/// Whether a key belongs to a service.
pub(crate) fn is_reserved(key: &Key) -> bool {
    PREFIXES.iter().any(|prefix| key.as_str().starts_with(prefix))
}

/// Removes the holder from the status of a key that is held without a lease: on Redis the string of another program counts
/// as a holder, and it may be a secret.
pub(crate) fn redact(mut status: Status) -> Status {
    if status.phase == Phase::Held && status.since.is_none() {
        status.holder = None;
    }
    status
}

/// Removes the holder from the answer to a claim on such a key, or on one with a record.
pub(crate) fn redact_busy(mut busy: Busy) -> Busy {
    if busy.reason == BusyReason::Foreign {
        busy.holder = None;
    }
    busy
}

/// Refuses a key that belongs to a service.
pub(crate) fn check(key: &Key) -> Result<(), Problem> {
    if !is_reserved(key) {
        return Ok(());
    }
    let prefix = key.as_str().split_inclusive(':').next().unwrap_or_default();
    let detail = format!("the prefix {prefix} is reserved for a service of Tenure; choose another key");
    Err(Problem::new(Code::RESERVED_KEY, detail).with("key", key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_prefixes_are_reserved() {
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
            assert_eq!(check(&key).is_err(), reserved, "{text}");
        }
    }
}
