//! Pipelines that do not exit when they should.

use std::io;
use std::mem::ManuallyDrop;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_session::{Detail, Reason, Session, SessionId, SessionState};
use tenure_session_worker::{Exit, Launcher, Process, SESSION_VARIABLE, Source, StopTimes, Worker};
use tenure_testkit::wait::{until, until_async};

use crate::fixture::{Fixture, LIMIT, program_ignoring_sigterm};
use crate::launcher::PlainLauncher;
use crate::recovery::write_stale_record;

/// Starts processes that cannot be stopped and survive being dropped, as under a stuck watchdog.
struct UnkillableLauncher;

struct UnkillableProcess(ManuallyDrop<Box<dyn Process>>);

#[async_trait]
impl Launcher for UnkillableLauncher {
    async fn launch(
        &self,
        command: tenure_session_worker::Command,
        times: StopTimes,
    ) -> io::Result<Box<dyn Process>> {
        Ok(Box::new(UnkillableProcess(ManuallyDrop::new(PlainLauncher.launch(command, times).await?))))
    }
}

#[async_trait]
impl Process for UnkillableProcess {
    async fn extend(&mut self, times: StopTimes) -> io::Result<()> {
        self.0.extend(times).await
    }

    async fn stop(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn kill(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn wait(&mut self) -> Exit {
        self.0.wait().await
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

/// A fixture with one tuner whose pipelines cannot be stopped.
async fn unkillable() -> Fixture {
    let mut fixture = Fixture::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let program = program_ignoring_sigterm(fixture.dir.path());
    let Source::Ffmpeg(source) = &mut fixture.options.source else { panic!("no ffmpeg") };
    source.program = program;
    fixture.options.slots = [0].into();
    (fixture.options.stop_timeout, fixture.options.stall_timeout) = (LIMIT * 10, LIMIT * 10);
    fixture
}

async fn worker(fixture: &Fixture) -> Worker {
    Worker::start(fixture.store.clone(), fixture.options.clone(), Arc::new(UnkillableLauncher)).await.unwrap()
}

/// The PID of the pipeline of a ready session.
fn pipeline_pid(fixture: &Fixture, id: &SessionId) -> u32 {
    std::fs::read_to_string(fixture.folder(id).join("pid")).unwrap().trim().parse().unwrap()
}

fn is_running(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| !environment.is_empty())
}

#[tokio::test]
async fn a_tuner_with_a_running_process_is_withheld_until_it_exits() {
    let mut fixture = unkillable().await;
    (fixture.options.stop_timeout, fixture.options.gone_timeout) =
        (Duration::from_millis(1), Duration::from_millis(1));
    // No periodic sweeps, so that the test controls the order of events.
    fixture.options.reconcile = LIMIT * 10;
    let worker = worker(&fixture).await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    let pid = pipeline_pid(&fixture, &id);
    fixture.request_stop(&id).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::ClientStop));
    assert_eq!(fixture.holder("lease:tuner:0").await, None, "the lease is released");
    assert!(is_running(pid), "the process is still running");
    let refused = fixture.start("1:0:2:", "high").await;
    let refused = fixture.until_ended(&refused).await;
    assert_eq!((refused.reason, refused.detail), (Reason::LeaseBusy, Some(Detail::RejectedNoTuner)));

    // Its last child may exit a little later.
    let mut asked = 2;
    until_async("the tuner is offered again", LIMIT, async || {
        worker.reconcile_now().await;
        asked += 1;
        let next = fixture.start(&format!("1:0:{asked}:"), "high").await;
        let settled = |session: &Session| session.state == SessionState::Ready || session.state.is_terminal();
        let next = fixture.until_that(&next, "it is ready or has ended", settled).await;
        assert!(next.slot.is_none() || !is_running(pid), "not before the process exited");
        next.state == SessionState::Ready
    })
    .await
    .unwrap();
    worker.close().await;
    fixture.end_all();
}

#[tokio::test]
async fn a_session_stuck_in_stopping_is_ended_by_force() {
    let mut fixture = unkillable().await;
    fixture.options.stuck_timeout = Duration::from_millis(500);
    let worker = worker(&fixture).await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    fixture.request_stop(&id).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (SessionState::Stopped, Reason::ClientStop, Some(Detail::SweeperForcedStop))
    );
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
    assert!(!fixture.folder(&id).exists());
    worker.close().await;
    fixture.end_all();
}

#[tokio::test]
async fn a_tuner_is_withheld_while_a_process_of_a_predecessor_runs() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let file = Arc::new(log.reopen().unwrap());
    tracing_subscriber::fmt().with_ansi(false).with_writer(file).init();
    let logged = |message: &str| {
        let text = std::fs::read_to_string(log.path()).unwrap();
        text.lines().filter(|line| line.contains(message)).count()
    };
    let mut fixture = Fixture::memory().await;
    fixture.options.gone_timeout = Duration::ZERO;
    let known = write_stale_record(&fixture, "1:0:1:", SessionState::Ready, Some(1)).await;
    let unknown = write_stale_record(&fixture, "1:0:2:", SessionState::Starting, None).await;
    let mut left = [&known, &unknown]
        .map(|id| Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap());
    let worker = fixture.worker().await;
    // A session with a recorded slot withholds that slot; one without withholds all slots.
    assert_eq!(logged("tuner withheld"), 3);
    for child in &mut left {
        until("it is ended", LIMIT, || child.try_wait().unwrap().is_some()).unwrap();
    }
    until_async("both tuners are offered again", LIMIT, async || logged("tuner available again") >= 2)
        .await
        .unwrap();
    let id = fixture.start("1:0:3:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    worker.close().await;
}
