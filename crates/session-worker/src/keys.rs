//! Keys of records and leases.

use tenure_lease::{Error, Key, Prefix, Result};
use tenure_session::{IdempotencyKey, SessionId, Target};

/// The guard lease: its holder is the only active worker.
pub(crate) const GUARD: &str = "system:orchestrator:guard_lock";
/// The prefix of all session records.
pub(crate) const ROOT: &str = "v3:";
pub(crate) const SESSION: &str = "v3:session:";
pub(crate) const IDEM: &str = "v3:idem:";
pub(crate) const STOP: &str = "v3:stop:";
pub(crate) const SEEN: &str = "v3:seen:";
pub(crate) const SERVICE: &str = "lease:service:";
pub(crate) const RECORDING: &str = "lease:recording:";
pub(crate) const TUNER: &str = "lease:tuner:";
/// The leases that a worker may leave held when it ends.
pub(crate) const WIPED_PREFIXES: [&str; 3] = [SERVICE, RECORDING, TUNER];

pub(crate) fn session(id: &SessionId) -> Result<Key> {
    Key::new(format!("{SESSION}{id}"))
}

pub(crate) fn idem(key: &IdempotencyKey) -> Result<Key> {
    Key::new(format!("{IDEM}{key}"))
}

pub(crate) fn stop(id: &SessionId) -> Result<Key> {
    Key::new(format!("{STOP}{id}"))
}

pub(crate) fn seen(id: &SessionId) -> Result<Key> {
    Key::new(format!("{SEEN}{id}"))
}

/// The lease that allows one session per channel, or per second of a recording.
pub(crate) fn dedup(target: &Target) -> Result<Key> {
    match target {
        Target::Live(service_ref) => Key::new(format!("{SERVICE}{service_ref}")),
        Target::Recording { id, .. } => Key::new(format!("{RECORDING}{id}:{}", target.bucket())),
    }
}

pub(crate) fn prefix(text: &str) -> Result<Prefix> {
    Prefix::new(text)
}

/// The session id in a key under `prefix`.
pub(crate) fn id_in(key: &Key, prefix: &str) -> Option<SessionId> {
    SessionId::new(key.as_str().strip_prefix(prefix)?).ok()
}

/// The slot in the key of a tuner lease.
pub(crate) fn slot_in(key: &Key) -> Option<u32> {
    key.as_str().strip_prefix(TUNER)?.parse().ok()
}

/// The holder of a session's leases: its id.
pub(crate) fn holder(id: &SessionId) -> Result<tenure_lease::Holder, Error> {
    tenure_lease::Holder::new(id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_keys_name_the_channel_recording_or_tuner() {
        let live = Target::new(Some("1:0:1:445D:453:1:C00000:0:0:0:"), None, None).unwrap();
        assert_eq!(dedup(&live).unwrap().as_str(), "lease:service:1:0:1:445D:453:1:C00000:0:0:0:");
        let recording = Target::new(None, Some("rec-1"), Some(60_500)).unwrap();
        assert_eq!(dedup(&recording).unwrap().as_str(), "lease:recording:rec-1:60");
        let longest =
            Target::new(Some(&"x".repeat(tenure_session::limits::SERVICE_REF)), None, None).unwrap();
        assert!(dedup(&longest).is_ok());
        assert_eq!(slot_in(&Key::new("lease:tuner:3").unwrap()), Some(3));
        assert_eq!(slot_in(&Key::new("lease:tuner:x").unwrap()), None);
    }
}
