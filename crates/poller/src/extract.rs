//! What of a body is the value: a part of JSON by a path, a line of a text, or all of it.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// Most steps of a path.
const STEPS: usize = 32;

/// How to read a body.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum Extract {
    /// JSON if it is JSON, text if it is text, nothing otherwise.
    #[default]
    Any,
    /// The text without the space around it.
    Text,
    /// What follows the prefix on the first line that begins with it.
    Line(String),
    /// The part of a JSON document at this path.
    Path(Vec<Step>),
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `.name` or `['name']`
    Name(String),
    /// `[3]`, or `[-1]` from the end.
    Index(i64),
    /// `.*` or `[*]`
    All,
}

/// A text that is no way to read a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of text, line:PREFIX, and a path such as $.data[0]['name'] or $.items[*].id")]
pub(crate) struct NoExtract(String);

impl FromStr for Extract {
    type Err = NoExtract;

    fn from_str(text: &str) -> Result<Self, NoExtract> {
        match text {
            "" | "any" => return Ok(Self::Any),
            "text" => return Ok(Self::Text),
            _ => {}
        }
        if let Some(prefix) = text.strip_prefix("line:").filter(|prefix| !prefix.is_empty()) {
            return Ok(Self::Line(prefix.to_owned()));
        }
        steps(text).map(Self::Path).ok_or_else(|| NoExtract(text.to_owned()))
    }
}

impl fmt::Display for Extract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Text => f.write_str("text"),
            Self::Line(prefix) => write!(f, "line:{prefix}"),
            Self::Path(steps) => {
                f.write_str("$")?;
                steps.iter().try_for_each(|step| match step {
                    Step::Name(name) => write!(f, "['{name}']"),
                    Step::Index(index) => write!(f, "[{index}]"),
                    Step::All => f.write_str("[*]"),
                })
            }
        }
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() < STEPS {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, next) = after.split_at(end);
            steps.push(match name {
                "" => return None,
                "*" => Step::All,
                name => Step::Name(name.to_owned()),
            });
            rest = next;
        } else if let Some(after) = rest.strip_prefix("['") {
            let (name, next) = after.split_once("']")?;
            steps.push(Step::Name(name.to_owned()));
            rest = next;
        } else {
            let (inside, next) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(if inside == "*" { Step::All } else { Step::Index(inside.parse().ok()?) });
            rest = next;
        }
    }
    rest.is_empty().then_some(steps)
}

impl Extract {
    /// The value in a body; an error says why there is none.
    pub(crate) fn read(&self, body: &[u8]) -> Result<Value, String> {
        match self {
            Self::Any => {
                Ok(serde_json::from_slice(body).ok().or_else(|| text(body).ok()).unwrap_or(Value::Null))
            }
            Self::Text => text(body),
            Self::Line(prefix) => {
                let found = std::str::from_utf8(body).map_err(|_| "the body is no text")?;
                let line = found.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
                line.map(|rest| Value::String(rest.trim().to_owned()))
                    .ok_or_else(|| format!("no line begins with {prefix:?}"))
            }
            Self::Path(steps) => {
                let document = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
                walk(&document, steps).ok_or_else(|| format!("there is nothing at {self}"))
            }
        }
    }
}

fn text(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is no text")?;
    Ok(Value::String(text.trim().to_owned()))
}

/// With a wildcard on the way the values that are there, as a list.
fn walk(value: &Value, steps: &[Step]) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value.clone()) };
    match (step, value) {
        (Step::Name(name), Value::Object(map)) => walk(map.get(name)?, rest),
        (Step::Index(index), Value::Array(list)) => {
            let at =
                if *index < 0 { list.len().checked_add_signed(*index as isize)? } else { *index as usize };
            walk(list.get(at)?, rest)
        }
        (Step::All, Value::Array(list)) => Some(list.iter().filter_map(|item| walk(item, rest)).collect()),
        (Step::All, Value::Object(map)) => Some(map.values().filter_map(|item| walk(item, rest)).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_the_value() {
        let body = br#"{"a": {"b c": [10, {"d": true}]}, "items": [{"id": 1}, {"x": 2}, {"id": 3}]}"#;
        for (path, value) in [
            ("$", serde_json::from_slice(body).unwrap()),
            ("$.a['b c'][0]", json!(10)),
            ("$.a['b c'][-1].d", json!(true)),
            ("$.items[*].id", json!([1, 3])),
            ("$.items[2].*", json!([3])),
        ] {
            assert_eq!(path.parse::<Extract>().unwrap().read(body), Ok(value), "{path}");
        }
        for path in ["$.b", "$.a[0]", "$.items[3]", "$.items[-4]"] {
            assert!(path.parse::<Extract>().unwrap().read(body).is_err(), "{path}");
        }
    }

    #[test]
    fn texts_and_lines_are_read() {
        let body = b"# HELP up\nup 1\n temp 21.5 \n";
        assert_eq!("line:up ".parse::<Extract>().unwrap().read(body), Ok(json!("1")));
        assert!("line:down".parse::<Extract>().unwrap().read(body).is_err());
        assert_eq!("text".parse::<Extract>().unwrap().read(b" x \n"), Ok(json!("x")));
        assert!("text".parse::<Extract>().unwrap().read(b"\xff").is_err());
        assert_eq!(Extract::Any.read(b"[1]"), Ok(json!([1])));
        assert_eq!(Extract::Any.read(b"hello"), Ok(json!("hello")));
        assert_eq!(Extract::Any.read(b"\xff\xfe"), Ok(json!(null)));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["a", "$.", "$..a", "$[", "$[x]", "$['a", "$a", "line:", &format!("${}", ".a".repeat(33))]
        {
            assert!(bad.parse::<Extract>().is_err(), "{bad}");
        }
        let long = "$.a['b'][3][*]";
        assert_eq!(long.parse::<Extract>().unwrap().to_string().parse(), long.parse::<Extract>());
    }
}
