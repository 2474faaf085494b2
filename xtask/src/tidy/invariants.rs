//! docs/invariants.md: every invariant is a sentence, a place, a test of the product that exists, a known break that
//! `cargo xtask mutants` switches on, and a metric.
use std::collections::BTreeSet;

use tenure_breaks::Break;

use crate::tidy::Violation;
use crate::tidy::markdown::{row, spans};
use crate::tidy::source::is_word;
use crate::tidy::tree::{Tree, under};

/// The document.
pub(crate) const INVARIANTS: &str = "docs/invariants.md";
const COLUMNS: [&str; 5] = ["id", "sentence", "where enforced", "test", "metric"];
/// Unit tests here read histories that were made by hand: they pass whatever the product does.
const JUDGE: &str = "crates/sim/src";

/// An invariant.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// All cells, the id included.
    pub(crate) cells: Vec<String>,
    /// Its line in the document.
    pub(crate) line: usize,
}

impl Row {
    /// The names of its tests, without the paths to them.
    pub(crate) fn tests(&self) -> Vec<&str> {
        let named = self.cells.get(3).map(|cell| spans(cell)).unwrap_or_default();
        named.into_iter().map(|name| name.rsplit("::").next().unwrap_or(name)).collect()
    }
}

/// The rows of the tables of invariants in a document.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
        let cells = row(text);
        if cells.is_none() && !text.trim_start().starts_with('|') {
            in_table = false;
        }
        let Some(cells) = cells else { continue };
        if cells.iter().map(|cell| cell.to_lowercase()).eq(COLUMNS) {
            in_table = true;
        } else if in_table {
            rows.push(Row { id: cells.first().cloned().unwrap_or_default(), cells, line });
        }
    }
    rows
}

/// Rows that are incomplete, repeat an id, have no known break, or name no test of the product or one that does not
/// exist.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.text(INVARIANTS) else {
        return vec![Violation::new(
            INVARIANTS,
            1,
            "is missing; it says what always holds and which test shows it",
        )];
    };
    let tests = tests(tree);
    let mut violations = Vec::new();
    let mut ids = BTreeSet::new();
    for row in rows(text) {
        let fresh = ids.insert(row.id.clone());
        let troubles = troubles(&row, fresh, tree, &tests);
        violations.extend(troubles.into_iter().map(|message| Violation::new(INVARIANTS, row.line, message)));
    }
    if ids.is_empty() {
        let message = format!("has no rows under the columns {}", COLUMNS.join(" | "));
        violations.push(Violation::new(INVARIANTS, 1, message));
    }
    violations
}

fn troubles(row: &Row, fresh: bool, tree: &Tree, tests: &[Test<'_>]) -> Vec<String> {
    let Row { id, cells, .. } = row;
    let [_, .., test, _] = cells.as_slice() else { return vec!["is no complete row".into()] };
    if cells.len() != COLUMNS.len() {
        return vec![format!("`{id}` has {} cells instead of {}", cells.len(), COLUMNS.len())];
    }
    let mut troubles = Vec::new();
    if !fresh {
        troubles.push(format!("the id `{id}` stands here twice"));
    }
    let empty = cells.iter().zip(COLUMNS).filter(|(cell, _)| cell.is_empty());
    troubles.extend(empty.map(|(_, column)| format!("`{id}` has an empty cell `{column}`")));
    let names = spans(test);
    if names.is_empty() {
        troubles.push(format!("`{id}` names no test in backticks"));
    }
    let mut product = false;
    for name in &names {
        let mut found = tests.iter().filter(|test| test.is(name, tree)).peekable();
        if found.peek().is_none() {
            troubles.push(format!("`{id}` names the test `{name}`, which does not exist"));
        }
        product |= found.any(|test| !under(test.path, JUDGE));
    }
    if troubles.is_empty() && !product {
        troubles.push(format!("`{id}` names no test that runs the product, only tests of the judge"));
    }
    if !Break::ALL.iter().any(|what| what.invariants().contains(&id.as_str())) {
        troubles.push(format!("`{id}` has no known break in crates/breaks"));
    }
    troubles
}

/// A function with a test attribute, or one on the list of a conformance suite, and its file.
struct Test<'a> {
    path: &'a str,
    name: String,
}

impl Test<'_> {
    /// Whether `wanted`, a name or a path such as `lease_store::memory::name`, means this test. Every
    /// part of the path is the crate, a directory, the file, or a module in the file.
    fn is(&self, wanted: &str, tree: &Tree) -> bool {
        let mut parts: Vec<&str> = wanted.split("::").collect();
        let name = parts.pop().unwrap_or_default();
        let code = tree.source(self.path).map_or("", |source| source.code());
        name == self.name
            && parts.iter().all(|part| {
                let module = |dir: &str| dir.trim_end_matches(".rs").replace('-', "_") == *part;
                self.path.split('/').any(module) || code.contains(&format!("mod {part} "))
            })
    }
}

