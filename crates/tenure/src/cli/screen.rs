//! Output: results on standard output, everything else on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::table::Table;
use super::{Failure, Result};

/// The output options.
#[derive(clap::Args, Debug)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: When,
    /// Disable colors
    #[arg(long = "no-color", global = true, hide = true, env = "NO_COLOR", num_args = 0..=1, default_missing_value = "1")]
    no_color: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

impl Output {
    /// The screen with these options.
    pub(crate) fn screen(&self) -> Screen {
        let disabled = self.no_color.as_ref().is_some_and(|value| !value.is_empty());
        let on = |terminal: bool| match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal && !disabled,
        };
        Screen { json: self.json, out: on(io::stdout().is_terminal()), err: on(io::stderr().is_terminal()) }
    }
}

/// The output of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    json: bool,
    out: bool,
    err: bool,
}

/// A text style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
}

impl Paint {
    /// The text in this style.
    pub(crate) fn on(self, text: impl Display) -> String {
        let number = match self {
            Self::Plain => return text.to_string(),
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        };
        format!("\x1b[{number}m{text}\x1b[0m")
    }
}

impl Screen {
    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The text in a style, if standard output has colors.
    pub(crate) fn paint(&self, paint: Paint, text: impl Display) -> String {
        if self.out { paint.on(text) } else { text.to_string() }
    }

    /// The text in a style, if standard error has colors.
    pub(crate) fn error_paint(&self, paint: Paint, text: &str) -> String {
        if self.err { paint.on(text) } else { text.to_owned() }
    }

    /// The text in red, if standard error has colors.
    pub(crate) fn red(&self, text: &str) -> String {
        self.error_paint(Paint::Red, text)
    }

    /// Prints a line of the result.
    pub(crate) fn line(&self, text: impl Display) -> Result {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        // Flush each line, also into a pipe, so that events of a watch arrive at once.
        Ok(out.flush()?)
    }

    /// Prints a JSON value on one line.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result {
        let text = serde_json::to_string(value).map_err(|error| Failure::internal(error.to_string()))?;
        self.line(text)
    }

    /// Prints a table.
    pub(crate) fn table(&self, table: &Table) -> Result {
        let mut out = io::stdout().lock();
        out.write_all(table.render(self.out).as_bytes())?;
        Ok(out.flush()?)
    }

    /// Prints a note for people on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.json {
            self.error_line(&if self.err { Paint::Dim.on(text) } else { text.to_owned() });
        }
    }

    /// Prints a line on standard error. A failure to do so is ignored.
    pub(crate) fn error_line(&self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Asks for confirmation; anything but yes is no.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool> {
        let mut err = io::stderr().lock();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether a person can be asked for confirmation.
    pub(crate) fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}
