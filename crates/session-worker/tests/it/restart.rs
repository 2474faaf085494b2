//! A worker process that is killed, and its successor.

use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_lease::{End, Key};
use tenure_session::{Detail, Reason, SessionId, SessionState};
use tenure_testkit::{Process, RedisServer};

use crate::fixture::{Fixture, GUARD, LIMIT, program_ignoring_sigterm};

const CHANNEL: &str = "1:0:1:";

struct WorkerProcess {
    process: Process,
    session: SessionId,
    /// The PID of its pipeline.
    pipeline: u32,
}

/// A worker process whose pipeline ignores SIGTERM and outlives it, because there is no watchdog.
fn start_worker_process(url: &str, dir: &Path) -> WorkerProcess {
    let (program, output): (PathBuf, PathBuf) = (program_ignoring_sigterm(dir), dir.join("hls"));
    let mut command = Command::new(tenure_testkit::helper_bin("orchestrator").unwrap());
    command.args([url.as_ref(), output.as_os_str(), program.as_os_str(), CHANNEL.as_ref()]);
    let process = Process::spawn(command).unwrap();
    let ready = process.wait_for_line(|line| line.starts_with("ready "), LIMIT).unwrap();
    let session = SessionId::new(ready.trim_start_matches("ready ")).unwrap();
    let pid = std::fs::read_to_string(output.join(session.as_str()).join("pid")).unwrap();
    WorkerProcess { process, session, pipeline: pid.trim().parse().unwrap() }
}

/// A zombie has no environment.
fn is_running(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| !environment.is_empty())
}

async fn is_succeeded_at_once(url: &str, end: End) {
    let dir = tempfile::tempdir().unwrap();
    let WorkerProcess { process, session, pipeline } = start_worker_process(url, dir.path());
    assert!(is_running(pipeline));
    process.kill9().unwrap();
    assert!(is_running(pipeline), "the pipeline outlives the worker");

    let fixture = Fixture::on(url).await;
    let worker = fixture.worker().await;
    assert!(!is_running(pipeline), "it exits before its tuner is offered again");
    let reigns = fixture.store.history(&Key::new(GUARD).unwrap()).await.unwrap();
    assert_eq!(reigns[0].end, Some(end), "taken over without waiting");
    let over = fixture.get(&session).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (SessionState::Failed, Reason::ProcessEnded, Some(Detail::WorkerRestarted))
    );
    let again = fixture.start(CHANNEL, "high").await;
    assert_eq!(fixture.until(&again, SessionState::Ready).await.slot, Some(0));
    worker.close().await;
}

#[tokio::test]
async fn a_killed_worker_is_succeeded_at_once_on_redis() {
    let redis = RedisServer::start().unwrap();
    is_succeeded_at_once(&format!("{}?quarantine_ms=0", redis.url()), End::Superseded).await;
}

#[tokio::test]
async fn a_killed_worker_is_succeeded_at_once_on_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    is_succeeded_at_once(&format!("embedded:{}", folder.path().display()), End::HolderDied).await;
}

#[tokio::test]
async fn a_worker_process_that_loses_the_guard_reports_it_and_leaves_no_process() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let dir = tempfile::tempdir().unwrap();
    let WorkerProcess { process, session, pipeline } = start_worker_process(&url, dir.path());
    let fixture = Fixture::on(&url).await;
    fixture.revoke(GUARD).await;
    process.wait_for_line(|line| line.starts_with("failed ") && line.contains(GUARD), LIMIT).unwrap();
    assert!(!is_running(pipeline), "it exited before the worker reported the loss");
    assert_eq!(fixture.get(&session).await.state, SessionState::Ready, "nothing was written after the loss");
}
