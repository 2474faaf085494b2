//! The table of invariants and breaks, and whether all of them were noticed.
use std::collections::BTreeSet;

use anyhow::{Result, bail};
use tenure_breaks::Break;

use super::nextest::Outcome;

/// The head of the table.
pub(super) const HEAD: &str = "| invariant | break | result | tests that fail |\n|---|---|---|---|";

/// What the tests of an invariant did with one of its breaks switched on.
pub(super) struct Finding {
    pub(super) id: String,
    pub(super) what: Break,
    pub(super) outcomes: Vec<Outcome>,
}

impl Finding {
    fn red(&self) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.passed).collect()
    }
}

/// A row of the table.
pub(super) fn line(finding: &Finding) -> String {
    let red = finding.red();
    // A test of the conformance suite runs on several engines under one name.
    let names: BTreeSet<&str> = red.iter().map(|outcome| outcome.name()).collect();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let result = match red.len() {
        0 => "GREEN".to_owned(),
        count => format!("red: {count} of {}", finding.outcomes.len()),
    };
    let Finding { id, what, .. } = finding;
    format!("| {id} | `{}`: {} | {result} | {} |", what.name(), what.describe(), names.join(", "))
}

/// Fails unless every break was noticed.
pub(super) fn conclude(findings: &[Finding]) -> Result<()> {
    let missed: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.red().is_empty())
        .map(|finding| finding.what.name())
        .collect();
    if !missed.is_empty() {
        bail!("no test notices {} of {} breaks: {}", missed.len(), findings.len(), missed.join(", "));
    }
    println!("\nmutants: all {} breaks turn a test of their invariant red", findings.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(passed: &[bool]) -> Finding {
        let outcome = |(number, passed): (usize, &bool)| Outcome {
            test: format!("tenure-store::it engine{number}::renew::never_revives"),
            passed: *passed,
        };
        let outcomes = passed.iter().enumerate().map(outcome).collect();
        Finding { id: "I-04".into(), what: Break::RenewLate, outcomes }
    }

    #[test]
    fn a_row_counts_failures_and_names_each_test_once() {
        let line = line(&finding(&[false, true, false]));
        assert!(line.starts_with("| I-04 | `RenewLate`: "), "{line}");
        assert!(line.ends_with("| red: 2 of 3 | `never_revives` |"), "{line}");
    }

    #[test]
    fn a_break_that_no_test_notices_is_a_failure() {
        conclude(&[finding(&[false])]).unwrap();
        let error = conclude(&[finding(&[false]), finding(&[true, true])]).unwrap_err().to_string();
        assert!(error.contains("1 of 2 breaks: RenewLate"), "{error}");
    }
}
