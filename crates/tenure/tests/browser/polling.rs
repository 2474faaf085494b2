//! The polling page: it follows nodes that join and targets that move.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tenure_testkit::{Chromium, ColourScheme, Process, RedisServer, wait};

use crate::LIMIT;
use crate::console::{Console, hook};

struct Cluster {
    redis: RedisServer,
    dir: TempDir,
    first: Process,
    link: String,
    address: String,
}

fn node(redis: &RedisServer, dir: &Path, args: &[&str], name: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    let store = format!("{}?quarantine_ms=0", redis.url());
    command.current_dir(dir).args(args).args(["--store", &store, "--data-dir", name]);
    for (name, value) in [
        ("LOG__FILTER", "warn,tenure::poll=error"),
        ("POLL__NODE_NAME", name),
        ("POLL__DISCOVERY_INTERVAL_MS", "1000"),
        ("POLL__SYNC_INTERVAL_MS", "500"),
        ("POLL__HEARTBEAT_INTERVAL_MS", "1000"),
    ] {
        command.env(format!("TENURE_{name}"), value);
    }
    Process::spawn(command).unwrap()
}

impl Cluster {
    fn start(targets: usize) -> Self {
        let (redis, dir) = (RedisServer::start().unwrap(), tempfile::tempdir().unwrap());
        let first = node(
            &redis,
            dir.path(),
            &["up", "--only", "lease,sessions,control,poll", "--listen", "127.0.0.1:0"],
            "north",
        );
        let line = first.wait_for_line(|line| line.contains("#login="), LIMIT).unwrap();
        let link = line.split_whitespace().last().unwrap().to_owned();
        let address = link.split("/#").next().unwrap().to_owned();
        let cluster = Self { redis, dir, first, link, address };
        for i in 0..targets {
            let record = json!({
                "name": format!("sensor {:02}", i + 1), "intervalMs": 1_000, "address": format!("{}/health/live", cluster.address),
            });
            let key = format!("session:sensor-{:02}", i + 1);
            cluster.redis.command(&["SET", &key, &record.to_string()]).unwrap();
        }
        cluster
    }

    fn join(&self, name: &str) -> Process {
        node(&self.redis, self.dir.path(), &["poll"], name)
    }

    fn open(&self, chromium: &Chromium) -> Console {
        let console = Console::open(chromium, &self.link);
        console.wait_until_live();
        console.click(&hook("page-poll")).unwrap();
        console.sees_element(&hook("board"));
        console
    }
}

/// Opens a target by its cell, even while the cell moves.
fn open_target(console: &Console, id: &str) {
    let cell = format!("document.querySelector('[data-test=cell][data-id={id}]').click()");
    console.evaluate(&cell).unwrap();
    console.sees_words(&hook("target-id"), id);
}

/// A condition on the number of cells of each column.
fn loads(loads: &str) -> String {
    format!(
        "JSON.stringify([...document.querySelectorAll('[data-test=node]')].map((one) => \
         one.querySelectorAll('[data-test=cell]').length).sort()) === {loads:?}"
    )
}

#[test]
fn a_node_joins_and_the_page_shows_the_rebalancing() {
    let cluster = Cluster::start(12);
    let chromium = Chromium::start().unwrap();
    let console = cluster.open(&chromium);
    console.sees(&loads("[12]"));
    console.sees_words(&hook("poll-count"), "12 targets on 1 node");
    let second = cluster.join("south");
    console.sees(&loads("[6,6]"));
    let third = cluster.join("west");
    console.sees(&loads("[4,4,4]"));
    console.sees_words(&hook("poll-count"), "12 targets on 3 nodes");
    third.terminate().unwrap();
    assert!(third.wait(LIMIT).unwrap().success());
    console.sees(&loads("[6,6]"));
    second.kill9().unwrap();
    assert!(cluster.first.is_running());
    console.is_calm();
}

#[test]
fn a_target_shows_its_history_and_is_paused_and_resumed() {
    let cluster = Cluster::start(2);
    let chromium = Chromium::start().unwrap();
    let console = cluster.open(&chromium);
    console.sees(&loads("[2]"));
    open_target(&console, "sensor-01");
    console.sees("document.querySelectorAll('[data-test=result]').length > 1");
    console.sees("document.querySelectorAll('[data-test=reign]').length === 1");
    console.click(&hook("target-toggle")).unwrap();
    console.sees_words(&hook("target-state"), "paused");
    console.sees_element("[data-test=cell][data-id=sensor-01][data-state=paused]");
    wait::until("the lease is released", LIMIT, || {
        cluster.redis.command(&["EXISTS", "poll:lease:sensor-01"]).unwrap().int() == Some(0)
    })
    .unwrap();
    console.click(&hook("target-toggle")).unwrap();
    console.sees_words(&hook("target-state"), "polled");
    console.sees("document.querySelectorAll('[data-test=reign]').length === 2");
    console.is_calm();
}

#[test]
fn the_polling_page_has_a_screenshot() {
    let cluster = Cluster::start(24);
    let chromium = Chromium::start().unwrap();
    let console = cluster.open(&chromium);
    console.colour_scheme(ColourScheme::Light).unwrap();
    console.screen(1120, 760, 1.5, false).unwrap();
    console.sees(&loads("[24]"));
    let _nodes = (cluster.join("south"), cluster.join("west"));
    console.sees(&loads("[8,8,8]"));
    open_target(&console, "sensor-07");
    console.sees("document.querySelectorAll('[data-test=result]').length > 3");
    crate::screenshots::take(&console, "console-poll.png");
}
