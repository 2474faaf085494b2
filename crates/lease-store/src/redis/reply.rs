//! Reading what scripts answer.

use std::time::Duration;

use lease::{Busy, Generation, Holder, Reason, Result, Revision, limits};
use redis::Value;

use super::fault::strange;

/// The elements of an answer.
pub(super) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        other => Err(strange(&format!("{other:?}"))),
    }
}

/// The elements of an answer to `count` requests.
pub(super) fn exactly(value: Value, count: usize) -> Result<Vec<Value>> {
    let items = array(value)?;
    match items.len() == count {
        true => Ok(items),
        false => Err(strange(&format!("{} answers to {count} requests", items.len()))),
    }
}

/// The bytes of a text.
pub(super) fn bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.as_bytes()),
        other => Err(strange(&format!("{other:?}"))),
    }
}

/// A text.
pub(super) fn text(value: &Value) -> Result<&str> {
    std::str::from_utf8(bytes(value)?).map_err(|_| strange("not a text"))
}

/// A whole number, as such or as text.
pub(super) fn int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        other => text(other)?.parse().map_err(|_| strange("not a number")),
    }
}

/// A generation in decimal, padded or not; zero and nothing are none.
pub(super) fn generation(digits: &str) -> Option<Generation> {
    digits.parse().ok().and_then(|number| Generation::new(number).ok())
}

/// A generation that must be there.
pub(super) fn minted(digits: &str) -> Result<Generation> {
    generation(digits).ok_or_else(|| strange(&format!("{digits:?} is no generation")))
}

/// A revision in decimal.
pub(super) fn revision(digits: &str) -> Result<Revision> {
    digits.parse().map(Revision::new).map_err(|_| strange("not a revision"))
}

/// What is left, in milliseconds; negative is without end.
pub(super) fn left(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// A holder that a script kept.
pub(super) fn holder(raw: &[u8]) -> Result<Holder> {
    std::str::from_utf8(raw)
        .ok()
        .and_then(|name| Holder::new(name).ok())
        .ok_or_else(|| strange("not a holder"))
}

/// The name of whatever stands in a key. What something else wrote need not be a name: then what is printable
/// of it, and `?` for each byte that is not.
pub(super) fn stranger(raw: &[u8]) -> Option<Holder> {
    let shown: String = raw
        .iter()
        .take(limits::HOLDER)
        .map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '?' })
        .collect();
    Holder::new(if shown.is_empty() { "?" } else { &shown }).ok()
}

/// `reason last remaining position holder`
pub(super) fn busy(raw: &[u8]) -> Result<Busy> {
    let mut parts = raw.splitn(5, |b| *b == b' ');
    let mut word = || parts.next().and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default();
    let reason = Reason::parse(word()).ok_or_else(|| strange("not a reason"))?;
    let generation = generation(word());
    let remaining = word().parse().ok().and_then(left);
    let position = word().parse().map_err(|_| strange("not a place in the queue"))?;
    let holder = match parts.next() {
        _ if matches!(reason, Reason::Delayed | Reason::Quarantine) => None,
        None | Some([]) if reason != Reason::Foreign => None,
        raw => stranger(raw.unwrap_or_default()),
    };
    Ok(Busy { holder, generation, remaining, position, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_s_value_is_shown_as_a_name() {
        for (raw, name) in
            [(&b"node-1"[..], "node-1"), (b"two words\n", "two?words?"), (b"", "?"), (b"\xff", "?")]
        {
            assert_eq!(stranger(raw).unwrap().as_str(), name);
        }
        assert_eq!(stranger(&[b'x'; 900]).unwrap().as_str().len(), 128);
    }

    #[test]
    fn busy_says_who_and_how_long() {
        let b = busy(b"held 0000000000000012 750 3 node-1").unwrap();
        assert_eq!((b.reason, b.position, b.remaining), (Reason::Held, 3, Some(Duration::from_millis(750))));
        assert_eq!((b.generation.unwrap().get(), b.holder.unwrap().as_str()), (12, "node-1"));
        let b = busy(b"quarantine 0 9000 1 ").unwrap();
        assert_eq!((b.reason, b.holder, b.generation), (Reason::Quarantine, None, None));
        assert_eq!(busy(b"foreign 0 -1 1 a b").unwrap().holder.unwrap().as_str(), "a?b");
    }
}
