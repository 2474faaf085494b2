//! Names that the door gives: UUIDs of version 7, which sort by the moment they were made.

use session::{CorrelationId, SessionId, UnixMs};

/// A name for a session.
pub(crate) fn session(now: UnixMs) -> session::Result<SessionId> {
    SessionId::new(uuid(now, rand::random()))
}

/// A name for a request whose client gave it none.
pub(crate) fn correlation(now: UnixMs) -> session::Result<CorrelationId> {
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
    fn a_name_has_the_form_of_version_7_whatever_chance_gives() {
        assert_eq!(uuid(UnixMs(0x0198_c0de_77aa), 0), "0198c0de-77aa-7000-8000-000000000000");
        assert_eq!(uuid(UnixMs(0), u128::MAX), "00000000-0000-7fff-bfff-ffffffffffff");
        assert_eq!(uuid(UnixMs(u64::MAX), 0).len(), 36);
    }

    #[test]
    fn later_names_sort_later_and_no_two_are_the_same() {
        let (first, second) = (session(UnixMs(1)).unwrap(), session(UnixMs(2)).unwrap());
        assert!(first < second);
        assert_ne!(session(UnixMs(1)).unwrap(), first);
    }
}
