//! Loads settings from all sources.

use std::io;
use std::path::{Path, PathBuf};

use super::effective::{self, Effective};
use super::environment::Environment;
use super::error::{ConfigError, Fault};
use super::file;
use super::settings::Settings;
use super::source::Source;
use super::spec::Spec;
use super::table::Table;

/// The file that is read if it exists and no other is named.
const DEFAULT_FILE: &str = "tenure.toml";

/// The prefix of variables that older installations use, and the section they belong to.
const OLD_PREFIX: (&str, &str) = ("XG2G_", "sessions");

/// The sources of settings.
#[derive(Debug)]
pub struct Loader {
    environment: Environment,
    named: Option<(PathBuf, Source)>,
    default: PathBuf,
    flags: Vec<(String, String, String)>,
    declared: Vec<Spec>,
    prefixes: Vec<(&'static str, &'static str)>,
}

/// Settings and their sources.
#[derive(Debug)]
pub struct Config {
    /// The settings.
    pub settings: Settings,
    table: Table,
}

impl Loader {
    /// Loads from this environment and from `./tenure.toml` if it exists, without flags.
    pub fn new(environment: Environment) -> Self {
        let variable = "TENURE_CONFIG";
        let named = environment
            .get(variable)
            .map(|path| (PathBuf::from(path), Source::Variable(variable.to_owned())));
        Self {
            environment,
            named,
            default: DEFAULT_FILE.into(),
            flags: Vec::new(),
            declared: Vec::new(),
            prefixes: vec![OLD_PREFIX],
        }
    }

    /// Reads this file, which must exist: the value of `--config`.
    #[must_use]
    pub fn file(mut self, path: Option<PathBuf>) -> Self {
        if let Some(path) = path {
            self.named = Some((path, Source::Flag("--config".to_owned())));
        }
        self
    }

    /// Reads this file instead of `./tenure.toml`, if it exists.
    #[must_use]
    pub fn default_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.default = path.into();
        self
    }

    /// Adds a flag, such as `("--listen", "listen", …)`; settings in sections are named `limits.max_connections`.
    #[must_use]
    pub fn flag(mut self, flag: &str, setting: &str, value: Option<impl Into<String>>) -> Self {
        if let Some(value) = value {
            self.flags.push((flag.to_owned(), setting.to_owned(), value.into()));
        }
        self
    }

    /// Declares the settings of a section; others in it become unknown settings.
    #[must_use]
    pub fn declare(mut self, specs: &[Spec]) -> Self {
        self.declared.extend_from_slice(specs);
        self
    }

    /// Takes variables `PREFIX_NAME` as settings `name` of a section. Of two prefixes the later one wins.
    #[must_use]
    pub fn variable_prefix(mut self, prefix: &'static str, section: &'static str) -> Self {
        self.prefixes.push((prefix, section));
        self
    }

    /// Loads the settings, or returns all errors.
    pub fn load(self) -> Result<Config, ConfigError> {
        let mut table = Table::new(&self.declared);
        self.read_file(&mut table);
        for (name, value) in self.environment.iter() {
            table.put_other_name(name, value);
        }
        for prefix in &self.prefixes {
            self.environment.iter().for_each(|(name, value)| table.put_prefixed(*prefix, name, value));
        }
        for (name, value) in self.environment.iter() {
            table.put_variable(name, value);
        }
        for (flag, setting, value) in &self.flags {
            let (section, name) = setting.split_once('.').unwrap_or(("", setting));
            table.put_text(section, name, value, &Source::Flag(flag.clone()));
        }
        let settings = Settings::from_table(&mut table);
        if table.faults.is_empty() {
            return Ok(Config { settings, table });
        }
        Err(ConfigError { faults: table.faults })
    }

    fn read_file(&self, table: &mut Table) {
        let (path, source): (&Path, _) = match &self.named {
            Some((path, source)) => (path, Some(source)),
            None => (&self.default, None),
        };
        match std::fs::read_to_string(path) {
            Ok(text) => file::read_file(path, &text, table),
            Err(error) if error.kind() == io::ErrorKind::NotFound && source.is_none() => {}
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                table.faults.push(Fault::new(
                    "configuration file",
                    source.unwrap_or(&Source::Default),
                    message,
                ));
            }
        }
    }
}

impl Config {
    /// Ignored variables: they resemble settings, but Kubernetes sets them for a Service called `tenure`.
    pub fn ignored(&self) -> &[String] {
        &self.table.ignored
    }

    /// Every setting with its source, secrets hidden, by section and name.
    pub fn entries(&self) -> Vec<Effective> {
        effective::entries(&self.table)
    }

    /// The same in the format of the configuration file.
    pub fn effective(&self) -> String {
        effective::text(&self.entries())
    }
}
