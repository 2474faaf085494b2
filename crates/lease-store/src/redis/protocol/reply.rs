//! Reading the elements of replies.

use std::time::Duration;

use redis::Value;
use tenure_lease::{Generation, Holder, Result, Revision, Ttl, limits};

use super::header::ReplyShape;
use crate::redis::fault::unexpected_reply;

/// A reply whose elements are read by name.
pub(super) struct Fields<'a> {
    pub(super) shape: &'a ReplyShape,
    pub(super) values: &'a [Value],
}

impl<'a> Fields<'a> {
    /// The first element.
    pub(super) fn tag(&self) -> &'a str {
        &self.shape.tag
    }

    fn value(&self, name: &str) -> Result<&'a Value> {
        let index = self.shape.fields.iter().position(|field| field == name);
        let value = index.and_then(|index| self.values.get(index));
        value.ok_or_else(|| unexpected_reply(&format!("{} without {name}", self.shape.tag)))
    }

    /// The elements after the named ones.
    pub(super) fn list(&self) -> &'a [Value] {
        self.values.get(self.shape.fields.len()..).unwrap_or_default()
    }

    pub(super) fn bytes(&self, name: &str) -> Result<&'a [u8]> {
        bytes(self.value(name)?)
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str> {
        text(self.value(name)?)
    }

    pub(super) fn int(&self, name: &str) -> Result<i64> {
        int(self.value(name)?)
    }

    pub(super) fn count(&self, name: &str) -> Result<usize> {
        usize::try_from(self.int(name)?).map_err(|_| unexpected_reply(&format!("negative {name}")))
    }

    pub(super) fn generation(&self, name: &str) -> Result<Generation> {
        minted(self.text(name)?)
    }

    pub(super) fn ttl(&self, name: &str) -> Result<Ttl> {
        Ttl::from_millis(self.count(name)? as u64)
    }
}

/// The elements of an array.
pub(in crate::redis) fn elements(value: &Value) -> Result<&[Value]> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(&[]),
        other => Err(unexpected_reply(&format!("{other:?}"))),
    }
}

/// The elements of a reply to `count` items.
pub(in crate::redis) fn exactly(value: &Value, count: usize) -> Result<&[Value]> {
    let items = elements(value)?;
    match items.len() == count {
        true => Ok(items),
        false => Err(unexpected_reply(&format!("{} replies to {count} items", items.len()))),
    }
}

/// The bytes of a text.
pub(in crate::redis) fn bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.as_bytes()),
        other => Err(unexpected_reply(&format!("{other:?}"))),
    }
}

/// A text.
pub(in crate::redis) fn text(value: &Value) -> Result<&str> {
    std::str::from_utf8(bytes(value)?).map_err(|_| unexpected_reply("invalid UTF-8"))
}

/// A whole number, as such or as text.
pub(in crate::redis) fn int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        other => text(other)?.parse().map_err(|_| unexpected_reply("not a number")),
    }
}

/// A generation in decimal; nothing and zero are none.
pub(in crate::redis) fn generation(digits: &str) -> Option<Generation> {
    digits.parse().ok().and_then(|number| Generation::new(number).ok())
}

/// A generation that must be there.
pub(in crate::redis) fn minted(digits: &str) -> Result<Generation> {
    generation(digits).ok_or_else(|| unexpected_reply(&format!("invalid generation {digits:?}")))
}

/// A revision in decimal.
pub(in crate::redis) fn revision(digits: &str) -> Result<Revision> {
    digits.parse().map(Revision::new).map_err(|_| unexpected_reply("not a revision"))
}

/// The rest of a TTL in milliseconds; negative is without end.
pub(super) fn remaining(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// A holder that a script stored.
pub(super) fn holder(raw: &[u8]) -> Result<Holder> {
    let name = std::str::from_utf8(raw).ok().and_then(|name| Holder::new(name).ok());
    name.ok_or_else(|| unexpected_reply("not a holder"))
}

/// A holder from the value of a key that any program may have written: `?` stands for each byte that cannot be part
/// of a name.
pub(super) fn any_holder(raw: &[u8]) -> Option<Holder> {
    let printable = |b: &u8| if b.is_ascii_graphic() { char::from(*b) } else { '?' };
    let name: String = raw.iter().take(limits::HOLDER).map(printable).collect();
    Holder::new(if name.is_empty() { "?" } else { &name }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_value_becomes_a_holder() {
        for (raw, name) in
            [(&b"node-1"[..], "node-1"), (b"two words\n", "two?words?"), (b"", "?"), (b"\xff", "?")]
        {
            assert_eq!(any_holder(raw).unwrap().as_str(), name);
        }
        assert_eq!(any_holder(&[b'x'; 900]).unwrap().as_str().len(), 128);
    }
}
