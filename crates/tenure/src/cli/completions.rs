//! `tenure completions`: shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Result, Screen};

/// The arguments of `tenure completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "bash: tenure completions bash > ~/.local/share/bash-completion/completions/tenure")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tenure", &mut script);
    screen.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(super::exit::DONE)
}
