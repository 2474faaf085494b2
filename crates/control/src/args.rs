//! The fields of commands: names, types and ranges. One description both checks arguments and yields the JSON schema.

use serde_json::{Map, Value, json};

use crate::code::{Code, Refusal};

/// A field of a command.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The type and range of its value.
    pub kind: Kind,
    /// Whether it is required.
    pub required: bool,
}

/// The type and range of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int {
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// A string.
    Text {
        /// Maximum number of characters.
        most: usize,
    },
    /// One of these strings.
    Word(&'static [&'static str]),
    /// An object that the command validates.
    Object,
    /// A list that the command validates.
    List {
        /// Maximum number of entries.
        most: usize,
    },
}

/// A required field.
pub(crate) const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

/// An optional field.
pub(crate) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

/// A byte.
pub(crate) const BYTE: Kind = Kind::Int { least: 0, most: 255 };

/// Valid arguments of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// Checks `given` against `fields`. Unknown fields are refused unless `allow_unknown` is set.
    pub(crate) fn check(
        fields: &[Field],
        allow_unknown: bool,
        given: Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let mut args = Map::new();
        for (name, value) in given {
            match fields.iter().find(|field| field.name == name) {
                Some(field) => {
                    field.check(&value)?;
                    args.insert(name, value);
                }
                None if allow_unknown => {}
                None => {
                    let message = format!("unknown field `{}`", truncate_name(&name));
                    return Err(Refusal::new(Code::INVALID_PARAMETER, message).field(truncate_name(&name)));
                }
            }
        }
        match fields.iter().find(|field| field.required && !args.contains_key(field.name)) {
            Some(field) => {
                Err(Refusal::new(Code::MISSING_FIELD, format!("field `{}` is required", field.name))
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

    /// A number of a field limited to a byte.
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
                Some(_) => refuse(Code::OUT_OF_RANGE, format!("must be between {least} and {most}")),
                None if number.is_f64() => refuse(Code::INVALID_TYPE, "must be an integer".into()),
                None => refuse(Code::OUT_OF_RANGE, format!("must be between {least} and {most}")),
            },
            (Kind::Text { most }, Value::String(text)) if text.chars().count() > *most => {
                refuse(Code::INVALID_VALUE, format!("must have at most {most} characters"))
            }
            (Kind::Text { .. }, Value::String(_)) => Ok(()),
            (Kind::Word(words), Value::String(text)) if !words.contains(&text.as_str()) => {
                refuse(Code::INVALID_VALUE, format!("must be one of {}", words.join(", ")))
            }
            (Kind::Word(_), Value::String(_)) => Ok(()),
            (Kind::List { most }, Value::Array(list)) if list.len() > *most => {
                refuse(Code::OUT_OF_RANGE, format!("must have at most {most} entries"))
            }
            (Kind::List { .. }, Value::Array(_)) => Ok(()),
            (kind, _) => refuse(Code::INVALID_TYPE, format!("must be {}", kind.describe())),
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
    const fn describe(&self) -> &'static str {
        match self {
            Self::Bool => "true or false",
            Self::Int { .. } => "an integer",
            Self::Text { .. } | Self::Word(_) => "a string",
            Self::Object => "an object",
            Self::List { .. } => "a list",
        }
    }
}

impl Kind {
    /// The type and range, for the command reference.
    pub(crate) fn range(&self) -> String {
        match self {
            Self::Int { least: i64::MIN, .. } => "an integer".into(),
            Self::Int { least, most } => format!("an integer from {least} to {most}"),
            Self::Text { most } => format!("a string of at most {most} characters"),
            Self::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            Self::List { most } => format!("a list of at most {most} entries"),
            Self::Bool | Self::Object => self.describe().into(),
        }
    }
}

/// A client's name, truncated for error messages.
pub(crate) fn truncate_name(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        required("brightness", BYTE),
        optional("name", Kind::Text { most: 4 }),
        optional("on", Kind::Bool),
        optional("kind", Kind::Word(&["fade", "wipe"])),
        optional("list", Kind::List { most: 1 }),
    ];

    fn code(text: &str) -> Option<(Code, String)> {
        let given = serde_json::from_str::<Map<String, Value>>(text).unwrap();
        Args::check(FIELDS, false, given).err().map(|refusal| (refusal.code, refusal.field.unwrap()))
    }

    #[test]
    fn invalid_arguments_are_refused_with_code_and_field() {
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
