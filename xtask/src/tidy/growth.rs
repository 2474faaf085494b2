//! Files and functions stay small. One that is too long is listed manually with its length in
//! `xtask/ratchet.txt`, where a reviewer sees it, and from then on may only shrink.
use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// The file with the recorded lengths.
pub(super) const RATCHET: &str = "xtask/ratchet.txt";
/// Lines of a file outside its test modules.
const FILE: usize = 600;
/// Lines of a file in a `tests` directory or of a test module.
const TEST_FILE: usize = 800;
/// Lines of a function that ships, from `fn` to its closing brace.
const FUNCTION: usize = 70;

const HEADER: &str = "\
# Files and functions over the limits of `cargo xtask tidy`, with their lengths. They may only shrink;
# `cargo xtask tidy --record` lowers these numbers and never raises or adds one.
# file LINES PATH
# fn LINES PATH::NAME
";

/// A file or a function that is over its limit.
#[derive(Debug, PartialEq)]
struct Excess {
    path: String,
    line: usize,
    lines: usize,
    limit: usize,
}

/// Items that grew, items over a limit without a record, and outdated records.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let excesses = excesses(tree);
    let mut violations = Vec::new();
    let mut recorded = BTreeMap::new();
    for (number, line) in
        tree.text(RATCHET).unwrap_or_default().lines().enumerate().map(|(i, line)| (i + 1, line))
    {
        match parse(line) {
            Some((key, lines)) => {
                if recorded.insert(key.clone(), lines).is_some() {
                    violations.push(Violation::new(RATCHET, number, format!("`{key}` is listed twice")));
                }
                violations.extend(stale(&key, lines, excesses.get(&key), number));
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => violations.push(Violation::new(
                RATCHET,
                number,
                "is neither `file LINES PATH` nor `fn LINES PATH::NAME`",
            )),
        }
    }
    for (key, excess) in &excesses {
        let Excess { path, line, lines, limit } = excess;
        let name = key.split_once("::").map_or_else(|| "the file".into(), |(_, name)| format!("`{name}`"));
        let message = match recorded.get(key) {
            None => format!("{name} has {lines} lines, the limit is {limit}; split it"),
            Some(before) if before < lines => {
                format!("{name} grew from {before} to {lines} lines; it may only shrink")
            }
            Some(_) => continue,
        };
        violations.push(Violation::new(path, *line, message));
    }
    violations
}

fn stale(key: &str, lines: usize, excess: Option<&Excess>, number: usize) -> Option<Violation> {
    let truth = match excess {
        Some(excess) if excess.lines >= lines => return None,
        Some(excess) => format!("has only {} lines", excess.lines),
        None => "is within its limit or does not exist".into(),
    };
    let message = format!("records {lines} lines, but `{key}` {truth}; run `cargo xtask tidy --record`");
    Some(Violation::new(RATCHET, number, message))
}

/// The ratchet file with every number lowered to the actual length, without items within their limits.
pub(super) fn lowered(tree: &Tree) -> String {
    let excesses = excesses(tree);
    let mut text = HEADER.to_owned();
    for (key, lines) in
        tree.text(RATCHET).unwrap_or_default().lines().filter_map(parse).collect::<BTreeMap<_, _>>()
    {
        if let Some(excess) = excesses.get(&key) {
            let kind = if key.contains("::") { "fn" } else { "file" };
            text += &format!("{kind} {} {key}\n", lines.min(excess.lines));
        }
    }
    text
}

/// A record: `file LINES PATH` or `fn LINES PATH::NAME`.
fn parse(line: &str) -> Option<(String, usize)> {
    let mut words = line.split_whitespace();
    let (kind, lines, key) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let fits =
        matches!(kind, "file" | "fn") && (kind == "fn") == key.contains("::") && words.next().is_none();
    fits.then(|| (key.to_owned(), lines))
}

