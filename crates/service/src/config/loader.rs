//! Bringing the sources together.

use std::io;
use std::path::{Path, PathBuf};

use super::effective::{self, Effective};
use super::environment::Environment;
use super::error::{ConfigError, Fault};
use super::file;
use super::place::Place;
use super::settings::Settings;
use super::spec::Spec;
use super::table::Table;

/// The file that is read when no other is named and it is there.
const DEFAULT_FILE: &str = "tenure.toml";

/// The sources of settings.
#[derive(Debug)]
pub struct Loader {
    environment: Environment,
    named: Option<(PathBuf, Place)>,
    default: PathBuf,
    flags: Vec<(String, String, String)>,
    declared: Vec<Spec>,
}

/// Settings, and where each came from.
#[derive(Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    table: Table,
}

impl Loader {
    /// Sources with this environment, `./tenure.toml` if it is there, and no flags.
    pub fn new(environment: Environment) -> Self {
        let variable = "TENURE_CONFIG";
        let named =
            environment.get(variable).map(|path| (PathBuf::from(path), Place::Variable(variable.to_owned())));
        Self { environment, named, default: DEFAULT_FILE.into(), flags: Vec::new(), declared: Vec::new() }
    }

    /// Reads this file, which must be there: what `--config` says.
    #[must_use]
    pub fn file(mut self, path: Option<PathBuf>) -> Self {
        if let Some(path) = path {
            self.named = Some((path, Place::Flag("--config".to_owned())));
        }
        self
    }

    /// Reads this file in the place of `./tenure.toml` if it is there.
    #[must_use]
    pub fn default_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.default = path.into();
        self
    }

    /// Takes the value of a flag, such as `("--listen", "listen", …)`; sections as `limits.max_connections`.
    #[must_use]
    pub fn flag(mut self, flag: &str, setting: &str, value: Option<impl Into<String>>) -> Self {
        if let Some(value) = value {
            self.flags.push((flag.to_owned(), setting.to_owned(), value.into()));
        }
        self
    }

    /// Declares the settings of a service's section; from then on others in it are unknown.
    #[must_use]
    pub fn declare(mut self, specs: &[Spec]) -> Self {
        self.declared.extend_from_slice(specs);
        self
    }

    /// The settings, or everything that is wrong with them.
    pub fn load(self) -> Result<Config, ConfigError> {
        let mut table = Table::new(&self.declared);
        self.read_file(&mut table);
        for (name, value) in self.environment.iter() {
            table.put_old_variable(name, value);
        }
        for (name, value) in self.environment.iter() {
            table.put_variable(name, value);
        }
        for (flag, setting, value) in &self.flags {
            let (section, name) = setting.split_once('.').unwrap_or(("", setting));
            table.put_text(section, name, value, &Place::Flag(flag.clone()));
        }
        let settings = Settings::from_table(&mut table);
        if table.faults.is_empty() {
            return Ok(Config { settings, table });
        }
        Err(ConfigError { faults: table.faults })
    }

    fn read_file(&self, table: &mut Table) {
        let (path, place): (&Path, _) = match &self.named {
            Some((path, place)) => (path, Some(place)),
            None => (&self.default, None),
        };
        match std::fs::read_to_string(path) {
            Ok(text) => file::read(path, &text, table),
            Err(error) if error.kind() == io::ErrorKind::NotFound && place.is_none() => {}
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                table.faults.push(Fault::new("the file", place.unwrap_or(&Place::Default), message));
            }
        }
    }
}

impl Config {
    /// Variables that look like settings and are links that Kubernetes made to a Service called `tenure`.
    pub fn ignored(&self) -> &[String] {
        &self.table.ignored
    }

    /// Every setting with its source, secrets hidden, by section and name.
    pub fn entries(&self) -> Vec<Effective> {
        effective::entries(&self.table)
    }

    /// The same as a file that could be read back, but for the secrets.
    pub fn effective(&self) -> String {
        effective::text(&self.entries())
    }
}