fn tests(tree: &Tree) -> Vec<Test<'_>> {
    let mut tests = Vec::new();
    for (path, source) in tree.sources() {
        let list = list(tree, path);
        let functions = source
            .functions()
            .into_iter()
            .filter(|function| function.is_test || list.contains(&function.name.as_str()));
        tests.extend(functions.map(|function| Test { path, name: function.name }));
    }
    tests
}

/// What the list of a conformance suite, `sentences.rs` beside the files of its topics, has for the topic at `path`.
fn list<'a>(tree: &'a Tree, path: &str) -> Vec<&'a str> {
    let Some((dir, file)) = path.rsplit_once('/') else { return Vec::new() };
    if !under(path, "crates") || !dir.ends_with("/src/conformance") {
        return Vec::new();
    }
    let topic = file.trim_end_matches(".rs");
    let code = tree.source(&format!("{dir}/sentences.rs")).map_or("", |names| names.code());
    let topics = code.match_indices(topic).filter(|(at, _)| is_word(code, *at, topic.len()));
    let lists = topics.filter_map(|(at, _)| code[at + topic.len()..].trim_start().strip_prefix('{'));
    lists.filter_map(|list| list.split_once('}')).flat_map(|(names, _)| names.split_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "# Invariants\n\n| id | sentence | where enforced | test | metric |\n|---|---|---|---|---|\n";

    fn shown(rows: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (INVARIANTS, &format!("{HEAD}{rows}")),
            (
                "crates/lease/src/rules.rs",
                "fn helper() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn one_holder() {}\n}\n",
            ),
            (
                "crates/lease-store/src/conformance/time.rs",
                "pub async fn expires() {}\npub async fn unlisted() {}\nfn begins() {}\n",
            ),
            (
                "crates/lease-store/src/conformance/sentences.rs",
                "macro_rules! list {\n    () => { key { begins } time { expires lasts } }\n}\n",
            ),
            (
                "crates/lease-store/tests/it/main.rs",
                "#[tokio::test(start_paused = true)]\nasync fn survives_kill() {}\nfn survives_nothing() {}\n",
            ),
            ("crates/sim/src/judge/permits.rs", "#[test]\nfn two_holders_are_found() {}\n"),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_with_tests_that_exist_pass() {
        let rows = "| I-01 | s | w | `one_holder`, `lease::rules::tests::one_holder` | `m` |\n\
                    | I-02 | s | w | `lease_store::conformance::time::expires` and `survives_kill` | none |\n";
        assert_eq!(shown(rows), Vec::<String>::new());
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let written = ["gone", "helper", "session::one_holder", "rules::other::one_holder"];
        // Functions that no runner calls: without an attribute, on no list, on another topic's list; and a name without one.
        let never_run = ["survives_nothing", "unlisted", "begins", "lasts"];
        for ghost in written.into_iter().chain(never_run) {
            let shown = shown(&format!("| I-01 | s | w | `{ghost}` | m |\n"));
            let expected =
                format!("docs/invariants.md:5: `I-01` names the test `{ghost}`, which does not exist");
            assert_eq!(shown, [expected]);
        }
    }

    #[test]
    fn rows_must_be_complete_and_unique() {
        for (rows, part) in [
            ("| I-01 | s | w | one_holder | m |\n", "no test in backticks"),
            ("| I-01 | s | w | `one_holder` | |\n", "empty cell `metric`"),
            ("| I-01 | s | `one_holder` |\n", "3 cells"),
            ("| I-01 | s | w | `one_holder` | m |\n| I-01 | s | w | `one_holder` | m |\n", "twice"),
            ("", "no rows"),
        ] {
            let shown = shown(rows);
            assert_eq!(shown.len(), 1, "{rows}{shown:?}");
            assert!(shown[0].contains(part), "{shown:?}");
        }
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn a_test_of_the_judge_alone_shows_nothing_of_the_product() {
        let alone = shown("| I-01 | s | w | `two_holders_are_found` | m |\n");
        assert!(alone.len() == 1 && alone[0].contains("only tests of the judge"), "{alone:?}");
        assert_eq!(
            shown("| I-01 | s | w | `two_holders_are_found`, `one_holder` | m |\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_invariant_without_a_known_break_is_found() {
        let shown = shown("| I-99 | s | w | `one_holder` | m |\n");
        assert!(shown.len() == 1 && shown[0].contains("no known break"), "{shown:?}");
    }

    #[test]
    fn other_tables_are_left_alone() {
        let rows = "| I-01 | s | w | `one_holder` | m |\n\nText.\n\n| a | b |\n|---|---|\n| c | d |\n";
        assert_eq!(shown(rows), Vec::<String>::new());
    }
}
