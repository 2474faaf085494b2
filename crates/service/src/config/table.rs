//! Values with their sources. A later source replaces an earlier one.

use std::collections::BTreeMap;
use std::fmt;

use toml::Value;

use super::error::{Fault, nearest};
use super::links::is_service_link;
use super::source::Source;
use super::spec::{OWN, SECTIONS, Spec, path, variable};

/// `TENURE_` variables that are not settings: those of the client, those that `tenure run` sets for its command, and the
/// one that names the file.
const NOT_SETTINGS: [&str; 6] =
    ["TENURE_URL", "TENURE_TOKEN", "TENURE_KEY", "TENURE_GENERATION", "TENURE_HOLDER", "TENURE_CONFIG"];

/// A value and where it came from.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) source: Source,
}

/// Hides the value, which may be a secret.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {}", self.source)
    }
}

/// Values by section and name, the declared settings, and errors.
#[derive(Debug)]
pub(super) struct Table {
    specs: Vec<Spec>,
    entries: BTreeMap<(String, String), Entry>,
    pub(super) faults: Vec<Fault>,
    /// Variables that resemble settings but come from the platform.
    pub(super) ignored: Vec<String>,
}

impl Table {
    pub(super) fn new(declared: &[Spec]) -> Self {
        let specs = OWN.iter().chain(declared).copied().collect();
        let mut table = Self { specs, entries: BTreeMap::new(), faults: Vec::new(), ignored: Vec::new() };
        for spec in table.specs.clone() {
            if let Some(value) = spec.default.and_then(|default| spec.kind.parse(default)) {
                table.insert(spec.section, spec.name, value, &Source::Default);
            }
        }
        table
    }

    pub(super) fn specs(&self) -> &[Spec] {
        &self.specs
    }

    pub(super) fn get(&self, section: &str, name: &str) -> Option<&Entry> {
        self.entries.get(&(section.to_owned(), name.to_owned()))
    }

