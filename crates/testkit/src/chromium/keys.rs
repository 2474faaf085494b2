//! Parameters of key presses in the DevTools protocol.

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// The parameters of a press of `key`: a name like `Enter`, or one character.
pub(super) fn press(key: &str) -> Result<Value> {
    let mut chars = key.chars();
    if let (Some(only), None) = (chars.next(), chars.next()) {
        return Ok(json!({ "type": "keyDown", "key": key, "text": only.to_string() }));
    }
    let (code, text) = match key {
        "Enter" => (13, "\r"),
        "Tab" => (9, ""),
        "Escape" => (27, ""),
        "Backspace" => (8, ""),
        "End" => (35, ""),
        "Home" => (36, ""),
        "ArrowLeft" => (37, ""),
        "ArrowUp" => (38, ""),
        "ArrowRight" => (39, ""),
        "ArrowDown" => (40, ""),
        unknown => bail!("unknown key {unknown:?}"),
    };
    let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
    let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
    if !text.is_empty() {
        event["text"] = json!(text);
    }
    Ok(event)
}

/// The release that follows a press.
pub(super) fn release(press: &Value) -> Value {
    let mut event = press.clone();
    event["type"] = json!("keyUp");
    if let Some(fields) = event.as_object_mut() {
        fields.remove("text");
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_characters_and_nonsense_are_told_apart() {
        assert_eq!(press("/").unwrap()["text"], "/");
        assert_eq!(press("ArrowDown").unwrap()["windowsVirtualKeyCode"], 40);
        assert!(press("Any").unwrap_err().to_string().contains("Any"));
        let up = release(&press("Enter").unwrap());
        assert_eq!((&up["type"], up.get("text")), (&json!("keyUp"), None));
    }
}
