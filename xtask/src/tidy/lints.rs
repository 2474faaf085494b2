//! Every crate inherits the lints of the workspace; otherwise no ban applies to it.
use crate::metadata::Graph;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// The only crate with unsafe code (ADR 7). The workspace forbids it, so this crate repeats the lints with one change.
const EXCEPTION: &str = "hints";
const CHANGED: (&str, &str) = ("unsafe_code", "deny");

/// A `key = value` of a manifest, with its table and its line.
struct Entry<'a> {
    table: &'a str,
    key: &'a str,
    value: &'a str,
    line: usize,
}

/// Manifests without the lints of the workspace, and lints that the exception lacks or has at another level.
pub(super) fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, package) in &graph.packages {
        let path = format!("{}/Cargo.toml", package.dir);
        let entries = entries(tree.text(&path).unwrap_or_default());
        if entries.iter().any(takes_all) {
            continue;
        }
        if name == EXCEPTION {
            violations.extend(differences(tree, &path, &entries));
        } else {
            let message = format!(
                "does not take the workspace's lints, and only `{EXCEPTION}` may not; write `workspace = true` under `[lints]`"
            );
            violations.push(Violation::new(&path, 1, message));
        }
    }
    violations
}

fn takes_all(entry: &Entry<'_>) -> bool {
    let taken = matches!((entry.table, entry.key), ("lints", "workspace") | ("", "lints.workspace"));
    taken && entry.value == "true"
}

/// Where the crate at `path` does not repeat the workspace's lints.
fn differences(tree: &Tree, path: &str, own: &[Entry<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for lint in entries(tree.text("Cargo.toml").unwrap_or_default()) {
        let Some(table) = lint.table.strip_prefix("workspace.").filter(|table| table.starts_with("lints."))
        else {
            continue;
        };
        let wanted = if lint.key == CHANGED.0 { CHANGED.1 } else { level(lint.value) };
        let found = own.iter().find(|entry| entry.table == table && entry.key == lint.key);
        if found.is_none_or(|entry| level(entry.value) != wanted) {
            let message = format!(
                "`{}` is not \"{wanted}\" here; this crate repeats the lints of the workspace",
                lint.key
            );
            violations.push(Violation::new(path, found.map_or(1, |entry| entry.line), message));
        }
    }
    violations
}

/// The level in `"deny"` or in `{ level = "deny", … }`.
fn level(value: &str) -> &str {
    let value = value.split_once("level").map_or(value, |(_, rest)| rest);
    value.split('"').nth(1).unwrap_or_default()
}

/// The single-line entries of a manifest, such as lints.
fn entries(manifest: &str) -> Vec<Entry<'_>> {
    let mut table = "";
    let mut entries = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = name.trim();
        } else if let Some((key, value)) = line.split_once('=') {
            entries.push(Entry { table, key: key.trim(), value: value.trim(), line: index + 1 });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nodd = { level = \"warn\", cfg = ['x'] }\n\n[workspace.lints.clippy]\ntodo = \"deny\"\n";

    fn shown(name: &str, manifest: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let tree = Tree::of(&[("Cargo.toml", WORKSPACE), (&path, manifest)]);
        let graph = Graph::of(&[(name, &format!("crates/{name}"), &[])]);
        check(&tree, &graph).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_crate_takes_the_lints_of_the_workspace() {
        for manifest in [
            "[package]\n\n[lints]\nworkspace = true\n",
            "lints.workspace = true # all\n[package]\n",
            "[lints]\nworkspace=true",
        ] {
            assert_eq!(shown("lease", manifest), Vec::<String>::new(), "{manifest}");
        }
    }

    #[test]
    fn a_crate_without_them_is_found() {
        for manifest in [
            "[package]\nname = \"lease\"\n",
            "[lints]\n# workspace = true\n",
            "[lints]\nworkspace = false\n",
            "[lints]\n[dependencies]\nworkspace = true\n",
            "[lints.rust]\nunsafe_code = \"deny\"\nodd = \"warn\"\n[lints.clippy]\ntodo = \"deny\"\n",
        ] {
            let shown = shown("lease", manifest);
            assert_eq!(shown.len(), 1, "{manifest}");
            assert!(shown[0].starts_with("crates/lease/Cargo.toml:1: does not take the workspace's lints"));
        }
    }

    #[test]
    fn the_exception_repeats_them_and_denies_unsafe_code() {
        let rust = "[lints.rust]\nunsafe_code = \"deny\"\nodd = \"warn\"\nown = \"deny\"\n";
        assert_eq!(shown("hints", &format!("{rust}[lints.clippy]\ntodo = \"deny\"\n")), Vec::<String>::new());
        let lacks = shown("hints", rust);
        assert_eq!(
            lacks,
            [
                "crates/hints/Cargo.toml:1: `todo` is not \"deny\" here; this crate repeats the lints of the workspace"
            ]
        );
        let weaker = shown("hints", &format!("{rust}[lints.clippy]\ntodo = \"warn\"\n"));
        assert_eq!(
            weaker,
            [
                "crates/hints/Cargo.toml:6: `todo` is not \"deny\" here; this crate repeats the lints of the workspace"
            ]
        );
        assert_eq!(shown("hints", "").len(), 3);
    }
}
