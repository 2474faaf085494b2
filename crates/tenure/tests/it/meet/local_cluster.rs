//! `tenure cluster`: the whole cluster as child processes.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tenure_lease::Clock;
use tenure_meet_client::Ending;
use tenure_meet_client::join_api::{RestJoinApi, create};
use tenure_store::BootClock;
use tenure_testkit::{Process, wait};

use super::client::{join, sees};
use crate::harness::{LIMIT, code, run_command, tenure};

/// A running `tenure cluster`.
struct LocalCluster {
    dir: tempfile::TempDir,
    process: Process,
    /// The base URL of the global controller.
    url: String,
    /// The members: name and process id.
    members: Vec<(String, i32)>,
}

impl LocalCluster {
    fn start(args: &[&str]) -> Self {
        tenure_service::install_crypto();
        let dir = tempfile::tempdir().unwrap();
        let mut command = tenure(dir.path(), &[&["cluster", "--listen", "127.0.0.1:0"], args].concat());
        command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
        let process = Process::spawn(command).unwrap();
        let (mut url, mut members) = (String::new(), Vec::new());
        let read = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["meetings", meetings] => url = meetings.trim_end_matches("/meet").to_owned(),
                [name, .., "(process", pid] => {
                    members.push(((*name).to_owned(), pid.trim_end_matches(')').parse().unwrap()));
                }
                _ => {}
            }
            line.starts_with("Press Ctrl-C")
        };
        if let Err(error) = process.wait_for_line(read, LIMIT) {
            panic!("{error}: {}", std::fs::read_to_string(dir.path().join("log")).unwrap());
        }
        Self { dir, process, url, members }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The answer of a command for operators.
    fn meet(&self, args: &[&str]) -> Value {
        let data_dir = ["--data-dir", "tenure-cluster/gc", "--json"];
        let output = run_command(tenure(self.dir.path(), &[&["meet"], args, &data_dir].concat()));
        assert_eq!(output.code, 0, "{args:?}: {}", output.err);
        output.json()
    }

    fn token(&self) -> String {
        let path = self.dir.path().join("tenure-cluster/gc/token");
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    fn pid(&self, name: &str) -> i32 {
        self.members.iter().find(|(member, _)| member == name).unwrap().1
    }
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

fn kill9(pid: i32) {
    let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_on_one_machine_runs_a_meeting_and_ends_in_order() {
    let cluster = LocalCluster::start(&[]);
    let names: Vec<&str> = cluster.members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["store", "gc", "mc-1", "mc-2", "mc-3", "mh-1", "mh-2"]);
    let registered = || {
        let nodes = cluster.meet(&["nodes"])["items"].clone();
        nodes.as_array().is_some_and(|nodes| nodes.len() == 5)
    };
    wait::until("all nodes are registered", LIMIT, registered).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(BootClock);
    let token = cluster.token();
    let made = create(&cluster.url, &token, "Tea", &BootClock).await.unwrap();
    let host = RestJoinApi::user(&cluster.url, &made.meeting_code, &token, clock.clone()).unwrap();
    let (ada, _ada_events) = join(host, "Ada").await;
    let guest = RestJoinApi::guest(&cluster.url, &made.meeting_code, "Eve", clock).unwrap();
    let (eve, _eve_events) = join(guest, "Eve").await;
    sees(&ada, "both are there", |view| view.people.len() == 2).await;
    eve.chat("hello").await.unwrap();
    let list = cluster.meet(&["ls"])["items"].clone();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["people"]), (1, &Value::from(2)), "{list}");
    assert_eq!(list[0]["handlers"].as_array().unwrap().len(), 2, "in two zones: {list}");
    let owner = list[0]["owner"].as_str().unwrap();
    let id = list[0]["meeting_id"].as_str().unwrap();
    // A process that is killed is named, and the others go on.
    let other = ["mc-1", "mc-2", "mc-3"].into_iter().find(|name| *name != owner).unwrap();
    kill9(cluster.pid(other));
    let named = format!("cluster: {other} was killed by signal 9; 6 processes are left");
    wait::until("it is named", LIMIT, || cluster.log().contains(&named)).unwrap();
    assert_eq!(cluster.meet(&["show", id])["phase"], "active");
    assert_eq!(cluster.meet(&["end", id, "--yes"])["running"], true);
    for client in [&ada, &eve] {
        let ending = client.over().await;
        assert!(matches!(ending, Ending::MeetingOver(_)), "{ending:?}");
    }
    cluster.process.terminate().unwrap();
    assert_eq!(code(&cluster.process), 0, "{}", cluster.log());
    assert!(cluster.members.iter().all(|(_, pid)| !is_running(*pid)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_starts_again_where_it_was_and_none_outlives_the_cluster() {
    let cluster = LocalCluster::start(&["--mc", "1", "--mh", "1", "--restart"]);
    let ready = || cluster.meet(&["nodes"])["items"].as_array().is_some_and(|nodes| nodes.len() == 2);
    wait::until("both nodes are registered", LIMIT, ready).unwrap();
    kill9(cluster.pid("gc"));
    wait::until("it is named", LIMIT, || {
        cluster.log().contains("cluster: gc was killed by signal 9; starting")
    })
    .unwrap();
    let answers =
        || run_command(tenure(cluster.dir.path(), &["meet", "ls", "--url", &cluster.url])).code != 69;
    wait::until("it answers at the same address", LIMIT, answers).unwrap();
    cluster.process.kill9().unwrap();
    let ended = || cluster.members.iter().all(|(_, pid)| !is_running(*pid));
    wait::until("no process is left", LIMIT, ended).unwrap();
}
