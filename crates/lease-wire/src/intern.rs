//! Static strings for names that a server sends.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Most names that are interned, whatever servers send.
const MAX_NAMES: usize = 256;
/// Longest name that is interned.
const MAX_NAME_BYTES: usize = 64;

/// Errors name request fields and engines by static strings. A client receives them from its server, which has a few
/// dozen; a server that invents new ones must not fill the client's memory.
struct Names(Mutex<BTreeSet<&'static str>>);

static NAMES: Names = Names(Mutex::new(BTreeSet::new()));

/// The name for the life of the process; `fallback` when it is too long or there are too many.
pub(crate) fn intern(name: &str, fallback: &'static str) -> &'static str {
    NAMES.intern(name, fallback)
}

impl Names {
    fn intern(&self, name: &str, fallback: &'static str) -> &'static str {
        let mut names = self.0.lock();
        if let Some(known) = names.get(name) {
            return known;
        }
        if name.len() > MAX_NAME_BYTES || names.len() >= MAX_NAMES {
            return fallback;
        }
        let kept: &'static str = Box::leak(name.into());
        names.insert(kept);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_interned_once_and_their_number_is_bounded() {
        let names = Names(Mutex::default());
        assert!(std::ptr::eq(names.intern("embedded", "x"), names.intern("embedded", "x")));
        assert_eq!(names.intern(&"w".repeat(MAX_NAME_BYTES + 1), "too long"), "too long");
        for number in 0..2 * MAX_NAMES {
            names.intern(&format!("name {number}"), "one too many");
        }
        assert_eq!(names.intern("yet another", "one too many"), "one too many");
        assert_eq!(names.intern("embedded", "x"), "embedded");
    }
}
