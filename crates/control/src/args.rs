//! What a command takes: names, types, ranges. One description checks the arguments and makes the JSON schema.

use serde_json::{Map, Value, json};

use crate::code::{Code, Refusal};

/// A field of a command.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
}

/// What a field may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int {
        /// The least.
        least: i64,
        /// The most.
        most: i64,
    },
    /// A text.
    Text {
        /// The most characters.
        most: usize,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// An object that the command checks itself.
    Object,
    /// A list that the command checks itself.
    List {
        /// The most entries.
        most: usize,
    },
}

/// A field that must be there.
pub(crate) const fn needs(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

/// A field that may be there.
pub(crate) const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

/// A byte.
pub(crate) const BYTE: Kind = Kind::Int { least: 0, most: 255 };

/// Arguments that fit their command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// Checks `given` against `fields`. With `open`, what is not named is left out instead of refused.
    pub(crate) fn check(fields: &[Field], open: bool, given: Map<String, Value>) -> Result<Self, Refusal> {
        let mut args = Map::new();
        for (name, value) in given {
            match fields.iter().find(|field| field.name == name) {
                Some(field) => {
                    field.check(&value)?;
                    args.insert(name, value);
                }
                None if open => {}
                None => {
                    let message = format!("there is no field `{}` here", shown(&name));
                    return Err(Refusal::new(Code::INVALID_PARAMETER, message).field(shown(&name)));
                }
            }
        }
        match fields.iter().find(|field| field.required && !args.contains_key(field.name)) {
            Some(field) => {
                Err(Refusal::new(Code::MISSING_FIELD, format!("the field `{}` is missing", field.name))
                    .field(field.name))
            }
            None => Ok(Self(args)),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    /// A number that its field holds within a byte.
    pub(crate) fn byte(&self, name: &str) -> Option<u8> {
        self.int(name).and_then(|number| u8::try_from(number).ok())
    }

    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    pub(crate) fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get(name).and_then(Value::as_object)
    }

    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Field {
    fn check(&self, value: &Value) -> Result<(), Refusal> {
        let refuse =
            |code, what: String| Err(Refusal::new(code, format!("`{}` {what}", self.name)).field(self.name));
        match (&self.kind, value) {
            (Kind::Bool, Value::Bool(_)) | (Kind::Object, Value::Object(_)) => Ok(()),
            (Kind::Int { least, most }, Value::Number(number)) => match number.as_i64() {
                Some(number) if (*least..=*most).contains(&number) => Ok(()),
                Some(_) => refuse(Code::OUT_OF_RANGE, format!("must be within {least} and {most}")),
                None if number.is_f64() => refuse(Code::INVALID_TYPE, "must be a whole number".into()),
                None => refuse(Code::OUT_OF_RANGE, format!("must be within {least} and {most}")),
            },
            (Kind::Text { most }, Value::String(text)) if text.chars().count() > *most => {
                refuse(Code::INVALID_VALUE, format!("has at most {most} characters"))
            }
            (Kind::Text { .. }, Value::String(_)) => Ok(()),
            (Kind::Word(words), Value::String(text)) if !words.contains(&text.as_str()) => {
                refuse(Code::INVALID_VALUE, format!("must be one of {}", words.join(", ")))
            }
            (Kind::Word(_), Value::String(_)) => Ok(()),
            (Kind::List { most }, Value::Array(list)) if list.len() > *most => {
                refuse(Code::OUT_OF_RANGE, format!("has at most {most} entries"))
            }
            (Kind::List { .. }, Value::Array(_)) => Ok(()),
            (kind, _) => refuse(Code::INVALID_TYPE, format!("must be {}", kind.word())),
        }
    }

    /// The JSON schema of the field.
    pub(crate) fn schema(&self) -> Value {
        match self.kind {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Int { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Kind::Text { most } => json!({ "type": "string", "maxLength": most }),
            Kind::Word(words) => json!({ "enum": words }),
            Kind::Object => json!({ "type": "object" }),
            Kind::List { most } => json!({ "type": "array", "maxItems": most }),
        }
    }
}

impl Kind {
    const fn word(&self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int { .. } => "a whole number",
            Self::Text { .. } | Self::Word(_) => "a text",
            Self::Object => "an object",
            Self::List { .. } => "a list",
        }
    }
}

/// A name that a client chose, short enough to repeat.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        needs("brightness", BYTE),
        may("name", Kind::Text { most: 4 }),
        may("on", Kind::Bool),
        may("kind", Kind::Word(&["fade", "wipe"])),
        may("list", Kind::List { most: 1 }),
    ];

    fn code(text: &str) -> Option<(Code, String)> {
        let given = serde_json::from_str::<Map<String, Value>>(text).unwrap();
        Args::check(FIELDS, false, given).err().map(|refusal| (refusal.code, refusal.field.unwrap()))
    }

    #[test]
    fn what_does_not_fit_is_refused_by_code_and_field() {
        assert_eq!(
            code("{\"brightness\":255,\"name\":\"äöüß\",\"on\":true,\"kind\":\"wipe\",\"list\":[1]}"),
            None
        );
        for (text, expected, field) in [
            ("{}", Code::MISSING_FIELD, "brightness"),
            ("{\"brightness\":256}", Code::OUT_OF_RANGE, "brightness"),
            ("{\"brightness\":-1}", Code::OUT_OF_RANGE, "brightness"),
            ("{\"brightness\":18446744073709551615}", Code::OUT_OF_RANGE, "brightness"),
            ("{\"brightness\":1.5}", Code::INVALID_TYPE, "brightness"),
            ("{\"brightness\":\"1\"}", Code::INVALID_TYPE, "brightness"),
            ("{\"brightness\":null}", Code::INVALID_TYPE, "brightness"),
            ("{\"brightness\":1,\"name\":\"abcde\"}", Code::INVALID_VALUE, "name"),
            ("{\"brightness\":1,\"on\":1}", Code::INVALID_TYPE, "on"),
            ("{\"brightness\":1,\"kind\":\"x\"}", Code::INVALID_VALUE, "kind"),
            ("{\"brightness\":1,\"list\":[1,2]}", Code::OUT_OF_RANGE, "list"),
            ("{\"brightness\":1,\"bright\":1}", Code::INVALID_PARAMETER, "bright"),
        ] {
            assert_eq!(code(text), Some((expected, field.to_owned())), "{text}");
        }
    }
}
