//! Known breaks can be switched on in tests and in the simulator and nowhere else, and each of them is somewhere.
use tenure_breaks::{Break, PATCHES};

use crate::metadata::Graph;
use crate::tidy::Violation;
use crate::tidy::tree::{Tree, under};

/// Where the feature is defined, and who may switch it on.
const MAY: [&str; 2] = ["breaks", "sim"];
const LIST: &str = "crates/breaks/src/list.rs";

/// Manifests that name the feature without being allowed to, defaults that contain it, and breaks of an invariant that
/// nothing in the product asks for.
pub(super) fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, package) in &graph.packages {
        let path = format!("{}/Cargo.toml", package.dir);
        for (index, line) in tree.text(&path).unwrap_or_default().lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let default = line.trim_start().starts_with("default");
            if names_feature(line) && (default || !MAY.contains(&name.as_str())) {
                let message = "switches on known breaks; only `sim` may, and not by default";
                violations.push(Violation::new(&path, index + 1, message));
            }
        }
    }
    if tree.has(LIST) {
        violations.extend(unused(tree));
    }
    violations
}

/// Whether a line of a manifest defines the feature or asks for it; the crate `tenure-breaks` may be named.
fn names_feature(line: &str) -> bool {
    let defines =
        line.trim_start().strip_prefix("breaks").is_some_and(|rest| rest.trim_start().starts_with('='));
    defines || line.contains("\"breaks\"") || line.contains("/breaks\"")
}

/// Breaks that can be switched on without effect.
fn unused(tree: &Tree) -> Vec<Violation> {
    let product: Vec<&str> = tree
        .sources()
        .filter(|(path, _)| !["crates/breaks", "crates/sim", "xtask"].iter().any(|dir| under(path, dir)))
        .map(|(_, source)| source.code())
        .collect();
    let of_invariants = Break::ALL.iter().filter(|what| !what.invariants().is_empty());
    let used = |what: &Break| {
        let name = format!("Break::{}", what.name());
        let patched = PATCHES.iter().any(|(patch, ..)| patch == what);
        patched || product.iter().any(|code| code.contains(&name))
    };
    let missing = of_invariants.filter(|what| !used(what));
    missing.map(|what| Violation::new(LIST, 1, format!("nothing in the product asks for {what:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, manifest: &str) -> usize {
        let path = format!("crates/{name}/Cargo.toml");
        let tree = Tree::of(&[(&path, manifest)]);
        check(&tree, &Graph::of(&[(name, &format!("crates/{name}"), &[])])).len()
    }

    #[test]
    fn only_the_simulator_switches_breaks_on() {
        assert_eq!(found("sim", "[features]\nbreaks = [\"tenure-breaks/breaks\"]\n"), 0);
        assert_eq!(found("breaks", "[features]\nbreaks = []\n"), 0);
        assert_eq!(found("lease", "[features]\nbreaks = []\n"), 1);
        assert_eq!(found("tenure", "tenure-breaks = { workspace = true, features = [\"breaks\"] }\n"), 1);
        assert_eq!(found("tenure", "broken = [\"tenure-breaks/breaks\"]\n"), 1);
        assert_eq!(found("tenure", "tenure-breaks.workspace = true\n"), 0);
        assert_eq!(found("lease-api", "# breaks nothing\n"), 0);
    }

    #[test]
    fn no_default_contains_breaks() {
        assert_eq!(found("sim", "[features]\ndefault = [\"breaks\"]\n"), 1);
        assert_eq!(found("breaks", "default = [\"breaks\"]\n"), 1);
    }

    #[test]
    fn a_break_that_nothing_asks_for_is_found() {
        let used = "fn renew() { broken(Break::RenewLate); }\n";
        let tree = Tree::of(&[(LIST, ""), ("crates/lease/src/rules.rs", used)]);
        let shown: Vec<String> = unused(&tree).iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|line| line.ends_with("asks for WipeFirst")), "{shown:?}");
        assert!(!shown.iter().any(|line| line.ends_with("asks for RenewLate")), "{shown:?}");
    }
}
