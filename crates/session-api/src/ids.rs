//! Generated ids: UUIDs of version 7, which sort by creation time.

use tenure_session::{CorrelationId, SessionId, UnixMs};

/// Generates a session id.
pub(crate) fn session(now: UnixMs) -> tenure_session::Result<SessionId> {
    SessionId::new(uuid(now, rand::random()))
}

/// Generates a correlation id for a request without one.
pub(crate) fn correlation(now: UnixMs) -> tenure_session::Result<CorrelationId> {
    CorrelationId::new(uuid(now, rand::random()))
}

fn uuid(now: UnixMs, chance: u128) -> String {
    let version = 7 << 76;
    let variant = 0b10 << 62;
    let kept = !(0xffff_ffff_ffff << 80 | 0xf << 76 | 0b11 << 62);
    let value = u128::from(now.0 & 0xffff_ffff_ffff) << 80 | version | variant | chance & kept;
    let hex = format!("{value:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_uuid_version_7_format() {
        assert_eq!(uuid(UnixMs(0x0198_c0de_77aa), 0), "0198c0de-77aa-7000-8000-000000000000");
        assert_eq!(uuid(UnixMs(0), u128::MAX), "00000000-0000-7fff-bfff-ffffffffffff");
        assert_eq!(uuid(UnixMs(u64::MAX), 0).len(), 36);
    }

    #[test]
    fn ids_sort_by_time_and_are_unique() {
        let (first, second) = (session(UnixMs(1)).unwrap(), session(UnixMs(2)).unwrap());
        assert!(first < second);
        assert_ne!(session(UnixMs(1)).unwrap(), first);
    }
}
