//! The results of the checks.

use serde::Serialize;

use crate::cli::screen::Paint;
use crate::cli::{Failure, Result, Screen, exit};

/// The status of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct CheckResult {
    check: &'static str,
    status: CheckStatus,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// The results of all checks.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    results: Vec<CheckResult>,
}

#[derive(Serialize)]
struct ReportView<'a> {
    ok: bool,
    checks: &'a [CheckResult],
}

impl Report {
    pub(super) fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, CheckStatus::Ok, detail.into(), None);
    }

    pub(super) fn warn(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, CheckStatus::Warn, detail.into(), Some(remedy.into()));
    }

    pub(super) fn fail(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, CheckStatus::Fail, detail.into(), Some(remedy.into()));
    }

    /// A failed check, from the failure of an operation.
    pub(super) fn fail_with(&mut self, check: &'static str, failure: &Failure) {
        let remedy = failure.remedy().map(ToOwned::to_owned);
        self.add(check, CheckStatus::Fail, failure.detail().to_owned(), remedy);
    }

    fn add(&mut self, check: &'static str, status: CheckStatus, detail: String, remedy: Option<String>) {
        self.results.push(CheckResult { check, status, detail, remedy });
    }

    fn is_ok(&self) -> bool {
        self.results.iter().all(|result| result.status != CheckStatus::Fail)
    }

    /// Prints the results and returns the exit code.
    pub(super) fn print(&self, screen: &Screen) -> Result<u8> {
        let code = if self.is_ok() { exit::DONE } else { exit::FAILED };
        if screen.is_json() {
            screen.json(&ReportView { ok: self.is_ok(), checks: &self.results })?;
            return Ok(code);
        }
        let width = self.results.iter().map(|result| result.check.len()).max().unwrap_or(0);
        for CheckResult { check, status, detail, remedy } in &self.results {
            let (word, paint) = match status {
                CheckStatus::Ok => ("ok  ", Paint::Green),
                CheckStatus::Warn => ("warn", Paint::Yellow),
                CheckStatus::Fail => ("fail", Paint::Red),
            };
            screen.line(format!("{}  {check:<width$}  {detail}", screen.paint(paint, word)))?;
            for line in remedy.iter().flat_map(|remedy| remedy.lines()) {
                screen.line(format!("{:width$}        → {line}", ""))?;
            }
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_do_not_fail_and_failures_do() {
        let mut report = Report::default();
        report.ok("a", "fine");
        report.warn("b", "odd", "check it");
        assert!(report.is_ok());
        report.fail("c", "broken", "repair it");
        assert!(!report.is_ok());
    }
}
