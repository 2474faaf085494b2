//! Ids in their wire form.

use std::fmt;

use tenure_lease::{Entropy, Wall};

use crate::limits;

/// A UUIDv7 of a participant, correlation or meeting. Ids sort by creation time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 16]);

/// A meeting id: 1 to 64 letters, digits, `-` and `_`, so that it is valid in a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeetingId(String);

impl Id {
    /// Generates an id for this time.
    pub fn new(now: Wall, entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes[6..]);
        bytes[..6].copy_from_slice(&now.as_millis().to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(bytes)
    }

    /// Parses the canonical form: 36 characters, lowercase.
    pub fn parse(text: &str) -> Option<Self> {
        let raw = text.as_bytes();
        let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        if raw.len() != 36 || !raw.iter().enumerate().all(|(at, byte)| dash(at) == (*byte == b'-')) {
            return None;
        }
        let mut bytes = [0; 16];
        let mut digits = raw.iter().filter(|byte| **byte != b'-').map(|byte| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        });
        for byte in &mut bytes {
            *byte = digits.next()?? << 4 | digits.next()??;
        }
        Some(Self(bytes))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl MeetingId {
    /// Validates and wraps an id.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let good = (1..=limits::MEETING_ID).contains(&text.len()) && text.bytes().all(plain);
        good.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MeetingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same(u8);

    impl Entropy for Same {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn an_id_is_a_uuid_v7_and_sorts_by_time() {
        let early = Id::new(Wall::from_micros(1_700_000_000_000_000), &Same(0xff));
        assert_eq!(early.to_string(), "018bcfe5-6800-7fff-bfff-ffffffffffff");
        let late = Id::new(Wall::from_micros(1_700_000_000_001_000), &Same(0));
        assert_eq!(late.to_string(), "018bcfe5-6801-7000-8000-000000000000");
        assert!(early < late);
        assert_eq!(Id::parse(&early.to_string()), Some(early));
    }

    #[test]
    fn only_the_canonical_form_of_an_id_is_accepted() {
        for bad in [
            "",
            "018BCFE5-6800-7fff-bfff-ffffffffffff",
            "018bcfe568007fffbfffffffffffffff",
            "018bcfe5-6800-7fff-bfff-fffffffffff",
            "018bcfe5-6800-7fff-bfff-fffffffffffg",
            "{18bcfe5-6800-7fff-bfff-ffffffffffff",
            "018bcfe5-6800-7fff-bfff-fffffffffff\u{e9}",
        ] {
            assert_eq!(Id::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_meeting_id_is_valid_in_a_key() {
        for good in ["a", "Abc-9_z", &"m".repeat(64)] {
            assert_eq!(MeetingId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a:b", "a/b", "ä", &"m".repeat(65)] {
            assert_eq!(MeetingId::parse(bad), None, "{bad:?}");
        }
    }
}
