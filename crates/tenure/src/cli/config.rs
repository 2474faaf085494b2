//! `tenure config`: the effective configuration of `tenure up`, with secrets hidden.

use serde_json::{Map, Value};

use super::{Failure, Result, Screen, exit};

/// The settings that `tenure up` with the same flags would use.
pub(crate) use crate::up::Args;

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let config = args.load()?;
    if !screen.is_json() {
        screen.line(config.effective().trim())?;
        return Ok(exit::DONE);
    }
    let mut all = Map::new();
    for entry in config.entries() {
        let path =
            if entry.section.is_empty() { entry.name } else { format!("{}.{}", entry.section, entry.name) };
        let value =
            serde_json::to_value(&entry.value).map_err(|error| Failure::internal(error.to_string()))?;
        let one = Map::from_iter([
            ("value".to_owned(), value),
            ("source".to_owned(), Value::String(entry.source.to_string())),
        ]);
        all.insert(path, Value::Object(one));
    }
    screen.json(&all)?;
    Ok(exit::DONE)
}
