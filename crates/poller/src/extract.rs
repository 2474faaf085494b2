//! Extracts a value from a response body: part of a JSON document, a line of text, or the whole body.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// Maximum number of steps of a path.
const MAX_STEPS: usize = 32;

/// How to extract a value from a body.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) enum Extract {
    /// JSON if the body is JSON, text if it is text, null otherwise.
    #[default]
    Any,
    /// The text without surrounding whitespace.
    Text,
    /// The rest of the first line that begins with the prefix.
    Line(String),
    /// The value of a JSON document at this path.
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

/// An invalid `extract` setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not `text`, `line:PREFIX` or a path such as $.data[0]['name'] or $.items[*].id")]
pub(crate) struct InvalidExtract(String);

impl FromStr for Extract {
    type Err = InvalidExtract;

    fn from_str(text: &str) -> Result<Self, InvalidExtract> {
        match text {
            "" | "any" => return Ok(Self::Any),
            "text" => return Ok(Self::Text),
            _ => {}
        }
        if let Some(prefix) = text.strip_prefix("line:").filter(|prefix| !prefix.is_empty()) {
            return Ok(Self::Line(prefix.to_owned()));
        }
        parse_path(text).map(Self::Path).ok_or_else(|| InvalidExtract(text.to_owned()))
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

fn parse_path(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() < MAX_STEPS {
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
    /// Extracts the value from a body, or explains why that is impossible.
    pub(crate) fn apply(&self, body: &[u8]) -> Result<Value, String> {
        match self {
            Self::Any => {
                Ok(serde_json::from_slice(body).ok().or_else(|| text(body).ok()).unwrap_or(Value::Null))
            }
            Self::Text => text(body),
            Self::Line(prefix) => {
                let found = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8 text")?;
                let line = found.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
                line.map(|rest| Value::String(rest.trim().to_owned()))
                    .ok_or_else(|| format!("no line begins with {prefix:?}"))
            }
            Self::Path(steps) => {
                let document = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
                select(&document, steps).ok_or_else(|| format!("no value at {self}"))
            }
        }
    }
}

fn text(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8 text")?;
    Ok(Value::String(text.trim().to_owned()))
}

/// Follows a path. A wildcard yields the list of values that exist.
fn select(value: &Value, steps: &[Step]) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value.clone()) };
    match (step, value) {
        (Step::Name(name), Value::Object(map)) => select(map.get(name)?, rest),
        (Step::Index(index), Value::Array(list)) => {
            let at =
                if *index < 0 { list.len().checked_add_signed(*index as isize)? } else { *index as usize };
            select(list.get(at)?, rest)
        }
        (Step::All, Value::Array(list)) => Some(list.iter().filter_map(|item| select(item, rest)).collect()),
        (Step::All, Value::Object(map)) => Some(map.values().filter_map(|item| select(item, rest)).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_selects_a_value() {
        let body = br#"{"a": {"b c": [10, {"d": true}]}, "items": [{"id": 1}, {"x": 2}, {"id": 3}]}"#;
        for (path, value) in [
            ("$", serde_json::from_slice(body).unwrap()),
            ("$.a['b c'][0]", json!(10)),
            ("$.a['b c'][-1].d", json!(true)),
            ("$.items[*].id", json!([1, 3])),
            ("$.items[2].*", json!([3])),
        ] {
            assert_eq!(path.parse::<Extract>().unwrap().apply(body), Ok(value), "{path}");
        }
        for path in ["$.b", "$.a[0]", "$.items[3]", "$.items[-4]"] {
            assert!(path.parse::<Extract>().unwrap().apply(body).is_err(), "{path}");
        }
    }

    #[test]
    fn text_and_lines_are_extracted() {
        let body = b"# HELP up\nup 1\n temp 21.5 \n";
        assert_eq!("line:up ".parse::<Extract>().unwrap().apply(body), Ok(json!("1")));
        assert!("line:down".parse::<Extract>().unwrap().apply(body).is_err());
        assert_eq!("text".parse::<Extract>().unwrap().apply(b" x \n"), Ok(json!("x")));
        assert!("text".parse::<Extract>().unwrap().apply(b"\xff").is_err());
        assert_eq!(Extract::Any.apply(b"[1]"), Ok(json!([1])));
        assert_eq!(Extract::Any.apply(b"hello"), Ok(json!("hello")));
        assert_eq!(Extract::Any.apply(b"\xff\xfe"), Ok(json!(null)));
    }

    #[test]
    fn an_invalid_path_is_refused() {
        for bad in ["a", "$.", "$..a", "$[", "$[x]", "$['a", "$a", "line:", &format!("${}", ".a".repeat(33))]
        {
            assert!(bad.parse::<Extract>().is_err(), "{bad}");
        }
        let long = "$.a['b'][3][*]";
        assert_eq!(long.parse::<Extract>().unwrap().to_string().parse(), long.parse::<Extract>());
    }
}
