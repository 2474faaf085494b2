//! Checks the running server against its description: schemathesis generates requests from `/openapi.json` and validates
//! the responses.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{clock, step};

/// The tested version.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// How long the server may take to start.
const START: Duration = Duration::from_secs(30);
/// Interval between checks for its address.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Starts a server in memory and checks it. The binary was built by the steps before.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let tool = install(workspace)?;
    let folder = workspace.target().join("openapi");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    step::command(&mut workspace.cargo(&["build", "--workspace", "--bins"]))?;
    let server = Server::start(workspace, &folder)?;
    let address = server.address()?;
    let token = fs::read_to_string(folder.join("data/token")).context("the server wrote no token")?;
    let mut command = workspace.command(tool);
    command
        .current_dir(&folder)
        .env("SCHEMATHESIS_HOOKS", workspace.root().join("xtask/openapi_hooks.py"))
        .args(["run", &format!("{address}/openapi.json"), "--checks", "all", "--workers", "1"])
        .args([
            "--max-examples",
            "25",
            "--request-timeout",
            "30",
            "--no-color",
            "--suppress-health-check",
            "all",
        ])
        // The same requests every time, so that failures are reproducible.
        .args(["--seed", "20261115"])
        // For JSON Schema 10.0 is an integer; the server rejects it on purpose.
        .args(["--exclude-checks", "positive_data_acceptance"])
        // An event stream does not end, so its response cannot be read completely.
        .args(["--exclude-path", "/v1/leases/watch", "--exclude-path", "/poll/v1/events"])
        .args(["--exclude-path", "/api/v3/sessions/{id}/events"])
        .args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
    let output = command.stdin(Stdio::null()).output().context("schemathesis did not start")?;
    let report = folder.join("report.txt");
    fs::write(&report, &output.stdout)?;
    if output.status.success() {
        return Ok(());
    }
    println!("{}", String::from_utf8_lossy(&output.stdout).trim_end());
    bail!("the server violates /openapi.json; the report is above and in {}", report.display())
}

/// Installs schemathesis in its own directory, once.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let place = workspace.target().join(SCHEMATHESIS.replace("==", "-"));
    let tool = place.join("bin/schemathesis");
    if !tool.exists() {
        let failed = "schemathesis cannot be installed: python3 with venv and pip are needed (python3-venv)";
        step::command(workspace.command("python3").args(["-m", "venv"]).arg(&place)).context(failed)?;
        let pip = place.join("bin/pip");
        step::command(workspace.command(pip).args(["install", "--quiet", SCHEMATHESIS])).context(failed)?;
    }
    Ok(tool)
}

/// A server that is killed on drop.
struct Server {
    child: Child,
    data: PathBuf,
}

impl Server {
    fn start(workspace: &Workspace, folder: &Path) -> Result<Self> {
        let mut command: Command = workspace.command(workspace.target().join("debug/tenure"));
        let data = folder.join("data");
        let log = fs::File::create(folder.join("server.log"))?;
        let child = command
            .args(["up", "--listen", "127.0.0.1:0", "--store", "memory:", "--data-dir"])
            .arg(&data)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .spawn()
            .context("cannot start tenure up")?;
        Ok(Self { child, data })
    }

    fn address(&self) -> Result<String> {
        let begun = clock::start();
        while begun.elapsed() < START {
            if let Ok(address) = fs::read_to_string(self.data.join("address")) {
                return Ok(address.trim().to_owned());
            }
            clock::pause(POLL_INTERVAL);
        }
        bail!("tenure up did not start within {} s", START.as_secs())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
