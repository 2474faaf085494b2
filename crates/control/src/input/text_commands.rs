//! Text commands for use in a terminal: short names of commands.

use serde_json::{Map, Value, json};

use crate::code::{Code, Refusal};

/// A text command and the command that it runs.
pub(crate) struct TextCommand {
    pub(crate) name: &'static str,
    pub(crate) command: &'static str,
    /// The field for the number after the name.
    pub(crate) field: Option<&'static str>,
    /// Fixed arguments.
    given: fn() -> Value,
}

const fn text_command(name: &'static str, command: &'static str, field: Option<&'static str>) -> TextCommand {
    TextCommand { name, command, field, given: || json!({}) }
}

/// Every text command.
pub(crate) const TEXT_COMMANDS: &[TextCommand] = &[
    text_command("status", "device.getStatus", None),
    text_command("state", "device.getState", None),
    text_command("info", "device.getInfo", None),
    text_command("lease", "control.status", None),
    text_command("effects", "effects.list", None),
    text_command("palettes", "palettes.list", None),
    text_command("presets", "effectPresets.list", None),
    text_command("stream", "render.stream.status", None),
    text_command("effect", "setEffect", Some("effectId")),
    text_command("next", "nextEffect", None),
    text_command("prev", "prevEffect", None),
    text_command("brightness", "setBrightness", Some("brightness")),
    text_command("speed", "setSpeed", Some("speed")),
    text_command("palette", "setPalette", Some("paletteId")),
    text_command("preset", "effectPresets.load", Some("id")),
    text_command("play", "show.resume", None),
    text_command("pause", "show.pause", None),
    TextCommand { name: "on", command: "setPower", field: None, given: || json!({ "on": true }) },
    TextCommand { name: "off", command: "setPower", field: None, given: || json!({ "on": false }) },
];

/// Parses a line into a text command and its arguments.
pub(crate) fn parse_line(line: &str) -> Result<(&'static TextCommand, Map<String, Value>), Refusal> {
    let mut parts = line.split_whitespace();
    let first = parts.next().unwrap_or_default();
    let Some(found) = TEXT_COMMANDS.iter().find(|known| known.name.eq_ignore_ascii_case(first)) else {
        return Err(Refusal::new(
            Code::INVALID_ACTION,
            format!("unknown command type `{}`", crate::args::truncate_name(first)),
        ));
    };
    let mut given = (found.given)().as_object().cloned().unwrap_or_default();
    match (found.field, parts.next(), parts.next()) {
        (None, None, _) => {}
        (Some(field), Some(number), None) => {
            let number: i64 = number.parse().map_err(|_| {
                Refusal::new(Code::INVALID_TYPE, format!("`{}` requires an integer", found.name)).field(field)
            })?;
            given.insert(field.into(), number.into());
        }
        (Some(field), None, _) => {
            return Err(
                Refusal::new(Code::MISSING_FIELD, format!("`{}` requires a number", found.name)).field(field)
            );
        }
        _ => {
            return Err(Refusal::new(
                Code::INVALID_VALUE,
                format!("too many arguments for `{}`", found.name),
            ));
        }
    }
    Ok((found, given))
}

/// Lists the text commands.
pub(crate) fn help() -> String {
    let names: Vec<_> = TEXT_COMMANDS
        .iter()
        .map(|command| match command.field {
            Some(_) => format!("{} N", command.name),
            None => command.name.to_owned(),
        })
        .collect();
    format!("OK {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_command_has_a_command_with_its_field() {
        for text in TEXT_COMMANDS {
            let command = crate::command::find(text.command).unwrap_or_else(|| panic!("{}", text.name));
            if let Some(field) = text.field {
                assert!(command.fields.iter().any(|known| known.name == field), "{}", text.name);
            }
        }
    }

    #[test]
    fn lines_are_parsed_or_refused_with_a_code() {
        assert_eq!(parse_line("brightness 12").unwrap().1["brightness"], 12);
        assert_eq!(parse_line("  OFF ").unwrap().1["on"], false);
        for (line, code) in [
            ("brightness", Code::MISSING_FIELD),
            ("brightness x", Code::INVALID_TYPE),
            ("brightness 1 2", Code::INVALID_VALUE),
            ("next 3", Code::INVALID_VALUE),
            ("explode", Code::INVALID_ACTION),
            ("control.acquire", Code::INVALID_ACTION),
        ] {
            assert_eq!(parse_line(line).map(|_| ()).unwrap_err().code, code, "{line}");
        }
    }
}
