//! Findings: what was looked at, how it is, what to do.

use serde::Serialize;

use crate::cli::screen::Paint;
use crate::cli::{Failure, Result, Screen, exit};

/// How a thing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    status: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// Everything looked at.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct ReportView<'a> {
    ok: bool,
    checks: &'a [Finding],
}

impl Report {
    pub(super) fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Verdict::Ok, detail.into(), None);
    }

    pub(super) fn warn(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Verdict::Warn, detail.into(), Some(remedy.into()));
    }

    pub(super) fn fail(&mut self, check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Verdict::Fail, detail.into(), Some(remedy.into()));
    }

    /// A failure that a command would have ended with.
    pub(super) fn refused(&mut self, check: &'static str, failure: &Failure) {
        let remedy = failure.remedy().map(ToOwned::to_owned);
        self.add(check, Verdict::Fail, failure.detail().to_owned(), remedy);
    }

    fn add(&mut self, check: &'static str, status: Verdict, detail: String, remedy: Option<String>) {
        self.findings.push(Finding { check, status, detail, remedy });
    }

    fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.status != Verdict::Fail)
    }

    /// Says it all, and answers with the exit code.
    pub(super) fn tell(&self, screen: &Screen) -> Result<u8> {
        let code = if self.is_ok() { exit::DONE } else { exit::FAILED };
        if screen.is_json() {
            screen.json(&ReportView { ok: self.is_ok(), checks: &self.findings })?;
            return Ok(code);
        }
        let width = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        for Finding { check, status, detail, remedy } in &self.findings {
            let (word, paint) = match status {
                Verdict::Ok => ("ok  ", Paint::Green),
                Verdict::Warn => ("warn", Paint::Yellow),
                Verdict::Fail => ("fail", Paint::Red),
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
        report.warn("b", "odd", "look");
        assert!(report.is_ok());
        report.fail("c", "broken", "mend");
        assert!(!report.is_ok());
    }
}
