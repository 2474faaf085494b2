//! `tenure login`: a fresh address to log in to the console of the running server.

use super::{Failure, Result, Screen};

/// Which server.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: super::target::Server,
}

pub(crate) async fn run(args: Args, _screen: &Screen) -> Result<u8> {
    let place = args.server.place()?;
    Err(Failure::internal(format!(
        "`tenure login` is not part of this build: the integrator mounts it for {}",
        place.shown()
    )))
}
