//! The values that were given, each with its place. A later source replaces an earlier one.

use std::collections::BTreeMap;
use std::fmt;

use toml::Value;

use super::error::{Fault, nearest};
use super::links::is_service_link;
use super::place::Place;
use super::spec::{OWN, SECTIONS, Spec, path, variable};

/// Variables that begin like settings and are none: the client's, what `tenure run` gives its command, and
/// the one that names the file.
const NOT_SETTINGS: [&str; 6] =
    ["TENURE_URL", "TENURE_TOKEN", "TENURE_KEY", "TENURE_GENERATION", "TENURE_HOLDER", "TENURE_CONFIG"];

/// Prefixes of variables that older installations use, and the section they belong to.
const OLD_PREFIXES: [(&str, &str); 2] = [("XG2G_", "sessions"), ("MC_", "meet")];

/// A value and where it came from.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) place: Place,
}

/// Shows no value: it may be a secret, and this does not know.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {}", self.place)
    }
}

/// Values by section and name, the settings they are checked against, and what was wrong.
#[derive(Debug)]
pub(super) struct Table {
    specs: Vec<Spec>,
    entries: BTreeMap<(String, String), Entry>,
    pub(super) faults: Vec<Fault>,
    /// Variables that look like settings and are the platform's.
    pub(super) ignored: Vec<String>,
}

impl Table {
    pub(super) fn new(declared: &[Spec]) -> Self {
        let specs = OWN.iter().chain(declared).copied().collect();
        let mut table = Self { specs, entries: BTreeMap::new(), faults: Vec::new(), ignored: Vec::new() };
        for spec in table.specs.clone() {
            if let Some(value) = spec.default.and_then(|default| spec.kind.parse(default)) {
                table.insert(spec.section, spec.name, value, &Place::Default);
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

    /// Takes a value from the file.
    pub(super) fn put_value(&mut self, section: &str, name: &str, value: Value, place: &Place) {
        let Some(spec) = self.spec(section, name) else {
            if self.is_raw(section) {
                return self.insert(section, name, value, place);
            }
            return self.unknown(section, name, place);
        };
        let shown = shown(&spec, &value);
        match spec.kind.check(value) {
            Some(value) => self.insert(section, name, value, place),
            None => self.misfit(&spec, &shown, place),
        }
    }

    /// Takes a value from a variable or a flag.
    pub(super) fn put_text(&mut self, section: &str, name: &str, text: &str, place: &Place) {
        let Some(spec) = self.spec(section, name) else {
            if self.is_raw(section) {
                return self.insert(section, name, Value::String(text.to_owned()), place);
            }
            return self.unknown(section, name, place);
        };
        match spec.kind.parse(text) {
            Some(value) => self.insert(section, name, value, place),
            None => self.misfit(&spec, &shown(&spec, &Value::String(text.to_owned())), place),
        }
    }

    /// Takes a variable of the environment, if it is a setting.
    pub(super) fn put_variable(&mut self, variable: &str, text: &str) {
        let place = Place::Variable(variable.to_owned());
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
            return self.unknown(&section, &name, &place);
        }
        self.put_text(&section, &name, text, &place);
    }

    /// Takes a variable of an older installation. Foreign ones may begin the same way, so what the service
    /// does not know is left alone.
    pub(super) fn put_old_variable(&mut self, variable: &str, text: &str) {
        let named = self.specs.iter().find(|spec| spec.also.contains(&variable)).copied();
        if let Some(spec) = named {
            return self.put_text(spec.section, spec.name, text, &Place::Variable(variable.to_owned()));
        }
        for (prefix, section) in OLD_PREFIXES {
            let Some(name) = variable.strip_prefix(prefix).map(str::to_lowercase) else { continue };
            if self.is_raw(section) || self.spec(section, &name).is_some() {
                self.put_text(section, &name, text, &Place::Variable(variable.to_owned()));
            }
        }
    }

    pub(super) fn has_section(&self, section: &str) -> bool {
        SECTIONS.contains(&section) || self.specs.iter().any(|spec| spec.section == section)
    }

    pub(super) fn unknown_section(&mut self, section: &str, place: &Place) {
        let sections = self.sections();
        let hint = hint(nearest(section, sections.iter().copied()));
        let message = format!("there is no such section; {hint}the sections are {}", sections.join(", "));
        self.faults.push(Fault::new(format!("[{section}]"), place, message));
    }

    /// A section that no service has declared the settings of.
    fn is_raw(&self, section: &str) -> bool {
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

    fn insert(&mut self, section: &str, name: &str, value: Value, place: &Place) {
        let entry = Entry { value, place: place.clone() };
        self.entries.insert((section.to_owned(), name.to_owned()), entry);
    }

    fn misfit(&mut self, spec: &Spec, shown: &str, place: &Place) {
        let message = format!("{shown} does not fit; it must be {}", spec.kind.allowed());
        self.faults.push(Fault::new(spec.path(), place, message));
    }

    fn unknown(&mut self, section: &str, name: &str, place: &Place) {
        let is_variable = matches!(place, Place::Variable(_));
        let full = |spec: &Spec| {
            if is_variable { variable(spec.section, spec.name) } else { spec.name.to_owned() }
        };
        // A variable may be wrong in its section too, so it is held against all of them.
        let here = |spec: &&Spec| is_variable || spec.section == section;
        let names: Vec<String> = self.specs.iter().filter(here).map(full).collect();
        let given = if is_variable { variable(section, name) } else { name.to_owned() };
        let hint = hint(nearest(&given, names.iter().map(String::as_str)));
        let whole = if section.is_empty() { "at the top there are" } else { "the section knows" };
        let in_section: Vec<String> = self.specs.iter().filter(|s| s.section == section).map(full).collect();
        let list = match in_section.is_empty() {
            true => format!("the sections are {}", self.sections().join(", ")),
            false => format!("{whole} {}", in_section.join(", ")),
        };
        self.faults.push(Fault::new(
            path(section, name),
            place,
            format!("there is no such setting; {hint}{list}"),
        ));
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default()
}

/// A value for an error message; secrets stay out of it.
fn shown(spec: &Spec, value: &Value) -> String {
    if spec.secret { "the value".into() } else { value.to_string() }
}
