//! Settings: flags, then `TENURE_*` variables, then the file, then defaults. An unknown setting or an invalid value is an
//! error that names the setting, its source and what is allowed. All errors are reported at once.

mod effective;
mod environment;
mod error;
mod file;
mod links;
mod loader;
mod settings;
mod source;
mod spec;
mod table;
mod tokens;

pub use effective::Effective;
pub use environment::Environment;
pub use error::{ConfigError, Fault};
pub use loader::{Config, Loader};
pub use settings::{Limits, Log, LogFormat, Settings, Tls};
pub use source::Source;
pub use spec::{Kind, SECTIONS, Spec};

#[cfg(test)]
mod tests;