    /// Every value, by section and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, &Entry)> {
        self.entries.iter().map(|((section, name), entry)| (section.as_str(), name.as_str(), entry))
    }

    /// Adds a value from the file.
    pub(super) fn put_value(&mut self, section: &str, name: &str, value: Value, source: &Source) {
        let Some(spec) = self.spec(section, name) else {
            if self.is_undeclared(section) {
                return self.insert(section, name, value, source);
            }
            return self.report_unknown(section, name, source);
        };
        let displayed = display_value(&spec, &value);
        match spec.kind.check(value) {
            Some(value) => self.insert(section, name, value, source),
            None => self.report_invalid(&spec, &displayed, source),
        }
    }

    /// Adds a value from a variable or a flag.
    pub(super) fn put_text(&mut self, section: &str, name: &str, text: &str, source: &Source) {
        let Some(spec) = self.spec(section, name) else {
            if self.is_undeclared(section) {
                return self.insert(section, name, Value::String(text.to_owned()), source);
            }
            return self.report_unknown(section, name, source);
        };
        match spec.kind.parse(text) {
            Some(value) => self.insert(section, name, value, source),
            None => {
                self.report_invalid(&spec, &display_value(&spec, &Value::String(text.to_owned())), source)
            }
        }
    }

    /// Adds an environment variable, if it is a setting.
    pub(super) fn put_variable(&mut self, variable: &str, text: &str) {
        let source = Source::Variable(variable.to_owned());
        let Some(rest) = variable.strip_prefix("TENURE_").filter(|_| !NOT_SETTINGS.contains(&variable))
        else {
            return;
        };
        if is_service_link(variable, text) {
            return self.ignored.push(variable.to_owned());
        }
        let rest = rest.to_lowercase();
        let (section, name) = rest.split_once("__").unwrap_or(("", &rest));
        let (section, name) = (section.to_owned(), name.to_owned());
        if !section.is_empty() && !self.has_section(&section) {
            return self.report_unknown(&section, &name, &source);
        }
        self.put_text(&section, &name, text, &source);
    }

    /// Adds a variable that sets a setting under another name.
    pub(super) fn put_other_name(&mut self, variable: &str, text: &str) {
        let named = self.specs.iter().find(|spec| spec.also.contains(&variable)).copied();
        if let Some(spec) = named {
            self.put_text(spec.section, spec.name, text, &Source::Variable(variable.to_owned()));
        }
    }

    /// Adds a variable `PREFIX_NAME` of a section. Variables of other programs may have the same prefix, so unknown ones
    /// are ignored.
    pub(super) fn put_prefixed(&mut self, (prefix, section): (&str, &str), variable: &str, text: &str) {
        let Some(name) = variable.strip_prefix(prefix).map(str::to_lowercase) else { return };
        let other_name = self.specs.iter().any(|spec| spec.also.contains(&variable));
        if !other_name && (self.is_undeclared(section) || self.spec(section, &name).is_some()) {
            self.put_text(section, &name, text, &Source::Variable(variable.to_owned()));
        }
    }

    pub(super) fn has_section(&self, section: &str) -> bool {
        SECTIONS.contains(&section) || self.specs.iter().any(|spec| spec.section == section)
    }

    pub(super) fn unknown_section(&mut self, section: &str, source: &Source) {
        let sections = self.sections();
        let hint = hint(nearest(section, sections.iter().copied()));
        let message = format!("unknown section; {hint}the sections are {}", sections.join(", "));
        self.faults.push(Fault::new(format!("[{section}]"), source, message));
    }

    /// Whether no settings are declared for a section.
    fn is_undeclared(&self, section: &str) -> bool {
        SECTIONS.contains(&section) && !self.specs.iter().any(|spec| spec.section == section)
    }

    fn spec(&self, section: &str, name: &str) -> Option<Spec> {
        self.specs.iter().find(|spec| spec.section == section && spec.name == name).copied()
    }

    fn sections(&self) -> Vec<&'static str> {
        let mut sections: Vec<_> = self.specs.iter().map(|spec| spec.section).chain(SECTIONS).collect();
        sections.retain(|section| !section.is_empty());
        sections.sort_unstable();
        sections.dedup();
        sections
    }

    fn insert(&mut self, section: &str, name: &str, value: Value, source: &Source) {
        let entry = Entry { value, source: source.clone() };
        self.entries.insert((section.to_owned(), name.to_owned()), entry);
    }

    fn report_invalid(&mut self, spec: &Spec, value: &str, source: &Source) {
        let message = format!("invalid value {value}; must be {}", spec.kind.describe());
        self.faults.push(Fault::new(spec.path(), source, message));
    }

    fn report_unknown(&mut self, section: &str, name: &str, source: &Source) {
        let is_variable = matches!(source, Source::Variable(_));
        let full = |spec: &Spec| {
            if is_variable { variable(spec.section, spec.name) } else { spec.name.to_owned() }
        };
        // The section of a variable may be wrong too, so all sections are compared.
        let here = |spec: &&Spec| is_variable || spec.section == section;
        let names: Vec<String> = self.specs.iter().filter(here).map(full).collect();
        let given = if is_variable { variable(section, name) } else { name.to_owned() };
        let hint = hint(nearest(&given, names.iter().map(String::as_str)));
        let whole = if section.is_empty() { "top-level settings are" } else { "the section has" };
        let in_section: Vec<String> = self.specs.iter().filter(|s| s.section == section).map(full).collect();
        let list = match in_section.is_empty() {
            true => format!("the sections are {}", self.sections().join(", ")),
            false => format!("{whole} {}", in_section.join(", ")),
        };
        self.faults.push(Fault::new(path(section, name), source, format!("unknown setting; {hint}{list}")));
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default()
}

/// A value for an error message; secrets are hidden.
fn display_value(spec: &Spec, value: &Value) -> String {
    if spec.secret { "(hidden)".into() } else { value.to_string() }
}
