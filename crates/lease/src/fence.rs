//! Fences: the check where a write lands.

use crate::{Digest, Generation, Key, Token};

/// What a fenced write proves.
#[derive(Clone, Debug)]
pub struct Fence {
    /// The key whose reign allows the write.
    pub key: Key,
    /// The secret of the reign.
    pub token: Token,
    /// The generation held.
    pub generation: Generation,
    /// How strictly to check.
    pub mode: Mode,
}

/// How strictly a fence checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The lease must be live with this generation and token.
    Strict,
    /// No greater generation may have written before; the lease may be over.
    Monotonic,
}

/// The high-water mark that fenced writes leave beside the data, and that a monotonic fence is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HighWaterMark {
    generation: Generation,
    writer: [u8; 16],
}

impl HighWaterMark {
    /// The mark that a write by this reign leaves.
    pub fn new(generation: Generation, writer: &Digest) -> Self {
        Self { generation, writer: writer.short() }
    }

    /// A mark from storage.
    pub const fn from_parts(generation: Generation, writer: [u8; 16]) -> Self {
        Self { generation, writer }
    }

    /// The greatest generation that wrote.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The writer: half of its token's digest.
    pub const fn writer(&self) -> &[u8; 16] {
        &self.writer
    }

    /// The mark to store after a write by `next`, strict or not; `None` when the current one stays.
    pub fn raised(before: Option<&Self>, next: Self) -> Option<Self> {
        before.is_none_or(|b| b.generation <= next.generation && *b != next).then_some(next)
    }

    /// Whether a write by `next` may land on a resource that carries `before`.
    ///
    /// Two writers with one generation would mean that a number was minted twice: refused.
    pub fn admits(before: Option<&Self>, next: &Self) -> bool {
        before.is_none_or(|b| {
            next.generation > b.generation || (next.generation == b.generation && next.writer == b.writer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_admits_only_what_is_not_older() {
        let mark = |generation, writer| {
            HighWaterMark::from_parts(Generation::new(generation).unwrap(), [writer; 16])
        };
        let before = mark(5, 1);
        let table = [
            (mark(6, 2), true),
            (mark(6, 1), true),
            (mark(5, 1), true),
            (mark(5, 2), false),
            (mark(4, 1), false),
        ];
        for (next, admitted) in table {
            assert_eq!(HighWaterMark::admits(Some(&before), &next), admitted, "{next:?}");
        }
        assert!(HighWaterMark::admits(None, &mark(1, 1)));
    }

    #[test]
    fn a_mark_is_raised_and_never_lowered() {
        let mark = |generation| HighWaterMark::from_parts(Generation::new(generation).unwrap(), [1; 16]);
        assert_eq!(HighWaterMark::raised(None, mark(5)), Some(mark(5)));
        assert_eq!(HighWaterMark::raised(Some(&mark(4)), mark(5)), Some(mark(5)));
        assert_eq!(HighWaterMark::raised(Some(&mark(5)), mark(5)), None);
        assert_eq!(HighWaterMark::raised(Some(&mark(6)), mark(5)), None);
    }
}
