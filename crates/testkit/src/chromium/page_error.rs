//! Errors of a page, as the console of the browser shows them.

use std::fmt;

use serde_json::Value;

/// The maximum number of errors per page, which bounds the memory of a page that fails in a loop.
const KEPT: usize = 200;

/// The source of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageErrorKind {
    /// An uncaught exception, also in a promise.
    Exception,
    /// `console.error`, `console.warn` or a failed `console.assert`.
    Console,
    /// A load that failed or returned a status of 400 or above. Expected while a server is down.
    Network,
    /// Other reports of the browser: violations of the content security policy, invalid markup, deprecated calls.
    Browser,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageError {
    /// The source.
    pub kind: PageErrorKind,
    /// The message of the browser.
    pub text: String,
    /// The URL that it is about; empty if there is none.
    pub url: String,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)?;
        if self.url.is_empty() { Ok(()) } else { write!(f, " ({})", self.url) }
    }
}

/// The error in a DevTools event, if it has one.
pub(super) fn page_error(method: &str, params: &Value) -> Option<PageError> {
    match method {
        "Runtime.exceptionThrown" => Some(exception(&params["exceptionDetails"])),
        "Runtime.consoleAPICalled" => console(params),
        "Log.entryAdded" => entry(&params["entry"]),
        "Audits.issueAdded" => issue(&params["issue"]),
        _ => None,
    }
}

/// Adds an error within the bound. The first errors are kept, since they explain the later ones.
pub(super) fn push_bounded(errors: &mut Vec<PageError>, page_error: PageError) {
    if errors.len() < KEPT && !errors.contains(&page_error) {
        errors.push(page_error);
    }
}

/// The text of an exception with its location.
pub(super) fn describe_value(details: &Value) -> String {
    let thrown = &details["exception"];
    let said = thrown["description"].as_str().or(thrown["value"].as_str()).unwrap_or_default();
    format!("{} {said}", details["text"].as_str().unwrap_or_default()).trim().to_owned()
}

fn exception(details: &Value) -> PageError {
    let url = details["url"].as_str().unwrap_or_default().to_owned();
    PageError { kind: PageErrorKind::Exception, text: describe_value(details), url }
}

fn console(params: &Value) -> Option<PageError> {
    let kind = params["type"].as_str().filter(|kind| matches!(*kind, "error" | "warning" | "assert"))?;
    let parts = params["args"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let said: Vec<String> = parts
        .map(|part| {
            let text = part["value"].as_str().or(part["description"].as_str());
            text.map_or_else(|| part["value"].to_string(), str::to_owned)
        })
        .collect();
    let text = format!("{kind}: {}", said.join(" "));
    Some(PageError { kind: PageErrorKind::Console, text, url: String::new() })
}

fn entry(entry: &Value) -> Option<PageError> {
    if !matches!(entry["level"].as_str(), Some("error" | "warning")) {
        return None;
    }
    let kind = match entry["source"].as_str() {
        Some("network") => PageErrorKind::Network,
        _ => PageErrorKind::Browser,
    };
    let text = entry["text"].as_str().unwrap_or_default().to_owned();
    Some(PageError { kind, text, url: entry["url"].as_str().unwrap_or_default().to_owned() })
}

/// Violations of the policy that the console does not report.
fn issue(issue: &Value) -> Option<PageError> {
    if issue["code"] != "ContentSecurityPolicyIssue" {
        return None;
    }
    let details = &issue["details"]["contentSecurityPolicyIssueDetails"];
    let directive = details["violatedDirective"].as_str().unwrap_or("?");
    let text = format!("violation of the content security policy: {directive}");
    let url = details["blockedURL"].as_str().unwrap_or_default().to_owned();
    Some(PageError { kind: PageErrorKind::Browser, text, url })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_are_told_from_chatter() {
        let log = |level: &str, source: &str| {
            page_error("Log.entryAdded", &json!({"entry": {"level": level, "source": source, "text": "no"}}))
                .map(|page_error| page_error.kind)
        };
        assert_eq!(log("error", "network"), Some(PageErrorKind::Network));
        assert_eq!(log("error", "security"), Some(PageErrorKind::Browser));
        assert_eq!(log("verbose", "violation"), None);
        let say = |kind: &str| {
            let args = json!([{"type": "string", "value": "so"}, {"type": "number", "value": 7}]);
            page_error("Runtime.consoleAPICalled", &json!({"type": kind, "args": args}))
        };
        assert_eq!(say("log"), None);
        assert_eq!(say("error").unwrap().to_string(), "Console: error: so 7");
        assert_eq!(page_error("Page.loadEventFired", &json!({})), None);
    }

    #[test]
    fn an_exception_is_told_with_its_description() {
        let details =
            json!({"text": "Uncaught", "url": "http://x/a.js", "exception": {"description": "Error: no"}});
        let page_error =
            page_error("Runtime.exceptionThrown", &json!({"exceptionDetails": details})).unwrap();
        assert_eq!(page_error.to_string(), "Exception: Uncaught Error: no (http://x/a.js)");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Vec::new();
        for number in 0..2 * KEPT {
            let text = number.to_string();
            push_bounded(&mut kept, PageError { kind: PageErrorKind::Console, text, url: String::new() });
        }
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept[0].text, "0");
    }
}
