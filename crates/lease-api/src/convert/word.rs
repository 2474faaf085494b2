//! Words of a server that errors hold for ever.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Most words that are kept, whatever servers say.
const MOST: usize = 256;
/// Longest word that is kept.
const LONGEST: usize = 64;

static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The word, kept for the life of the process; `otherwise` when it is too long or one too many.
///
/// Errors name parts of a request and engines by static words. A client learns them from its server, which
/// has a few dozen of them; a server that makes up new ones must not fill the client's memory.
pub(super) fn keep(word: &str, otherwise: &'static str) -> &'static str {
    let mut words = WORDS.lock();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_kept_once_and_never_too_many() {
        assert!(std::ptr::eq(keep("embedded", "x"), keep("embedded", "x")));
        assert_eq!(keep(&"w".repeat(LONGEST + 1), "too long"), "too long");
        for number in 0..2 * MOST {
            keep(&format!("word {number}"), "one too many");
        }
        assert_eq!(keep("yet another", "one too many"), "one too many");
        assert_eq!(keep("embedded", "x"), "embedded");
    }
}
