//! `cargo xtask chaos`: real holders and servers under faults for as long as you like, judged at the end.
use anyhow::Result;

use crate::step;
use crate::workspace::Workspace;

/// Builds the server, the holder and the driver, and starts the driver with `args`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    step::command(&mut workspace.cargo(&["build", "--workspace", "--bins", "--examples"]))?;
    step::command(workspace.command(driver(workspace)).args(args))
}

/// It finds the other two beside itself.
fn driver(workspace: &Workspace) -> std::path::PathBuf {
    let name = format!("chaos{}", std::env::consts::EXE_SUFFIX);
    workspace.target().join("debug").join("examples").join(name)
}
