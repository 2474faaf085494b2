//! The operations page, against a whole cluster of processes.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{Chromium, ColourScheme, Process};

use crate::LIMIT;
use crate::console::{Console, hook};
use crate::screenshots::take;

struct Cluster {
    dir: TempDir,
    _process: Process,
    link: String,
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command.current_dir(dir.path()).args(["cluster", "--listen", "127.0.0.1:0", "--mc", "2"]);
        command.env("TENURE_LOG__FILTER", "warn");
        let process = Process::spawn(command).unwrap();
        let line = process.wait_for_line(|line| line.contains("#login="), LIMIT * 4).unwrap();
        process.wait_for_line(|line| line.starts_with("Press Ctrl-C"), LIMIT).unwrap();
        let link = line.split_whitespace().last().unwrap().to_owned();
        Self { dir, _process: process, link }
    }

    /// A request to the global controller with the administrator's token.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let token = std::fs::read_to_string(self.dir.path().join("tenure-cluster/gc/token")).unwrap();
        let base = self.link.split("/#").next().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut request =
                reqwest::Client::new().request(method.parse().unwrap(), format!("{base}{path}"));
            request = request.bearer_auth(token.trim());
            if let Some(body) = body {
                request = request.json(body);
            }
            request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
        })
    }

    /// A meeting that a controller runs.
    fn meeting(&self, name: &str) -> String {
        let made = self.ask("POST", "/api/v1/meetings", Some(&json!({ "display_name": name })));
        self.ask("GET", &format!("/api/v1/meetings/{}", made["meeting_code"].as_str().unwrap()), None);
        made["meeting_id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn operators_see_nodes_and_meetings_and_end_one_screenshot() {
    tenure_service::install_crypto();
    let cluster = Cluster::start();
    let chromium = Chromium::start().unwrap();
    let console = Console::open(&chromium, &cluster.link);
    console.wait_until_live();
    console.click(&hook("page-operations")).unwrap();
    let nodes = |health: &str| {
        format!("document.querySelectorAll('[data-test=node][data-health={health}]').length === 4")
    };
    console.sees(&nodes("healthy"));
    console.sees_element(&hook("no-meetings"));
    let names = ["Standup", "Design review", "Board of directors"];
    let ids: Vec<String> = names.iter().map(|name| cluster.meeting(name)).collect();
    console.sees("document.querySelectorAll('[data-test=meeting][data-phase=active]').length === 3");
    console.sees_words(&hook("summary"), "2 controllers, 2 handlers, 3 meetings, 0 people");
    take(&console, "operations.png");
    console.colour_scheme(ColourScheme::Dark).unwrap();
    take(&console, "operations-dark.png");
    console.colour_scheme(ColourScheme::Light).unwrap();
    let row = format!("[data-test=meeting][data-id=\"{}\"]", ids[1]);
    console.click(&format!("{row} [data-test=end]")).unwrap();
    console.click(&hook("cancel")).unwrap();
    console.sees_element(&row);
    console.click(&format!("{row} [data-test=end]")).unwrap();
    console.click(&hook("confirm")).unwrap();
    console.sees("document.querySelectorAll('[data-test=meeting]').length === 2");
    console.sees_words(&hook("notice"), "Design review has ended.");
    // The page may open before every node of the cluster has registered.
    console.is_calm_but(|error| error.text.contains("503"));
}
