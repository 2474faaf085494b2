//! `tenure config`: the effective configuration. The settings are the server's, so this only prints what the
//! service's loader finds.

use super::{Failure, Result, Screen};

/// What to print.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, _screen: &Screen) -> Result<u8> {
    Err(Failure::internal("`tenure config` is not part of this build: the integrator mounts it"))
}
