//! What went wrong on a page, as the browser's console would show it.

use std::fmt;

use serde_json::Value;

/// The most that is kept of one page: a page that fails in a loop must not fill the memory of its test.
const KEPT: usize = 200;

/// Where a complaint comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// An exception nobody caught, also in a promise.
    Exception,
    /// `console.error`, `console.warn` or a failed `console.assert`.
    Console,
    /// A load that failed or was answered with a status from 400 up. Expected while a server is away.
    Network,
    /// Everything else the browser itself complains about: what the content security policy forbade, wrong
    /// markup, deprecated calls.
    Browser,
}

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Where it comes from.
    pub kind: TroubleKind,
    /// In the browser's words.
    pub text: String,
    /// The address it is about, or nothing.
    pub url: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)?;
        if self.url.is_empty() { Ok(()) } else { write!(f, " ({})", self.url) }
    }
}

/// The complaint in a DevTools event, if it is one.
pub(super) fn trouble(method: &str, params: &Value) -> Option<Trouble> {
    match method {
        "Runtime.exceptionThrown" => Some(exception(&params["exceptionDetails"])),
        "Runtime.consoleAPICalled" => console(params),
        "Log.entryAdded" => entry(&params["entry"]),
        "Audits.issueAdded" => issue(&params["issue"]),
        _ => None,
    }
}

/// Adds within the bound; the first complaints are the ones that explain the others.
pub(super) fn keep(troubles: &mut Vec<Trouble>, trouble: Trouble) {
    if troubles.len() < KEPT && !troubles.contains(&trouble) {
        troubles.push(trouble);
    }
}

/// What an exception says, with the place it was thrown at.
pub(super) fn words(details: &Value) -> String {
    let thrown = &details["exception"];
    let said = thrown["description"].as_str().or(thrown["value"].as_str()).unwrap_or_default();
    format!("{} {said}", details["text"].as_str().unwrap_or_default()).trim().to_owned()
}

fn exception(details: &Value) -> Trouble {
    let url = details["url"].as_str().unwrap_or_default().to_owned();
    Trouble { kind: TroubleKind::Exception, text: words(details), url }
}

fn console(params: &Value) -> Option<Trouble> {
    let kind = params["type"].as_str().filter(|kind| matches!(*kind, "error" | "warning" | "assert"))?;
    let parts = params["args"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let said: Vec<String> = parts
        .map(|part| {
            let text = part["value"].as_str().or(part["description"].as_str());
            text.map_or_else(|| part["value"].to_string(), str::to_owned)
        })
        .collect();
    let text = format!("{kind}: {}", said.join(" "));
    Some(Trouble { kind: TroubleKind::Console, text, url: String::new() })
}

fn entry(entry: &Value) -> Option<Trouble> {
    if !matches!(entry["level"].as_str(), Some("error" | "warning")) {
        return None;
    }
    let kind = match entry["source"].as_str() {
        Some("network") => TroubleKind::Network,
        _ => TroubleKind::Browser,
    };
    let text = entry["text"].as_str().unwrap_or_default().to_owned();
    Some(Trouble { kind, text, url: entry["url"].as_str().unwrap_or_default().to_owned() })
}

/// The policy's violations are reported here also where the console stays silent.
fn issue(issue: &Value) -> Option<Trouble> {
    if issue["code"] != "ContentSecurityPolicyIssue" {
        return None;
    }
    let details = &issue["details"]["contentSecurityPolicyIssueDetails"];
    let directive = details["violatedDirective"].as_str().unwrap_or("?");
    let text = format!("the content security policy forbade something: {directive}");
    let url = details["blockedURL"].as_str().unwrap_or_default().to_owned();
    Some(Trouble { kind: TroubleKind::Browser, text, url })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_are_told_from_chatter() {
        let log = |level: &str, source: &str| {
            trouble("Log.entryAdded", &json!({"entry": {"level": level, "source": source, "text": "no"}}))
                .map(|trouble| trouble.kind)
        };
        assert_eq!(log("error", "network"), Some(TroubleKind::Network));
        assert_eq!(log("error", "security"), Some(TroubleKind::Browser));
        assert_eq!(log("verbose", "violation"), None);
        let say = |kind: &str| {
            let args = json!([{"type": "string", "value": "so"}, {"type": "number", "value": 7}]);
            trouble("Runtime.consoleAPICalled", &json!({"type": kind, "args": args}))
        };
        assert_eq!(say("log"), None);
        assert_eq!(say("error").unwrap().to_string(), "Console: error: so 7");
        assert_eq!(trouble("Page.loadEventFired", &json!({})), None);
    }

    #[test]
    fn an_exception_is_told_with_its_description() {
        let details =
            json!({"text": "Uncaught", "url": "http://x/a.js", "exception": {"description": "Error: no"}});
        let trouble = trouble("Runtime.exceptionThrown", &json!({"exceptionDetails": details})).unwrap();
        assert_eq!(trouble.to_string(), "Exception: Uncaught Error: no (http://x/a.js)");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Vec::new();
        for number in 0..2 * KEPT {
            let text = number.to_string();
            keep(&mut kept, Trouble { kind: TroubleKind::Console, text, url: String::new() });
        }
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept[0].text, "0");
    }
}
