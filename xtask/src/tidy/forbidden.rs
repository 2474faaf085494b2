//! Text that must not be in the repository: paths of one machine, and markers of unfinished work.
use crate::tidy::Violation;
use crate::tidy::source::is_word;
use crate::tidy::tree::Tree;

/// Absolute directories of one machine. Written in pieces, so that this file does not name them.
const MACHINE: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];
/// The directory of home directories; a violation when a name follows.
const HOME: &str = concat!("/ho", "me/");
/// Markers of unfinished work, with their message and whether they must be whole words.
const LATER: [(&str, &str, bool); 4] = [
    (concat!("to", "do!"), "is unfinished code; finish it or return an error", false),
    (concat!("FIX", "ME"), "is unfinished; fix it or open an issue", true),
    (concat!("X", "XX"), "is unfinished; fix it or open an issue", true),
    (concat!("#[", "ignore"), "disables a test; fix it or delete it", false),
];

/// Forbidden words, one violation per line and word.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            violations
                .extend(complaints(line).into_iter().map(|message| Violation::new(path, index + 1, message)));
        }
    }
    violations
}

fn complaints(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for dir in MACHINE {
        if line.match_indices(dir).any(|(at, _)| starts_path(line, at)) {
            found.push(format!("`{dir}` is a path of one machine"));
        }
    }
    let is_user = |at: usize| line[at + HOME.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if line.match_indices(HOME).any(|(at, _)| starts_path(line, at) && is_user(at)) {
        found.push(format!("`{HOME}` and a name is a path of one machine"));
    }
    for (word, why, alone) in LATER {
        if line.match_indices(word).any(|(at, _)| !alone || is_word(line, at, word.len())) {
            found.push(format!("`{word}` {why}"));
        }
    }
    found
}

/// Whether an absolute path starts at `at`, rather than the continuation of one.
fn starts_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.~}*>".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_words_are_found() {
        let lines = [
            concat!("see /ro", "ot/notes"),
            concat!("path = \"/wo", "rk/main\""),
            concat!("cd /ho", "me/ann"),
            concat!("    to", "do!()"),
            concat!("// FIX", "ME later"),
            concat!("# X", "XX: check"),
            concat!("#[", "ignore = \"slow\"]"),
        ];
        for line in lines {
            assert_eq!(complaints(line).len(), 1, "{line}");
        }
        let violations = check(&Tree::of(&[("a.md", &format!("fine\n{}\n", lines[0]))]));
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].path.as_str(), violations[0].line), ("a.md", 2));
    }

    #[test]
    fn near_misses_are_free() {
        for line in [
            concat!("crates/wo", "rk/src"),
            concat!("https://example.org/ho", "me/page"),
            concat!("~/wo", "rk/x"),
            concat!("/ho", "me/<name>"),
            concat!("mktemp /tmp/a.X", "XXXXX"),
            "todo = \"deny\"",
            concat!("FIX", "MES"),
        ] {
            assert_eq!(complaints(line), Vec::<String>::new(), "{line}");
        }
    }
}
