//! Where words go: standard output for answers, standard error for everything about them.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::table::Table;
use super::{Failure, Result};

/// How to answer.
#[derive(clap::Args, Debug)]
pub(crate) struct Output {
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: When,
    /// Set to anything to see no colours
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
    /// The screen that answers so.
    pub(crate) fn screen(&self) -> Screen {
        let unwanted = self.no_color.as_ref().is_some_and(|value| !value.is_empty());
        let on = |terminal: bool| match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal && !unwanted,
        };
        Screen { json: self.json, out: on(io::stdout().is_terminal()), err: on(io::stderr().is_terminal()) }
    }
}

/// Where a command answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    json: bool,
    out: bool,
    err: bool,
}

/// A colour of the answers.
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
    /// The text in this colour.
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
    /// Whether a program reads.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The text in a colour, if standard output shows colours.
    pub(crate) fn paint(&self, paint: Paint, text: impl Display) -> String {
        if self.out { paint.on(text) } else { text.to_string() }
    }

    /// The text in red, if standard error shows colours.
    pub(crate) fn red(&self, text: &str) -> String {
        if self.err { Paint::Red.on(text) } else { text.to_owned() }
    }

    /// One line of the answer.
    pub(crate) fn line(&self, text: impl Display) -> Result {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        // Line by line also into a pipe: whoever follows a watch wants each event now.
        Ok(out.flush()?)
    }

    /// One JSON value of the answer, on a line of its own.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result {
        let text = serde_json::to_string(value).map_err(|error| Failure::internal(error.to_string()))?;
        self.line(text)
    }

    /// A table, as the answer.
    pub(crate) fn table(&self, table: &Table) -> Result {
        let mut out = io::stdout().lock();
        out.write_all(table.render(self.out).as_bytes())?;
        Ok(out.flush()?)
    }

    /// A word about the answer, for people only.
    pub(crate) fn note(&self, text: &str) {
        if !self.json {
            self.complain(&if self.err { Paint::Dim.on(text) } else { text.to_owned() });
        }
    }

    /// A line on standard error. When that is gone there is nobody to tell.
    pub(crate) fn complain(&self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Asks a question that only a person can answer; anything but yes is no.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool> {
        let mut err = io::stderr().lock();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether somebody sits at the other end who can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}
