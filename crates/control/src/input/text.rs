//! Words for people at a terminal. Each is a command under a shorter name.

use serde_json::{Map, Value, json};

use crate::code::{Code, Refusal};

/// A word and the command behind it.
pub(crate) struct Word {
    pub(crate) word: &'static str,
    pub(crate) command: &'static str,
    /// The field that the number after the word is for.
    pub(crate) field: Option<&'static str>,
    /// What else the command is given.
    given: fn() -> Value,
}

const fn word(word: &'static str, command: &'static str, field: Option<&'static str>) -> Word {
    Word { word, command, field, given: || json!({}) }
}

/// Every word.
pub(crate) const WORDS: &[Word] = &[
    word("status", "device.getStatus", None),
    word("state", "device.getState", None),
    word("info", "device.getInfo", None),
    word("lease", "control.status", None),
    word("effects", "effects.list", None),
    word("palettes", "palettes.list", None),
    word("presets", "effectPresets.list", None),
    word("stream", "render.stream.status", None),
    word("effect", "setEffect", Some("effectId")),
    word("next", "nextEffect", None),
    word("prev", "prevEffect", None),
    word("brightness", "setBrightness", Some("brightness")),
    word("speed", "setSpeed", Some("speed")),
    word("palette", "setPalette", Some("paletteId")),
    word("preset", "effectPresets.load", Some("id")),
    word("play", "show.resume", None),
    word("pause", "show.pause", None),
    Word { word: "on", command: "setPower", field: None, given: || json!({ "on": true }) },
    Word { word: "off", command: "setPower", field: None, given: || json!({ "on": false }) },
];

/// The word of a line and what its command is given.
pub(crate) fn read(line: &str) -> Result<(&'static Word, Map<String, Value>), Refusal> {
    let mut parts = line.split_whitespace();
    let first = parts.next().unwrap_or_default();
    let Some(word) = WORDS.iter().find(|known| known.word.eq_ignore_ascii_case(first)) else {
        return Err(Refusal::new(
            Code::INVALID_ACTION,
            format!("unknown command type `{}`", crate::args::shown(first)),
        ));
    };
    let mut given = (word.given)().as_object().cloned().unwrap_or_default();
    match (word.field, parts.next(), parts.next()) {
        (None, None, _) => {}
        (Some(field), Some(number), None) => {
            let number: i64 = number.parse().map_err(|_| {
                Refusal::new(Code::INVALID_TYPE, format!("`{}` needs a whole number", word.word)).field(field)
            })?;
            given.insert(field.into(), number.into());
        }
        (Some(field), None, _) => {
            return Err(
                Refusal::new(Code::MISSING_FIELD, format!("`{}` needs a number", word.word)).field(field)
            );
        }
        _ => return Err(Refusal::new(Code::INVALID_VALUE, format!("too many words after `{}`", word.word))),
    }
    Ok((word, given))
}

/// What there is, for people who ask.
pub(crate) fn help() -> String {
    let words: Vec<_> = WORDS
        .iter()
        .map(|word| match word.field {
            Some(_) => format!("{} N", word.word),
            None => word.word.to_owned(),
        })
        .collect();
    format!("OK {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_to_a_command_that_takes_its_number() {
        for word in WORDS {
            let command = crate::command::find(word.command).unwrap_or_else(|| panic!("{}", word.word));
            if let Some(field) = word.field {
                assert!(command.fields.iter().any(|known| known.name == field), "{}", word.word);
            }
        }
    }

    #[test]
    fn lines_are_read_or_refused_by_code() {
        assert_eq!(read("brightness 12").unwrap().1["brightness"], 12);
        assert_eq!(read("  OFF ").unwrap().1["on"], false);
        for (line, code) in [
            ("brightness", Code::MISSING_FIELD),
            ("brightness x", Code::INVALID_TYPE),
            ("brightness 1 2", Code::INVALID_VALUE),
            ("next 3", Code::INVALID_VALUE),
            ("explode", Code::INVALID_ACTION),
            ("control.acquire", Code::INVALID_ACTION),
        ] {
            assert_eq!(read(line).map(|_| ()).unwrap_err().code, code, "{line}");
        }
    }
}
