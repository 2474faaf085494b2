//! The Tenure binary: everything on this machine, and the command line to it.

mod cli;
mod clock;
mod console;
mod control;
mod engine;
mod meet;
mod poll;
mod sessions;
mod up;
mod watchdog;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // The watchdog is alone with its work: no runtime, no threads.
    if let Some(cli::Command::Watchdog(args)) = &cli.command {
        return watchdog::run(args).map_or(ExitCode::from(cli::exit::INTERNAL), |()| ExitCode::SUCCESS);
    }
    hints::arenas(std::thread::available_parallelism().map_or(2, usize::from));
    let screen = cli.output.screen();
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(cli.run(&screen)),
        Err(error) => Err(cli::Failure::internal(format!("cannot start the runtime: {error}"))),
    };
    ExitCode::from(outcome.unwrap_or_else(|failure| failure.tell(&screen)))
}
