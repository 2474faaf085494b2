//! Pictures that do not end when they should.

use std::io;
use std::mem::ManuallyDrop;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use session::{Detail, Reason, Session, SessionId, State};
use session_worker::{Exit, Launcher, Process, SESSION_VARIABLE, Source, Times, Worker};
use testkit::wait::{until, until_async};

use crate::house::{House, LIMIT, stubborn_program};
use crate::launcher::Plain;
use crate::recovery::leave;

/// Starts what does not hear that it should end, and goes on when it is let go: as below a watchdog that is stuck.
struct Deaf;

struct Unheard(ManuallyDrop<Box<dyn Process>>);

#[async_trait]
impl Launcher for Deaf {
    async fn launch(&self, command: session_worker::Command, times: Times) -> io::Result<Box<dyn Process>> {
        Ok(Box::new(Unheard(ManuallyDrop::new(Plain.launch(command, times).await?))))
    }
}

#[async_trait]
impl Process for Unheard {
    async fn extend(&mut self, times: Times) -> io::Result<()> {
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

/// A house with one tuner whose pipelines hear nothing.
async fn deaf() -> House {
    let mut house = House::memory().await.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let program = stubborn_program(house.dir.path());
    let Source::Ffmpeg(source) = &mut house.options.source else { panic!("no ffmpeg") };
    source.program = program;
    house.options.slots = [0].into();
    (house.options.stop_timeout, house.options.stall_timeout) = (LIMIT * 10, LIMIT * 10);
    house
}

async fn worker(house: &House) -> Worker {
    Worker::start(house.store.clone(), house.options.clone(), Arc::new(Deaf)).await.unwrap()
}

/// The number of the program that runs for a session that is ready.
fn number(house: &House, id: &SessionId) -> u32 {
    std::fs::read_to_string(house.folder(id).join("pid")).unwrap().trim().parse().unwrap()
}

fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| !environment.is_empty())
}

#[tokio::test]
async fn a_tuner_on_which_something_still_runs_is_kept_out_until_it_is_gone() {
    let mut house = deaf().await;
    (house.options.stop_timeout, house.options.gone_timeout) =
        (Duration::from_millis(1), Duration::from_millis(1));
    // Nobody looks around by himself, so that the order of things is the test's.
    house.options.reconcile = LIMIT * 10;
    let worker = worker(&house).await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    let pid = number(&house, &id);
    house.ask_stop(&id).await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::ClientStop));
    assert_eq!(house.holder("lease:tuner:0").await, None, "the lease is given back");
    assert!(runs(pid), "and it runs on");
    let refused = house.wish("1:0:2:", "high").await;
    let refused = house.until_over(&refused).await;
    assert_eq!((refused.reason, refused.detail), (Reason::LeaseBusy, Some(Detail::RejectedNoTuner)));

    // Its last child may take a little longer than itself.
    let mut asked = 2;
    until_async("the tuner is offered again", LIMIT, async || {
        worker.reconcile_now().await;
        asked += 1;
        let next = house.wish(&format!("1:0:{asked}:"), "high").await;
        let settled = |session: &Session| session.state == State::Ready || session.state.is_terminal();
        let next = house.until_that(&next, "it is decided", settled).await;
        assert!(next.slot.is_none() || !runs(pid), "not before it was gone");
        next.state == State::Ready
    })
    .await
    .unwrap();
    worker.close().await;
    house.end_all();
}

#[tokio::test]
async fn a_session_that_hangs_while_stopping_is_over_by_force() {
    let mut house = deaf().await;
    house.options.stuck_timeout = Duration::from_millis(500);
    let worker = worker(&house).await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    house.ask_stop(&id).await;
    let over = house.until_over(&id).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (State::Stopped, Reason::ClientStop, Some(Detail::SweeperForcedStop))
    );
    assert_eq!(house.holder("lease:tuner:0").await, None);
    assert!(!house.folder(&id).exists());
    worker.close().await;
    house.end_all();
}

#[tokio::test]
async fn what_of_a_vanished_worker_is_not_gone_in_time_keeps_its_tuner_out() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let file = Arc::new(log.reopen().unwrap());
    tracing_subscriber::fmt().with_ansi(false).with_writer(file).init();
    let said = |words: &str| {
        let text = std::fs::read_to_string(log.path()).unwrap();
        text.lines().filter(|line| line.contains(words)).count()
    };
    let mut house = House::memory().await;
    house.options.gone_timeout = Duration::ZERO;
    let known = leave(&house, "1:0:1:", State::Ready, Some(1)).await;
    let unknown = leave(&house, "1:0:2:", State::Starting, None).await;
    let mut left = [&known, &unknown]
        .map(|id| Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap());
    let worker = house.worker().await;
    // One that knew its tuner keeps that one out, one of which nobody knows it keeps all out.
    assert_eq!(said("a tuner is kept out"), 3);
    for child in &mut left {
        until("it is ended", LIMIT, || child.try_wait().unwrap().is_some()).unwrap();
    }
    until_async("both tuners are offered again", LIMIT, async || said("a tuner is offered again") >= 2)
        .await
        .unwrap();
    let id = house.wish("1:0:3:", "high").await;
    house.until(&id, State::Ready).await;
    worker.close().await;
}
