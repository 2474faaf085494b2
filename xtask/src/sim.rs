//! `cargo xtask sim`: seeds of the simulator, and the known breaks that its judge must find.
use anyhow::Result;

use crate::step;
use crate::workspace::Workspace;

/// How long continuous integration lets fresh seeds run, in seconds.
const BUDGET: &str = "60";

/// Runs the simulator with these arguments, built for speed.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let build = ["run", "--quiet", "--profile", "sim", "--package", "sim", "--features", "breaks", "--"];
    step::command(workspace.cargo(&build).args(args))
}

/// Runs fresh seeds for a fixed time, on what the tests have built anyway.
pub(crate) fn budget(workspace: &Workspace) -> Result<()> {
    step::command(&mut workspace.cargo(&["build", "--workspace", "--all-features", "--bin", "sim"]))?;
    step::command(workspace.command(workspace.target().join("debug/sim")).args(["--seconds", BUDGET]))
}

/// What the step of the suite does.
pub(crate) fn headline() -> String {
    format!("fresh seeds of the simulator for {BUDGET} s")
}
