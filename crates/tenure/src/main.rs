//! The Tenure binary: the server and the command line.

mod address;
mod cli;
mod clock;
mod console;
mod control;
mod engine;
mod lease;
mod meet;
mod metrics;
mod poll;
mod services;
mod sessions;
mod supervise;
mod up;
mod watchdog;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // The watchdog runs without tasks and without threads.
    if let Some(cli::Command::Watchdog(args)) = &cli.command {
        return watchdog::run(args).map_or(ExitCode::from(cli::exit::INTERNAL), |()| ExitCode::SUCCESS);
    }
    tenure_hints::limit_malloc_arenas(std::thread::available_parallelism().map_or(2, usize::from));
    let screen = cli.output.screen();
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(cli.run(&screen)),
        Err(error) => Err(cli::Failure::internal(format!("cannot start the runtime: {error}"))),
    };
    ExitCode::from(outcome.unwrap_or_else(|failure| failure.report(&screen)))
}
