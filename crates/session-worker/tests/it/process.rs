//! A worker in a process of its own, killed in the middle of things, and the one that comes after it.

use std::path::{Path, PathBuf};
use std::process::Command;

use lease::{End, Key};
use session::{Detail, Reason, SessionId, State};
use testkit::{Process, RedisServer};

use crate::house::{GUARD, House, LIMIT, stubborn_program};

const CHANNEL: &str = "1:0:1:";

struct Victim {
    process: Process,
    session: SessionId,
    /// The process of its pipeline.
    pipeline: u32,
}

/// A worker whose pipeline does not listen and outlives it, for nobody watches over it.
fn victim(url: &str, dir: &Path) -> Victim {
    let (program, output): (PathBuf, PathBuf) = (stubborn_program(dir), dir.join("hls"));
    let mut command = Command::new(testkit::helper_bin("orchestrator").unwrap());
    command.args([url.as_ref(), output.as_os_str(), program.as_os_str(), CHANNEL.as_ref()]);
    let process = Process::spawn(command).unwrap();
    let ready = process.wait_for_line(|line| line.starts_with("ready "), LIMIT).unwrap();
    let session = SessionId::new(ready.trim_start_matches("ready ")).unwrap();
    let pid = std::fs::read_to_string(output.join(session.as_str()).join("pid")).unwrap();
    Victim { process, session, pipeline: pid.trim().parse().unwrap() }
}

/// The dead that nobody has reaped have no environment any more.
fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| !environment.is_empty())
}

async fn is_followed_at_once(url: &str, end: End) {
    let dir = tempfile::tempdir().unwrap();
    let Victim { process, session, pipeline } = victim(url, dir.path());
    assert!(runs(pipeline));
    process.kill9().unwrap();
    assert!(runs(pipeline), "nobody ended it yet");

    let house = House::on(url).await;
    let worker = house.worker().await;
    assert!(!runs(pipeline), "it is gone before anybody else may have its tuner");
    let reigns = house.store.history(&Key::new(GUARD).unwrap()).await.unwrap();
    assert_eq!(reigns[0].end, Some(end), "not waited for");
    let over = house.get(&session).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (State::Failed, Reason::ProcessEnded, Some(Detail::WorkerRestarted))
    );
    let again = house.wish(CHANNEL, "high").await;
    assert_eq!(house.until(&again, State::Ready).await.slot, Some(0));
    worker.close().await;
}

#[tokio::test]
async fn a_worker_that_was_killed_is_followed_at_once_on_redis() {
    let redis = RedisServer::start().unwrap();
    is_followed_at_once(&format!("{}?quarantine_ms=0", redis.url()), End::Superseded).await;
}

#[tokio::test]
async fn a_worker_that_was_killed_is_followed_at_once_on_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    is_followed_at_once(&format!("embedded:{}", folder.path().display()), End::HolderDied).await;
}

#[tokio::test]
async fn a_worker_process_that_loses_the_guard_says_so_and_leaves_nothing_running() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let dir = tempfile::tempdir().unwrap();
    let Victim { process, session, pipeline } = victim(&url, dir.path());
    let house = House::on(&url).await;
    house.revoke(GUARD).await;
    process.wait_for_line(|line| line.starts_with("failed ") && line.contains(GUARD), LIMIT).unwrap();
    assert!(!runs(pipeline), "it ended before the worker said so");
    assert_eq!(house.get(&session).await.state, State::Ready, "nothing was written any more");
}
