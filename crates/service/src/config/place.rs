//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// The place a setting was given at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody gave it.
    Default,
    /// In the file, with line and column from one.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// In an environment variable of this name.
    Variable(String),
    /// On the command line, as this flag.
    Flag(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
