//! `cargo xtask sim`: seeds of the simulator, and the known breaks that its judge must find.
use anyhow::Result;

use crate::step;
use crate::workspace::Workspace;

/// The runs of continuous integration, with fixed seeds, so that a failure is caused by the change under test. `cargo xtask
/// sim` searches with fresh seeds.
const BUDGET: [&[&str]; 4] = [
    &["--world", "kernel", "--seeds", "40000", "--from", "1"],
    &["--world", "embedded", "--seeds", "3000", "--from", "1"],
    &["--world", "redis", "--seeds", "1000", "--from", "1"],
    &["--world", "meet", "--seeds", "100", "--from", "1"],
];

/// Runs a release build of the simulator with these arguments.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let build =
        ["run", "--quiet", "--profile", "sim", "--package", "tenure-sim", "--features", "breaks", "--"];
    step::command(workspace.cargo(&build).args(args))
}

/// Runs each simulation for a short time, with the build of the tests.
pub(crate) fn budget(workspace: &Workspace) -> Result<()> {
    step::command(&mut workspace.cargo(&["build", "--workspace", "--all-features", "--bin", "tenure-sim"]))?;
    let program = workspace.target().join("debug/tenure-sim");
    BUDGET.iter().try_for_each(|args| step::command(workspace.command(&program).args(*args)))
}

/// The summary of this step.
pub(crate) fn headline() -> String {
    "fixed seeds: 40,000 of the kernel, 3,000 of the embedded engine, 1,000 of the Redis engine, \
     100 of meetings"
        .into()
}
