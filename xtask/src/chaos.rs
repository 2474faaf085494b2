//! `cargo xtask chaos`: runs real holders and servers under faults, and checks the history at the end.
use anyhow::Result;

use crate::step;
use crate::workspace::Workspace;

/// Builds the server, the holder and the driver, and starts the driver with `args`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    step::command(&mut workspace.cargo(&["build", "--workspace", "--bins", "--examples"]))?;
    step::command(workspace.command(driver(workspace)).args(args))
}

/// The driver finds the other two in its own directory.
fn driver(workspace: &Workspace) -> std::path::PathBuf {
    let name = format!("chaos{}", std::env::consts::EXE_SUFFIX);
    workspace.target().join("debug").join("examples").join(name)
}
