//! Words of a server that errors hold for ever.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Most words that are kept, whatever servers say.
const MOST: usize = 256;
/// Longest word that is kept.
const LONGEST: usize = 64;

/// Errors name parts of a request and engines by static words. A client learns them from its server, which
/// has a few dozen of them; a server that makes up new ones must not fill the client's memory.
struct Words(Mutex<BTreeSet<&'static str>>);

static WORDS: Words = Words(Mutex::new(BTreeSet::new()));

/// The word, kept for the life of the process; `otherwise` when it is too long or one too many.
pub(super) fn keep(word: &str, otherwise: &'static str) -> &'static str {
    WORDS.keep(word, otherwise)
}

impl Words {
    fn keep(&self, word: &str, otherwise: &'static str) -> &'static str {
        let mut words = self.0.lock();
        if let Some(kept) = words.get(word) {
            return kept;
        }
        if word.len() > LONGEST || words.len() >= MOST {
            return otherwise;
        }
        let kept: &'static str = Box::leak(word.into());
        words.insert(kept);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once_and_never_too_many() {
        let words = Words(Mutex::default());
        assert!(std::ptr::eq(words.keep("embedded", "x"), words.keep("embedded", "x")));
        assert_eq!(words.keep(&"w".repeat(LONGEST + 1), "too long"), "too long");
        for number in 0..2 * MOST {
            words.keep(&format!("word {number}"), "one too many");
        }
        assert_eq!(words.keep("yet another", "one too many"), "one too many");
        assert_eq!(words.keep("embedded", "x"), "embedded");
    }
}
