//! `deploy/compose.meetings.yaml`, started as processes: the same commands and settings, with other addresses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_norway::Value;
use tempfile::TempDir;
use tenure_lease::Clock;
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_store::BootClock;
use tenure_testkit::{Process, RedisServer, wait};

use super::client::{join, sees};
use crate::harness::{LIMIT, known_new, run_command, tenure};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/compose.meetings.yaml");

/// The services of the file, with merged keys.
fn services() -> Vec<(String, Value)> {
    let mut file: Value = serde_norway::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    file.apply_merge().unwrap();
    let services = file["services"].as_mapping().unwrap().iter();
    services.map(|(name, service)| (name.as_str().unwrap().to_owned(), service.clone())).collect()
}

fn words(value: &Value) -> Vec<String> {
    // Compose writes `$$` for `$`.
    let texts = value.as_sequence().into_iter().flatten().filter_map(Value::as_str);
    texts.map(|text| text.replace("$$", "$")).collect()
}

/// The cluster of the file on this machine.
struct Compose {
    dir: TempDir,
    redis: RedisServer,
    /// Addresses of the file, and those used here.
    addresses: BTreeMap<String, String>,
}

impl Compose {
    /// A value with the addresses and directories of this machine.
    fn local(&self, value: &str) -> String {
        let known = self.addresses.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to));
        // Ports are published by compose; here each process takes a free one.
        match known.split_once("0.0.0.0:") {
            Some((scheme, _)) => format!("{scheme}127.0.0.1:0"),
            None => known.replace("/gc)", &format!("{})", self.data_dir("gc").display())),
        }
    }

    fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, name: &str, service: &Value) -> Process {
        let binary = Path::new(env!("CARGO_BIN_EXE_tenure"));
        let entrypoint = words(&service["entrypoint"]);
        // The image's entry point is the binary.
        let program = entrypoint.first().cloned().unwrap_or_else(|| binary.display().to_string());
        let mut command = Command::new(program);
        command.args(entrypoint.iter().skip(1));
        command.args(words(&service["command"]).iter().map(|word| self.local(word)));
        command.current_dir(self.dir.path()).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()));
        command.env("TENURE_DATA_DIR", self.data_dir(name)).env("TENURE_LOG__FILTER", "warn");
        for (variable, value) in service["environment"].as_mapping().unwrap() {
            let (variable, value) = (variable.as_str().unwrap(), value.as_str().unwrap());
            // What is advertised is the published address; here it is the bound one.
            if !variable.ends_with("ADVERTISE_ADDRESS") && !value.starts_with("${") {
                command.env(variable, self.local(value));
            }
        }
        Process::spawn(command).unwrap()
    }
}

/// The value of a line of the start-up output.
fn printed(process: &Process, label: &str) -> String {
    let line = process.wait_for_line(|line| line.trim_start().starts_with(label), LIMIT).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_compose_file_of_a_cluster_starts_and_runs_a_meeting() {
    tenure_service::install_crypto();
    let redis = RedisServer::start().unwrap();
    let mut compose = Compose { dir: tempfile::tempdir().unwrap(), redis, addresses: BTreeMap::new() };
    compose.addresses.insert("redis://redis:6379".to_owned(), known_new(&compose.redis.url()));
    let services = services();
    let service = |name: &str| &services.iter().find(|(known, _)| known == name).unwrap().1;
    let gc = compose.start("gc", service("gc"));
    let address = printed(&gc, "address");
    compose.addresses.insert("http://gc:50051".to_owned(), printed(&gc, "gRPC"));
    compose.addresses.insert("http://gc:7400".to_owned(), address.clone());
    gc.wait_for_line(|line| line.starts_with("Press Ctrl-C"), LIMIT).unwrap();
    let nodes: Vec<Process> = services
        .iter()
        .filter(|(name, _)| name.starts_with("mc-") || name.starts_with("mh-"))
        .map(|(name, service)| compose.start(name, service))
        .collect();
    assert_eq!(nodes.len(), 5);
    let registered = || {
        let listed =
            run_command(tenure(compose.dir.path(), &["meet", "nodes", "--data-dir", "gc", "--json"]));
        listed.code == 0 && listed.json()["items"].as_array().is_some_and(|items| items.len() == 5)
    };
    wait::until("all nodes are registered", LIMIT, registered).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let token = std::fs::read_to_string(compose.data_dir("gc").join("token")).unwrap();
    let made = create(&address, token.trim(), "Tea", &BootClock).await.unwrap();
    let host = RestJoinApi::user(&address, &made.meeting_code, token.trim(), clock).unwrap();
    let (ada, _events) = join(host, "Ada").await;
    sees(&ada, "she is there", |view| view.people.len() == 1).await;
}
