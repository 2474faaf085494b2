//! Only the simulator enables the known breaks of the kernel.
use crate::metadata::Graph;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// The crates that define the feature, and the one that may enable it.
const MAY: [&str; 2] = ["lease", "sim"];

/// Other manifests that name the feature, and default features that contain it.
pub(super) fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, package) in &graph.packages {
        let path = format!("{}/Cargo.toml", package.dir);
        for (index, line) in tree.text(&path).unwrap_or_default().lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let default = line.trim_start().starts_with("default");
            if line.contains("breaks") && (default || !MAY.contains(&name.as_str())) {
                let message = "switches on known breaks of the kernel; only `sim` may, and not by default";
                violations.push(Violation::new(&path, index + 1, message));
            }
        }
    }
    violations
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
        assert_eq!(found("sim", "[features]\nbreaks = [\"lease/breaks\"]\n"), 0);
        assert_eq!(found("lease", "[features]\nbreaks = []\n"), 0);
        assert_eq!(found("tenure", "lease = { workspace = true, features = [\"breaks\"] }\n"), 1);
        assert_eq!(found("lease-api", "# breaks nothing\n"), 0);
    }

    #[test]
    fn no_default_contains_breaks() {
        assert_eq!(found("sim", "[features]\ndefault = [\"breaks\"]\n"), 1);
        assert_eq!(found("lease", "default = [\"breaks\"]\n"), 1);
    }
}
