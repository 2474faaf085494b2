//! Everything on this machine.

use crate::cli::{Failure, Result};

/// What `tenure up` is started with.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {}

/// Serves until told to end.
pub(crate) async fn run(_args: Args) -> Result<u8> {
    Err(Failure::internal("`tenure up` is not part of this build: the integrator mounts it"))
}
