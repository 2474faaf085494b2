//! `cargo check` of the crates that other programs embed, with one engine feature at a time. The other steps build the
//! workspace with all features, which hides code of one engine that needs the feature of another.
use anyhow::Result;

use crate::step;
use crate::workspace::Workspace;

/// The arguments of each check.
const CHECKS: [&[&str]; 5] = [
    &["check", "--package", "tenure-store", "--no-default-features"],
    &["check", "--package", "tenure-store", "--no-default-features", "--features", "embedded"],
    &["check", "--package", "tenure-store", "--no-default-features", "--features", "redis"],
    &["check", "--package", "tenure-store", "--no-default-features", "--features", "remote"],
    &["check", "--package", "tenure-client"],
];

/// The summary of this step.
pub(crate) fn headline() -> String {
    "cargo check of tenure-store with no engine feature and with each alone, and of tenure-client".into()
}

/// Fails where a combination does not compile.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    for check in CHECKS {
        step::command(&mut workspace.cargo(check))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine features of the store: those that enable an optional dependency.
    fn engines(manifest: &str) -> Vec<&str> {
        let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next());
        let lines = features.unwrap_or_default().lines();
        lines
            .filter(|line| line.contains("\"dep:"))
            .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
            .collect()
    }

    #[test]
    fn every_engine_is_checked_alone_and_the_store_without_any() {
        let manifest = include_str!("../../crates/lease-store/Cargo.toml");
        let engines = engines(manifest);
        assert!(engines.len() >= 3, "{engines:?}");
        let store = |check: &&[&str]| check.starts_with(&["check", "--package", "tenure-store"]);
        let alone: Vec<&str> = CHECKS
            .iter()
            .filter(|check| store(check) && check.contains(&"--no-default-features"))
            .filter_map(|check| check.iter().skip_while(|word| **word != "--features").nth(1).copied())
            .collect();
        assert_eq!(alone, engines);
        assert!(CHECKS.iter().any(|check| store(check) && !check.contains(&"--features")));
    }

    #[test]
    fn the_checks_only_check() {
        for check in CHECKS {
            assert!(check[0] == "check" && !check.contains(&"--release"), "{check:?}");
        }
    }
}
