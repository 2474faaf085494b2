//! One meaning per name, one name per meaning: words that have a conventional replacement, and type names of the
//! glossary that may be defined only once.
use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::source::is_word;
use crate::tidy::tree::Tree;

/// Words that are not used, with what to write instead. Written in pieces, so that this file does not use them.
const REPLACED: [(&str, &str); 13] = [
    (concat!("hei", "r"), "successor"),
    (concat!("hei", "rs"), "successors"),
    (concat!("who", "ever"), "a caller that, a client that, the process that"),
    (concat!("some", "body"), "a caller, a client, another holder"),
    (concat!("no", "body"), "no client, no holder"),
    (concat!("every", "body"), "all clients, each subscriber"),
    (concat!("is to", "ld"), "is notified, receives"),
    (concat!("are to", "ld"), "are notified, receive"),
    (concat!("Convo", "y"), "ConnectionExecutor"),
    (concat!("wi", "sh"), "intent, request"),
    (concat!("wi", "shes"), "intents, requests"),
    (concat!("pi", "le"), "batch"),
    (concat!("the do", "or"), "the API, the listener"),
];
/// Type names that say nothing about what the type is.
const VAGUE: [&str; 9] = [
    concat!("De", "sk"),
    concat!("Hou", "se"),
    concat!("Si", "te"),
    concat!("Tro", "uble"),
    concat!("Bro", "ken"),
    concat!("Lo", "ok"),
    concat!("To", "ld"),
    concat!("As", "ked"),
    concat!("Do", "or"),
];
/// Terms of the glossary in ARCHITECTURE.md that are types: shipped code defines each of them once.
const DEFINED_ONCE: [&str; 14] = [
    "Bundle",
    "Claim",
    "Deadline",
    "Fence",
    "Generation",
    "Guard",
    "Handoff",
    "Holder",
    "Keeper",
    "Lease",
    "Permit",
    "Placement",
    "Reign",
    "Roster",
];
const KEYWORDS: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

/// Replaced words, vague type names, and glossary types with a second definition.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_written_by_us(path)) {
        for (index, line) in text.lines().enumerate() {
            violations.extend(replaced(line).map(|message| Violation::new(path, index + 1, message)));
        }
    }
    let mut definitions: BTreeMap<&str, (String, usize)> = BTreeMap::new();
    for (path, source) in tree.sources() {
        for (line, code) in source.product_lines() {
            let Some(name) = defined_type(code) else { continue };
            if VAGUE.contains(&name) {
                let message = format!("`{name}` does not say what the type is; use the noun of the field");
                violations.push(Violation::new(path, line, message));
            }
            let Some(term) = DEFINED_ONCE.iter().find(|term| **term == name) else { continue };
            if tree.is_test(path) || !path.starts_with("crates/") {
                continue;
            }
            let first = definitions.entry(term).or_insert_with(|| (path.to_owned(), line));
            if (first.0.as_str(), first.1) != (path, line) {
                let message = format!("`{name}` is a term of the glossary and is defined in {}", first.0);
                violations.push(Violation::new(path, line, message));
            }
        }
    }
    violations
}

/// Files whose words are ours: neither licenses nor third-party code.
fn is_written_by_us(path: &str) -> bool {
    let ours = [".rs", ".md", ".lua", ".js", ".mjs", ".html", ".css", ".proto", ".toml", ".yaml", ".yml"];
    ours.iter().any(|end| path.ends_with(end)) && !path.contains("hls.")
}

fn replaced(line: &str) -> impl Iterator<Item = String> {
    let lower = line.to_lowercase();
    REPLACED.iter().filter_map(move |(word, instead)| {
        let (text, word) =
            if word.starts_with(char::is_uppercase) { (line, *word) } else { (lower.as_str(), *word) };
        let found = text.match_indices(word).any(|(at, _)| is_word(text, at, word.len()));
        found.then(|| format!("`{word}` is not a word we use; write: {instead}"))
    })
}

/// The name of the type that a line of code defines.
fn defined_type(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let code = code.strip_prefix("pub").map_or(code, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let rest = KEYWORDS.iter().find_map(|keyword| code.strip_prefix(keyword))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn replaced_words_are_found_in_prose_and_code() {
        let found = shown(&[
            ("docs/a.md", concat!("The hei", "r waits.\n")),
            ("crates/a/src/lib.rs", concat!("/// Who", "ever asks.\nfn f() {}\n")),
            ("notes.txt", concat!("hei", "r\n")),
            ("docs/b.md", "Their own tissue.\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:1: "), "{found:#?}");
        assert!(found[1].ends_with("write: successor"), "{found:#?}");
    }

    #[test]
    fn vague_type_names_are_found() {
        let code = concat!("pub(crate) struct De", "sk;\npub struct DeskLamp;\nenum Kind {}\n");
        let found = shown(&[("crates/a/src/lib.rs", code)]);
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn a_glossary_type_is_defined_once() {
        let found = shown(&[
            ("crates/a/src/lib.rs", "pub struct Guard {}\n"),
            ("crates/b/src/lib.rs", "pub(crate) enum Guard {}\npub struct Guarded;\n"),
            ("crates/b/tests/it/main.rs", "struct Guard;\n"),
        ]);
        assert_eq!(
            found,
            [
                "crates/b/src/lib.rs:1: `Guard` is a term of the glossary and is defined in crates/a/src/lib.rs"
            ]
        );
    }
}
