//! The keys in Redis, and the texts that scripts take.

use lease::{Digest, Generation, Key};
use redis::Cmd;

use super::link::Link;
use super::script::Script;

/// The set of lease keys ordered by key.
pub(super) const KEYS: &str = "tenure:keys";
/// The set of lease keys ordered by when time changes them.
pub(super) const INDEX: &str = "tenure:index";
/// The set of record keys ordered by key.
pub(super) const RECORDS: &str = "tenure:rindex";
/// The stream of events.
pub(super) const EVENTS: &str = "tenure:events";
/// The tokens that were given up before they held anything.
pub(super) const TOMBS: &str = "tenure:tombs";

/// One call of a script under construction: first its keys, then its arguments.
pub(super) struct Call {
    cmd: Cmd,
    /// The name of a companion, reused.
    name: String,
    /// An argument of several parts, reused.
    part: Vec<u8>,
}

impl Call {
    /// A call with so many keys.
    pub(super) fn new(script: &Script, keys: usize) -> Self {
        let mut cmd = Cmd::with_capacity(8 + keys * 2, 128 + keys * 96);
        cmd.arg("EVALSHA").arg(&script.sha).arg(keys);
        Self { cmd, name: String::new(), part: Vec::with_capacity(128) }
    }

    /// A call on lease keys, with the server's incarnation. Their companions, and what belongs to the whole store, the
    /// scripts spell themselves.
    pub(super) fn on<'a>(script: &Script, link: &Link, keys: impl ExactSizeIterator<Item = &'a Key>) -> Self {
        Self::by(script, link, keys, b"")
    }

    /// The same, and says which instance asks.
    pub(super) fn by<'a>(
        script: &Script,
        link: &Link,
        keys: impl ExactSizeIterator<Item = &'a Key>,
        instance: &[u8],
    ) -> Self {
        let mut call = Self::new(script, keys.len());
        keys.for_each(|key| call.key(key.as_str()));
        call.head(link, instance);
        call
    }

    /// The argument that describes the server's incarnation and who asks.
    pub(super) fn head(&mut self, link: &Link, instance: &[u8]) {
        self.packed(&[link.incarnation().as_bytes(), instance]);
    }

    /// A key.
    pub(super) fn key(&mut self, key: &str) {
        self.cmd.arg(key);
    }

    /// A companion of a key.
    pub(super) fn companion(&mut self, kind: &str, key: &Key) {
        self.name.clear();
        self.name.push_str(kind);
        self.name.push_str(key.as_str());
        self.cmd.arg(&self.name);
    }

    /// An argument.
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        self.cmd.arg(text.as_ref());
    }

    /// An argument that is a number.
    pub(super) fn number(&mut self, number: u64) {
        self.cmd.arg(number);
    }

    /// An argument that is a number or nothing.
    pub(super) fn maybe(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.text(""),
        }
    }

    /// A padded generation, or nothing.
    pub(super) fn generation(&mut self, generation: Option<Generation>) {
        match generation {
            Some(generation) => self.text(padded(generation)),
            None => self.text(""),
        }
    }

    /// Digest and generation as a held key begins with them.
    pub(super) fn proof(&mut self, generation: Generation, digest: &Digest) {
        self.text(proof(generation, digest));
    }

    /// An argument of several parts.
    pub(super) fn packed(&mut self, parts: &[&[u8]]) {
        self.part.clear();
        parts.iter().for_each(|part| self.part.extend_from_slice(part));
        self.cmd.arg(&self.part[..]);
    }

    /// The finished call.
    pub(super) fn done(self) -> Cmd {
        self.cmd
    }
}

/// Digest and generation as a held key begins with them.
pub(super) fn proof(generation: Generation, digest: &Digest) -> [u8; 49] {
    let mut text = [b'h'; 49];
    text[1..33].copy_from_slice(digest.as_bytes());
    text[33..].copy_from_slice(&padded(generation));
    text
}

/// Digest and generation as a renewal names its reign: half of the digest, and the generation in seven bytes.
pub(super) fn mark(generation: Generation, digest: &Digest) -> [u8; 23] {
    let mut bytes = [0; 23];
    bytes[..16].copy_from_slice(&digest.as_bytes()[16..]);
    bytes[16..].copy_from_slice(&generation.get().to_be_bytes()[1..]);
    bytes
}

/// A generation as 16 digits.
pub(super) fn padded(generation: Generation) -> [u8; 16] {
    digits(generation.get())
}

/// A number in decimal, padded with zeros to a fixed length.
pub(super) fn digits<const N: usize>(mut rest: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use lease::Token;

    use super::*;

    #[test]
    fn a_generation_is_padded_to_sixteen_digits() {
        assert_eq!(&padded(Generation::new(42).unwrap()), b"0000000000000042");
        assert_eq!(&padded(Generation::new((1 << 53) - 1).unwrap()), b"9007199254740991");
    }

    #[test]
    fn a_mark_ends_with_every_bit_that_a_generation_can_have() {
        let digest = *Token::parse("0123456789abcdef0123456789abcdef").unwrap().digest();
        let mark = mark(Generation::new((1 << 53) - 1).unwrap(), &digest);
        assert_eq!(mark[..16], digest.as_bytes()[16..]);
        assert_eq!(mark[16..], [0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }
}
