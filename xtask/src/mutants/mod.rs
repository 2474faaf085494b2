//! `cargo xtask mutants`: the tests of every invariant notice a product that breaks it.
//!
//! The tests are built once, with the feature `breaks`. They run without a break, and all pass. Then each break is
//! switched on in turn, in the test and in the processes that it starts, and the tests of its invariant run again: one
//! at least must fail.
mod nextest;
mod report;

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use tenure_breaks::Break;

use crate::tidy::{INVARIANTS, Row, rows};
use crate::workspace::Workspace;
use nextest::{Nextest, Outcome};
use report::{Finding, line};

/// Runs the breaks of these invariants, or these breaks; all of them if none is named. `--package NAME` leaves out the
/// tests of all other packages.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let (wanted, packages) = parse(args)?;
    let text = std::fs::read_to_string(workspace.root().join(INVARIANTS)).context(INVARIANTS)?;
    let rows = rows(&text);
    let plan = plan(&rows, &wanted)?;
    let nextest = Nextest::build(workspace, &packages)?;
    let tests: BTreeSet<&str> = plan.iter().flat_map(|(row, _)| row.tests()).collect();
    println!("mutants: {} tests without a break", tests.len());
    let whole = nextest.run(&tests, None)?;
    let red: Vec<&Outcome> = whole.iter().filter(|outcome| !outcome.passed).collect();
    if let Some(first) = red.first() {
        bail!("{} tests fail without any break, among them {}", red.len(), first.test);
    }
    println!("mutants: {} passed\n\n{}", whole.len(), report::HEAD);
    let mut findings = Vec::new();
    for (row, what) in plan {
        let outcomes = nextest.run(&row.tests().into_iter().collect(), Some(what))?;
        let finding = Finding { id: row.id.clone(), what, outcomes };
        println!("{}", line(&finding));
        findings.push(finding);
    }
    report::conclude(&findings)
}

/// The invariants or breaks, and the packages.
fn parse<'a>(args: &[&'a str]) -> Result<(Vec<&'a str>, Vec<&'a str>)> {
    let (mut wanted, mut packages) = (Vec::new(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--package" => packages.push(*args.next().context("--package needs a name")?),
            flag if flag.starts_with('-') => bail!("unknown option `{flag}`; see `cargo xtask help`"),
            name => wanted.push(name),
        }
    }
    Ok((wanted, packages))
}

/// Which breaks are switched on for which rows, in the order of the rows.
fn plan<'a>(rows: &'a [Row], wanted: &[&str]) -> Result<Vec<(&'a Row, Break)>> {
    let mut plan = Vec::new();
    for row in rows {
        let of_row = Break::ALL.iter().copied().filter(|what| what.invariants().contains(&row.id.as_str()));
        let named = |what: &Break| {
            wanted.is_empty() || wanted.iter().any(|name| [row.id.as_str(), what.name()].contains(name))
        };
        plan.extend(of_row.filter(named).map(|what| (row, what)));
    }
    let unknown = wanted.iter().find(|name| {
        !plan.iter().any(|(row, what): &(&Row, Break)| [row.id.as_str(), what.name()].contains(name))
    });
    match unknown {
        Some(name) => bail!("{name} is neither an invariant of {INVARIANTS} nor a break of one"),
        None => Ok(plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> Row {
        Row { id: id.into(), cells: Vec::new(), line: 1 }
    }

    #[test]
    fn a_row_or_a_break_may_be_chosen() {
        let rows = [row("I-04"), row("I-07")];
        let names = |wanted: &[&str]| -> Vec<&str> {
            plan(&rows, wanted).unwrap().iter().map(|(_, what)| what.name()).collect()
        };
        assert!(names(&[]).contains(&"RenewLate") && names(&[]).contains(&"WipeFirst"));
        assert!(names(&["I-04"]).contains(&"RenewLate") && !names(&["I-04"]).contains(&"WipeFirst"));
        assert_eq!(names(&["WipeFirst"]), ["WipeFirst"]);
    }

    #[test]
    fn arguments_name_invariants_breaks_and_packages() {
        let (wanted, packages) = parse(&["I-04", "--package", "tenure-store", "RenewLate"]).unwrap();
        assert_eq!((wanted, packages), (vec!["I-04", "RenewLate"], vec!["tenure-store"]));
        assert!(parse(&["--package"]).is_err() && parse(&["--fast"]).is_err());
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        let error = plan(&[row("I-04")], &["I-99"]).unwrap_err().to_string();
        assert!(error.contains("I-99"), "{error}");
    }
}
