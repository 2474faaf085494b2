//! `tenure secrets`: the secrets that the nodes of an installation share.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Map, Value};

use super::{Failure, Result, Screen, exit};
use crate::meet::{self, Role};

/// The commands of `tenure secrets`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Print the secrets of a node as variables, for a node that joins its store
    Export(Export),
}

/// The arguments of `tenure secrets export`.
#[derive(clap::Args, Debug)]
pub(crate) struct Export {
    /// What the joining node runs: tenure up, gc, mc or mh
    #[arg(long, value_name = "ROLE", default_value = "up")]
    role: Role,
    /// Data directory of the node that was started first; of `tenure gc`, if the roles run separately
    #[arg(long, value_name = "DIR", env = "TENURE_DATA_DIR", default_value = "tenure-data")]
    data_dir: PathBuf,
}

pub(crate) fn run(command: Command, screen: &Screen) -> Result<u8> {
    let Command::Export(args) = command;
    let found = meet::export(&args.data_dir, args.role)?;
    if found.is_empty() {
        let dir = args.data_dir.display();
        return Err(Failure::new(exit::FAILED, "NOT_FOUND", format!("{dir} has no secrets of meetings")).hint(
            "name the data directory of the node that was started first with --data-dir; secrets that were given as\n\
             variables are not stored",
        ));
    }
    if screen.is_json() {
        let all: Map<String, Value> =
            found.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
        screen.json(&all)?;
        return Ok(exit::DONE);
    }
    for (name, value) in found {
        screen.line(format!("{name}={value}"))?;
    }
    Ok(exit::DONE)
}
