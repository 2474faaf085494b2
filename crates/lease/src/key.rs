//! Keys and prefixes of keys.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::{Error, limits};

/// The name of a resource that can be owned: 1 to 256 bytes of printable ASCII without spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The beginning of keys: 0 to 256 bytes of printable ASCII without spaces. Empty matches every key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Prefix(Arc<str>);

impl Key {
    /// Validates a key.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(Error::invalid("key", "must not be empty"));
        }
        check("key", text)?;
        Ok(Self(Arc::from(text)))
    }

    /// The key of a numbered child, as in `tuner/3`.
    pub fn child(&self, part: impl fmt::Display) -> Result<Self, Error> {
        Self::new(format!("{}/{part}", self.0))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the key begins with `prefix`.
    pub fn starts_with(&self, prefix: &Prefix) -> bool {
        self.0.starts_with(&*prefix.0)
    }

    /// Whether the key begins with one of `prefixes`.
    pub fn starts_with_any(&self, prefixes: &[Prefix]) -> bool {
        prefixes.iter().any(|prefix| self.starts_with(prefix))
    }
}

impl Prefix {
    /// Validates a prefix.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        check("prefix", text)?;
        Ok(Self(Arc::from(text)))
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The longest common prefix; empty when there are none.
    pub fn common(prefixes: &[Self]) -> Self {
        let Some((first, others)) = prefixes.split_first() else { return Self::default() };
        // Prefixes are ASCII: every byte index is a character boundary.
        let same = |other: &Self| first.0.bytes().zip(other.0.bytes()).take_while(|(a, b)| a == b).count();
        let length = others.iter().map(same).min().unwrap_or(first.0.len());
        Self(Arc::from(first.0.get(..length).unwrap_or_default()))
    }
}

fn check(what: &'static str, text: &str) -> Result<(), Error> {
    if text.len() > limits::KEY {
        return Err(Error::invalid(
            what,
            format!("{} bytes; at most {} are allowed", text.len(), limits::KEY),
        ));
    }
    match text.bytes().find(|b| !b.is_ascii_graphic()) {
        Some(b) => Err(Error::invalid(what, format!("byte 0x{b:02x} is not printable ASCII without spaces"))),
        None => Ok(()),
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}*", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printable_ascii_of_bounded_length() {
        for good in ["a", "tuner/3", "1:0:19:283D:3FB:1:C00000:0:0:0:", &"k".repeat(256)] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\n", "ä", "a\0", &"k".repeat(257)] {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_empty_prefix_matches_every_key() {
        let key = Key::new("tuner/3").unwrap();
        assert!(key.starts_with(&Prefix::default()));
        assert!(key.starts_with(&Prefix::new("tuner/").unwrap()));
        assert!(!key.starts_with(&Prefix::new("tuner/4").unwrap()));
    }

    #[test]
    fn the_common_prefix_is_the_longest_shared_beginning() {
        let common = |texts: &[&str]| {
            let prefixes: Vec<_> = texts.iter().map(|text| Prefix::new(text).unwrap()).collect();
            Prefix::common(&prefixes).as_str().to_owned()
        };
        assert_eq!(common(&[]), "");
        assert_eq!(common(&["poll:lease:"]), "poll:lease:");
        assert_eq!(common(&["poll:lease:", "poll:log:", "poll:l"]), "poll:l");
        assert_eq!(common(&["poll:", "session:"]), "");
    }
}
