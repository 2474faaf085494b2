//! Reads the configuration file, with the position of every setting.

use std::ops::Range;
use std::path::Path;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::error::Fault;
use super::source::Source;
use super::table::Table;

/// Adds every setting of the file `path` with the contents `text`.
pub(super) fn read_file(path: &Path, text: &str, table: &mut Table) {
    let source = |span: Range<usize>| source(path, text, span.start);
    let parsed = match DeTable::parse(text) {
        Ok(parsed) => parsed.into_inner(),
        Err(error) => {
            let at = source(error.span().unwrap_or(0..0));
            table.faults.push(Fault::new("configuration file", &at, error.message().to_owned()));
            return;
        }
    };
    for (key, value) in parsed {
        let (name, at) = (key.get_ref().to_string(), source(key.span()));
        match value.into_inner() {
            DeValue::Table(_) if !table.has_section(&name) => table.unknown_section(&name, &at),
            DeValue::Table(section) => {
                for (key, value) in section {
                    let at = source(key.span());
                    put(&name, key.get_ref(), value.into_inner(), &at, table);
                }
            }
            value => put("", &name, value, &at, table),
        }
    }
}

fn put(section: &str, name: &str, value: DeValue<'_>, at: &Source, table: &mut Table) {
    match to_value(value) {
        Some(value) => table.put_value(section, name, value, at),
        None => {
            let setting = super::spec::path(section, name);
            table.faults.push(Fault::new(setting, at, "the number is too large"));
        }
    }
}

/// The value without its positions; none for a number that does not fit in 64 bits.
fn to_value(value: DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(value) => Value::Datetime(value),
        DeValue::Array(list) => {
            let values = list.into_iter().map(|value| to_value(value.into_inner()));
            Value::Array(values.collect::<Option<_>>()?)
        }
        DeValue::Table(map) => {
            let pairs = map
                .into_iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), to_value(value.into_inner())?)));
            Value::Table(pairs.collect::<Option<_>>()?)
        }
    })
}

fn source(path: &Path, text: &str, at: usize) -> Source {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Source::File {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[start..].chars().count() + 1,
    }
}
