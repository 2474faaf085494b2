//! `tenure up` as a separate process.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure_client::{Client, ClientOptions};
use tenure_store::Store;
use tenure_testkit::Process;

/// Timeout of the start.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `tenure up`. Dropping it kills it.
pub(crate) struct Up {
    process: Process,
    url: String,
    token: String,
}

impl Up {
    /// Starts a server on the embedded store in `folder`, or on another store.
    pub(crate) fn start(folder: &Path, store: Option<&str>) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        ensure!(program.is_file(), "{} is not built; run `cargo xtask bench`", program.display());
        let data = folder.join("data");
        let mut command = Command::new(program);
        command.current_dir(folder).args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        command.stderr(File::create(folder.join("log"))?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        if let Some(store) = store {
            command.args(["--store", store]);
        }
        let process = Process::spawn(command)?;
        process.wait_for_line(|line| line.contains("Ctrl-C"), LIMIT)?;
        let read = |name: &str| {
            let text = fs::read_to_string(data.join(name)).with_context(|| format!("read {name}"))?;
            anyhow::Ok(text.trim().to_owned())
        };
        let url = read("address")?.replace("http://", "tenure://");
        Ok(Self { process, url, token: read("token")? })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A client with its own connections.
    pub(crate) async fn client(&self) -> Result<Store> {
        Ok(Store::new(Client::connect(&self.url, ClientOptions::default().token(&self.token)).await?))
    }

    /// `count` clients, each with its own connections.
    pub(crate) async fn clients(&self, count: usize) -> Result<Vec<Store>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.client().await?);
        }
        Ok(clients)
    }
}
