//! The owner's name.

use std::fmt;
use std::sync::Arc;

use crate::{Entropy, Error, limits};

/// The name of an owner: 1 to 128 bytes of printable ASCII without spaces, never a secret.
///
/// Ownership is proven by the [`Token`](crate::Token), not by this name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(Arc<str>);

impl Holder {
    /// Validates a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        if text.is_empty() || text.len() > limits::HOLDER {
            return Err(Error::invalid(
                "holder",
                format!("{} bytes; must be 1 to {}", text.len(), limits::HOLDER),
            ));
        }
        match text.bytes().find(|b| !b.is_ascii_graphic()) {
            Some(b) => {
                Err(Error::invalid("holder", format!("byte 0x{b:02x} is not printable ASCII without spaces")))
            }
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// A name that no other process start shares: `name-` and eight random hex digits.
    pub fn unique(name: &str, entropy: &dyn Entropy) -> Result<Self, Error> {
        let mut bytes = [0; 4];
        entropy.fill(&mut bytes);
        Self::new(format!("{name}-{:08x}", u32::from_be_bytes(bytes)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_a_short_printable_name() {
        assert!(Holder::new("host-1731702000-0badcafe").is_ok());
        for bad in ["", "two words", "tab\t", &"h".repeat(129)] {
            assert!(Holder::new(bad).is_err(), "{bad:?}");
        }
    }
}
