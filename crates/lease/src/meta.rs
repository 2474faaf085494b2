//! Public text of a holder.

use std::fmt;
use std::sync::Arc;

use crate::{Error, limits};

/// Public text that travels with a lease; at most 1 KiB, usually empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Meta(Option<Arc<str>>);

impl Meta {
    /// Validates a text; an empty text is no meta.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        if text.len() > limits::META {
            let why = format!("{} bytes; at most {} are allowed", text.len(), limits::META);
            return Err(Error::invalid("meta", why));
        }
        Ok(Self((!text.is_empty()).then(|| Arc::from(text))))
    }

    /// The text, empty when there is none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_at_most_a_kibibyte() {
        assert!(Meta::new("").unwrap().is_empty());
        assert!(Meta::new("m".repeat(1_024)).is_ok());
        assert!(Meta::new("m".repeat(1_025)).is_err());
    }
}