/// Everything over a limit by its key. Functions of one name in one file count as their longest.
fn excesses(tree: &Tree) -> BTreeMap<String, Excess> {
    let mut excesses = BTreeMap::new();
    for (path, source) in tree.sources() {
        // rustfmt skips files with the same marker.
        let generated = tree.text(path).is_some_and(|text| text.starts_with("// @generated"));
        if generated {
            continue;
        }
        let test = tree.is_test(path);
        let (lines, limit) = match test {
            true => (source.code().lines().count(), TEST_FILE),
            false => (source.product_lines().count(), FILE),
        };
        if lines > limit {
            excesses.insert(path.to_owned(), Excess { path: path.to_owned(), line: 1, lines, limit });
        }
        for function in source.functions().iter().filter(|f| !test && !f.in_tests && f.lines > FUNCTION) {
            let key = format!("{path}::{}", function.name);
            let excess =
                Excess { path: path.to_owned(), line: function.line, lines: function.lines, limit: FUNCTION };
            if excesses.get(&key).is_none_or(|other: &Excess| other.lines < excess.lines) {
                excesses.insert(key, excess);
            }
        }
    }
    excesses
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn file(lines: usize) -> String {
        "use x;\n".repeat(lines)
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    fn shown(path: &str, text: &str, ratchet: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text), (RATCHET, ratchet)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(shown(PATH, &file(600), "").is_empty());
        assert_eq!(
            shown(PATH, &file(601), ""),
            ["crates/a/src/lib.rs:1: the file has 601 lines, the limit is 600; split it"]
        );
        assert!(shown(PATH, &function(70), "").is_empty());
        assert_eq!(
            shown(PATH, &format!("\n{}", function(71)), ""),
            ["crates/a/src/lib.rs:2: `f` has 71 lines, the limit is 70; split it"]
        );
        assert!(shown("crates/a/tests/it.rs", &file(800), "").is_empty());
        assert_eq!(shown("crates/a/tests/it.rs", &file(801), "").len(), 1);
    }

    #[test]
    fn test_modules_and_generated_files_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}{}}}\n", file(700), function(80));
        assert!(shown(PATH, &tests, "").is_empty());
        assert!(shown(PATH, &format!("// @generated by a tool\n{}", file(700)), "").is_empty());
    }

    #[test]
    fn a_record_allows_its_number_and_no_more() {
        let record = "# why\nfile 650 crates/a/src/lib.rs\n";
        assert!(shown(PATH, &file(650), record).is_empty());
        assert_eq!(
            shown(PATH, &file(651), record),
            ["crates/a/src/lib.rs:1: the file grew from 650 to 651 lines; it may only shrink"]
        );
        assert!(shown(PATH, &function(90), "fn 90 crates/a/src/lib.rs::f\n").is_empty());
        assert_eq!(shown(PATH, &function(91), "fn 90 crates/a/src/lib.rs::f\n").len(), 1);
    }

    #[test]
    fn a_record_above_the_truth_is_a_violation() {
        let record = "file 650 crates/a/src/lib.rs\n";
        for lines in [640, 600] {
            let shown = shown(PATH, &file(lines), record);
            assert_eq!(shown.len(), 1);
            assert!(shown[0].starts_with("xtask/ratchet.txt:1: records 650 lines"), "{shown:?}");
        }
    }

    #[test]
    fn a_broken_or_repeated_record_is_a_violation() {
        assert_eq!(shown(PATH, "", "file many crates/a/src/lib.rs\n").len(), 1);
        let twice = "file 650 crates/a/src/lib.rs\n".repeat(2);
        assert_eq!(
            shown(PATH, &file(650), &twice),
            ["xtask/ratchet.txt:2: `crates/a/src/lib.rs` is listed twice"]
        );
    }

    #[test]
    fn recording_lowers_and_never_raises_or_adds() {
        let ratchet = "file 650 a.rs\nfile 650 b.rs\nfile 650 c.rs\n";
        let tree = Tree::of(&[
            ("a.rs", &file(640)),
            ("b.rs", &file(660)),
            ("c.rs", &file(10)),
            ("d.rs", &file(700)),
            (RATCHET, ratchet),
        ]);
        assert_eq!(lowered(&tree), format!("{HEADER}file 640 a.rs\nfile 650 b.rs\n"));
    }
}
