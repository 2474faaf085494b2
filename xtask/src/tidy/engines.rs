//! Code outside `lease-store` asks for an engine's capabilities and never compares its name.
use crate::tidy::Violation;
use crate::tidy::tree::{Tree, under};

/// Engines are named here, and in the crates that never ship and test certain engines.
const EXEMPT: [&str; 5] =
    ["crates/lease-store", "crates/sim", "crates/fuzzing", "crates/testkit", "crates/interleave"];

/// Comparisons of an engine's name.
const COMPARISONS: [&str; 3] = [".engine ==", ".engine !=", ".engine {"];

/// Comparisons of an engine's name in shipped code.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, source) in tree.sources().filter(|(path, _)| !tree.is_test(path)) {
        if !under(path, "crates") || EXEMPT.iter().any(|dir| under(path, dir)) {
            continue;
        }
        for (number, line) in source.product_lines() {
            if COMPARISONS.iter().any(|comparison| line.contains(comparison)) {
                let message = "compares an engine's name; ask for a capability instead";
                violations.push(Violation::new(path, number, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_engines_compare_their_names() {
        let tree = Tree::of(&[
            ("crates/lease-store/src/a.rs", "fn f() { if can.engine == \"redis\" {} }\n"),
            ("crates/poller/src/a.rs", "fn f() {\n    if can.engine == \"redis\" {}\n}\n"),
            ("crates/tenure/src/a.rs", "fn f() { match can.engine { _ => {} } }\n"),
            ("crates/control/src/a.rs", "fn f() { say(can.engine); }\n"),
        ]);
        let found: Vec<_> =
            check(&tree).into_iter().map(|violation| (violation.path, violation.line)).collect();
        assert_eq!(
            found,
            [("crates/poller/src/a.rs".to_owned(), 2), ("crates/tenure/src/a.rs".to_owned(), 1)]
        );
    }
}
