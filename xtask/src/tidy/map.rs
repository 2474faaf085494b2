//! The code map in ARCHITECTURE.md names exactly the crates of the workspace.
use crate::metadata::Graph;
use crate::tidy::Violation;
use crate::tidy::markdown::{row, spans};
use crate::tidy::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Crates that the code map lacks, and names in it that do not exist.
pub(super) fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let Some(text) = tree.text(MAP) else {
        return vec![Violation::new(MAP, 1, "is missing; it holds the code map and the walls")];
    };
    let mut violations = Vec::new();
    let mut named = Vec::new();
    let mut heading = 0;
    let mut in_map = false;
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        if line.starts_with('#') {
            in_map = line.to_lowercase().contains("code map");
            heading = if in_map { number } else { heading };
        }
        // The first row of a table is its heading and names nothing in backticks.
        let entries =
            row(line).filter(|_| in_map).and_then(|cells| cells.into_iter().next()).unwrap_or_default();
        let entries = spans(&entries);
        named.extend(entries.iter().map(|entry| crate_name(entry).to_owned()));
        let ghosts = spans(line).into_iter().filter(|span| {
            let entry = entries.contains(span) || is_crate_dir(span);
            entry && !graph.packages.contains_key(crate_name(span)) && !tree.has(span)
        });
        violations.extend(ghosts.map(|ghost| {
            Violation::new(MAP, number, format!("names `{ghost}`, which is neither a crate nor a path"))
        }));
    }
    if heading == 0 {
        violations.push(Violation::new(MAP, 1, "has no section `Code map`"));
    }
    for (name, package) in &graph.packages {
        if !named.contains(name) {
            let message = format!("the code map lacks a row for `{}`", package.dir);
            violations.push(Violation::new(MAP, heading.max(1), message));
        }
    }
    violations
}

/// `crates/lease/` and `lease` both mean `lease`.
fn crate_name(entry: &str) -> &str {
    let entry = entry.trim_end_matches('/');
    entry.strip_prefix("crates/").unwrap_or(entry)
}

/// Whether a span is the directory of a crate, like `crates/lease`, and nothing below it.
fn is_crate_dir(span: &str) -> bool {
    let name = span.trim_end_matches('/').strip_prefix("crates/").unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let tree = Tree::of(&[(MAP, text), ("docs/adr/0001.md", "")]);
        let graph = Graph::of(&[("lease", "crates/lease", &[]), ("xtask", "xtask", &[])]);
        check(&tree, &graph).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_complete_map_passes() {
        let text = "# A\n## Code map\n| crate | what |\n|---|---|\n| `crates/lease` | words, see `other` |\n| `xtask` | tools |\n| `docs/adr/` | why |\n";
        assert_eq!(shown(text), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_a_row_is_missing_even_if_prose_names_it() {
        let text = "`crates/lease` is here.\n## Code map\n| crate | what |\n|---|---|\n| `xtask` | tools for `lease` |\n";
        assert_eq!(shown(text), ["ARCHITECTURE.md:2: the code map lacks a row for `crates/lease`"]);
    }

    #[test]
    fn a_ghost_is_found_in_the_map_and_in_prose() {
        let map = "## Code map\n| `lease` | a |\n| `xtask` | b |\n| `gone` | c |\n## Walls\n`crates/old` knows nothing.\n";
        let expected = [
            "ARCHITECTURE.md:4: names `gone`, which is neither a crate nor a path",
            "ARCHITECTURE.md:6: names `crates/old`, which is neither a crate nor a path",
        ];
        assert_eq!(shown(map), expected);
    }

    #[test]
    fn a_missing_file_or_section_is_a_violation() {
        assert_eq!(check(&Tree::of(&[]), &Graph::default()).len(), 1);
        assert_eq!(shown("# A\n").len(), 3);
    }
}
