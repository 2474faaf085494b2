//! The effective settings: every value with its source, secrets hidden.

use toml::Value;

use super::source::Source;
use super::spec::{Spec, path};
use super::table::Table;

/// Shown instead of a secret.
const HIDDEN: &str = "(hidden)";

/// The effective value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The section; empty at the top.
    pub section: String,
    /// The name in its section.
    pub name: String,
    /// The value; none if it is not set.
    pub value: Option<Value>,
    /// Where it came from.
    pub source: Source,
}

impl Effective {
    /// `section.name`, or the name alone at the top.
    pub fn path(&self) -> String {
        path(&self.section, &self.name)
    }
}

pub(super) fn entries(table: &Table) -> Vec<Effective> {
    let mut entries: Vec<Effective> = Vec::new();
    for (section, name, entry) in table.iter() {
        let spec = table.specs().iter().find(|spec| spec.section == section && spec.name == name);
        entries.push(Effective {
            section: section.to_owned(),
            name: name.to_owned(),
            value: Some(display_value(spec, name, &entry.value)),
            source: entry.source.clone(),
        });
    }
    for spec in table.specs().iter().filter(|spec| table.get(spec.section, spec.name).is_none()) {
        let (section, name) = (spec.section.to_owned(), spec.name.to_owned());
        entries.push(Effective { section, name, value: None, source: Source::Default });
    }
    entries.sort_by(|a, b| (&a.section, &a.name).cmp(&(&b.section, &b.name)));
    entries
}

pub(super) fn text(entries: &[Effective]) -> String {
    let lines: Vec<(String, &Effective)> = entries
        .iter()
        .map(|entry| match &entry.value {
            Some(value) => (format!("{} = {value}", entry.name), entry),
            None => (format!("# {} is not set", entry.name), entry),
        })
        .collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(60);
    let mut text = String::new();
    let mut section = "";
    for (line, entry) in &lines {
        if entry.section != section {
            section = &entry.section;
            text += &format!("\n[{section}]\n");
        }
        match entry.value {
            Some(_) => text += &format!("{line:width$}  # {}\n", entry.source),
            None => text += &format!("{line}\n"),
        }
    }
    text
}

fn display_value(spec: Option<&Spec>, name: &str, value: &Value) -> Value {
    // In a section without declared settings, only names can identify secrets.
    let secret_words = ["secret", "token", "password", "key"];
    let secret = spec.map_or_else(|| secret_words.iter().any(|word| name.contains(word)), |spec| spec.secret);
    match value {
        _ if secret => Value::String(HIDDEN.to_owned()),
        Value::String(text) => Value::String(without_password(text)),
        other => other.clone(),
    }
}

/// A URL's `user:password@` with the password hidden; any other text as it is.
pub(super) fn without_password(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let Some((user, host)) = text[start..end].rsplit_once('@') else { return text.to_owned() };
    let user = user.split(':').next().unwrap_or_default();
    format!("{}{user}:{HIDDEN}@{host}{}", &text[..start], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_hidden() {
        for (given, redacted) in [
            ("redis://:pw@host:1/0", "redis://:(hidden)@host:1/0"),
            ("redis://u:p@w@host", "redis://u:(hidden)@host"),
            ("redis://host/a@b", "redis://host/a@b"),
            ("./tenure-data", "./tenure-data"),
        ] {
            assert_eq!(without_password(given), redacted);
        }
    }
}
