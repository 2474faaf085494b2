//! Settings: flags, then `TENURE_*` variables, then the file, then defaults. A setting nobody knows, or with a
//! value that does not fit, is an error that names it, its place and what is allowed. All are reported at once.

mod effective;
mod environment;
mod error;
mod file;
mod links;
mod loader;
mod place;
mod settings;
mod spec;
mod table;
mod tokens;

pub use effective::Effective;
pub use environment::Environment;
pub use error::{ConfigError, Fault};
pub use loader::{Config, Loader};
pub use place::Place;
pub use settings::{Limits, Log, LogFormat, Settings, Tls};
pub use spec::{Kind, SECTIONS, Spec};

#[cfg(test)]
mod tests;
