//! One tab: user input, and queries for tests.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::link::Link;
use super::page_error::{PageError, describe_value};
use super::{keys, page_error::PageErrorKind};
use crate::wait;

/// Timeout of waits, for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The length of the page text that errors quote.
const QUOTED: usize = 2_000;

/// The preferred colour scheme of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourScheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// A tab of a [`Chromium`](super::Chromium). It is usable as long as its browser runs.
pub struct Page {
    link: Arc<Link>,
    session: String,
}

impl Page {
    pub(super) fn attach(link: Arc<Link>, target: &str) -> Result<Self> {
        let wanted = json!({ "targetId": target, "flatten": true });
        let attached = link.call(None, "Target.attachToTarget", wanted)?;
        let session = attached["sessionId"].as_str().context("a tab without a session")?.to_owned();
        let page = Self { link, session };
        for domain in ["Runtime.enable", "Log.enable", "Page.enable", "Audits.enable"] {
            page.call(domain, json!({}))?;
        }
        // The page behaves as focused, even if another tab is in front.
        page.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }))?;
        Ok(page)
    }

    /// Navigates to `url` and waits until its document is loaded. A change of the fragment loads nothing.
    pub fn navigate(&self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = answer["errorText"].as_str() {
            bail!("cannot open {url}: {why}");
        }
        self.wait_for("document.readyState === 'complete'", LIMIT).map(drop)
    }

    /// The JSON value of an expression; a promise is awaited. An exception is an error.
    pub fn evaluate(&self, script: &str) -> Result<Value> {
        let wanted = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let mut answer = self.call("Runtime.evaluate", wanted)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(anyhow!("{} in: {script}", describe_value(details))),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Evaluates `condition` until it is true in the sense of JavaScript, and returns its value. An exception counts
    /// as false. The error of a timeout quotes the last exception, the text of the page and its errors.
    pub fn wait_for(&self, condition: &str, limit: Duration) -> Result<Value> {
        let mut last = Ok(Value::Null);
        let waited = wait::until(condition, limit, || {
            last = self.evaluate(condition);
            last.as_ref().is_ok_and(truthy)
        });
        match (waited, last) {
            (Ok(()), Ok(value)) => Ok(value),
            (Ok(()), Err(error)) => Err(error),
            (Err(error), last) => Err(error.context(self.scene(&last))),
        }
    }

    /// Clicks the middle of the first element that matches (of its first line, if it is text over several lines), once it
    /// exists, is enabled, and is not covered by another element.
    pub fn click(&self, selector: &str) -> Result<()> {
        let (x, y) = self.wait_for_click_point(selector)?;
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({
                "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Moves the pointer onto the first element that matches.
    pub fn hover(&self, selector: &str) -> Result<()> {
        let (x, y) = self.wait_for_click_point(selector)?;
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y })).map(drop)
    }

    /// Clicks a field and replaces its content with `text`.
    pub fn fill(&self, selector: &str, text: &str) -> Result<()> {
        self.click(selector)?;
        self.evaluate("document.activeElement.select()")?;
        self.call("Input.insertText", json!({ "text": text })).map(drop)
    }

    /// Presses and releases a key: one character, or a name such as `Enter`.
    pub fn press(&self, key: &str) -> Result<()> {
        let down = keys::press(key)?;
        let up = keys::release(&down);
        self.call("Input.dispatchKeyEvent", down)?;
        self.call("Input.dispatchKeyEvent", up).map(drop)
    }

    /// Sets the preferred colour scheme.
    pub fn colour_scheme(&self, scheme: ColourScheme) -> Result<()> {
        let value = match scheme {
            ColourScheme::Light => "light",
            ColourScheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Sets the size of the screen in CSS pixels and its pixel density; `phone` adds touch and the viewport of a phone.
    pub fn screen(&self, width: u32, height: u32, density: f64, phone: bool) -> Result<()> {
        let wanted =
            json!({ "width": width, "height": height, "deviceScaleFactor": density, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", wanted)?;
        self.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": phone })).map(drop)
    }

    /// A screenshot as PNG.
    pub fn screenshot(&self) -> Result<Vec<u8>> {
        let wanted = json!({ "format": "png", "optimizeForSpeed": false });
        let answer = self.call("Page.captureScreenshot", wanted)?;
        let data = answer["data"].as_str().context("screenshot without data")?;
        BASE64_STANDARD.decode(data).context("screenshot is not base64")
    }

    /// Exceptions, console errors and warnings, violations of the content security policy and failed loads so far.
    pub fn errors(&self) -> Vec<PageError> {
        // Events and responses are ordered, so a response arrives after all earlier errors.
        let _ = self.evaluate("0");
        self.link.errors(&self.session)
    }

    /// Fails if there are errors other than failed loads that `expected` accepts. Clears the errors.
    pub fn expect_no_errors(&self, mut expected: impl FnMut(&PageError) -> bool) -> Result<()> {
        let _ = self.evaluate("0");
        let mut errors = self.link.take_errors(&self.session);
        errors.retain(|page_error| page_error.kind != PageErrorKind::Network || !expected(page_error));
        if errors.is_empty() {
            return Ok(());
        }
        bail!("errors on the page:\n  {}", list(&errors));
    }

    /// Closes the tab.
    pub fn close(self) -> Result<()> {
        self.call("Page.close", json!({})).map(drop)
    }

    fn call(&self, method: &'static str, params: Value) -> Result<Value> {
        self.link.call(Some(&self.session), method, params)
    }

    /// Scrolls an element into view and returns its middle, once a click there would reach it.
    fn wait_for_click_point(&self, selector: &str) -> Result<(f64, f64)> {
        let script = format!("({REACH})({})", json!(selector));
        let mut last = Ok(Value::Null);
        let waited = wait::until(&format!("{selector} can be clicked"), LIMIT, || {
            last = self.evaluate(&script);
            last.as_ref().is_ok_and(Value::is_array)
        });
        match (waited, last) {
            (Ok(()), Ok(at)) => Ok((at[0].as_f64().unwrap_or_default(), at[1].as_f64().unwrap_or_default())),
            (Ok(()), Err(error)) => Err(error),
            (Err(error), last) => Err(error.context(self.scene(&last))),
        }
    }

    /// Describes the page for the error of a timeout.
    fn scene(&self, last: &Result<Value>) -> String {
        let last = match last {
            Ok(value) => value.to_string(),
            Err(error) => format!("{error:#}"),
        };
        let text = self.evaluate("location.href + '\\n' + document.body.innerText").unwrap_or_default();
        let text: String = text.as_str().unwrap_or("(nothing)").chars().take(QUOTED).collect();
        format!("last seen: {last}\n{}\nthe page: {text}", list(&self.errors()))
    }
}

/// Returns the point to click, or the obstacle.
const REACH: &str = "(selector) => {
  const element = document.querySelector(selector);
  if (!element) return 'there is no such element';
  if (element.disabled) return 'it is disabled';
  element.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
  const box = element.getClientRects()[0]; // of a link over several lines, the first line
  if (!box?.width || !box.height) return 'it is not shown';
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  if (!hit || !(element.contains(hit) || hit.control === element)) return `it is covered by ${hit?.outerHTML.slice(0, 120)}`;
  return [x, y];
}";

fn list(errors: &[PageError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(held) => *held,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_as_in_javascript() {
        for value in [json!(true), json!(1), json!("x"), json!([]), json!({})] {
            assert!(truthy(&value), "{value}");
        }
        for value in [json!(null), json!(false), json!(0), json!("")] {
            assert!(!truthy(&value), "{value}");
        }
    }
}
