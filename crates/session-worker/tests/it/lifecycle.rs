//! The lifecycle of sessions.

use std::sync::Arc;
use std::time::Duration;

use tenure_session::{Admission, AdmissionOutcome, Detail, Reason, SessionLog, SessionState, Target};
use tenure_session_worker::{Command, Launcher, LeaseAdmission, Process, StopTimes, Worker};
use tenure_testkit::RedisServer;
use tenure_testkit::wait::until_async;

use crate::fixture::{Fixture, LIMIT, program_ignoring_sigterm, session};

const CHANNEL: &str = "1:0:1:445D:453:1:C00000:0:0:0:";
const OTHER: &str = "1:0:1:445E:453:1:C00000:0:0:0:";

fn service(channel: &str) -> String {
    format!("lease:service:{channel}")
}

async fn start_play_and_stop(fixture: &Fixture) {
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    let ready = fixture.until(&id, SessionState::Ready).await;
    assert_eq!((ready.slot, ready.reason), (Some(0), Reason::None));
    assert_eq!(fixture.holder(&service(CHANNEL)).await.as_deref(), Some(id.as_str()));
    assert_eq!(fixture.holder("lease:tuner:0").await.as_deref(), Some(id.as_str()));
    assert!(fixture.folder(&id).join("index.m3u8").exists());

    assert!(fixture.request_stop(&id).await);
    let stopped = fixture.until_ended(&id).await;
    assert_eq!((stopped.state, stopped.reason), (SessionState::Stopped, Reason::ClientStop));
    assert_eq!(fixture.holder(&service(CHANNEL)).await, None);
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
    assert!(!fixture.folder(&id).exists());
    assert!(!fixture.request_stop(&id).await || fixture.get(&id).await.state == SessionState::Stopped);
    worker.close().await;
}

#[tokio::test]
async fn a_session_starts_plays_and_stops_in_memory() {
    start_play_and_stop(&Fixture::memory().await).await;
}

#[tokio::test]
async fn a_session_starts_plays_and_stops_on_redis() {
    let redis = RedisServer::start().unwrap();
    start_play_and_stop(&Fixture::redis(&redis).await).await;
}

#[tokio::test]
async fn a_leased_channel_is_rejected_without_affecting_its_session() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let first = fixture.start(CHANNEL, "high").await;
    fixture.until(&first, SessionState::Ready).await;
    let second = fixture.start(CHANNEL, "low").await;
    let refused = fixture.until_ended(&second).await;
    assert_eq!(
        (refused.state, refused.reason, refused.detail, refused.slot),
        (SessionState::Failed, Reason::LeaseBusy, Some(Detail::RejectedBusy), None)
    );
    assert_eq!(fixture.get(&first).await.state, SessionState::Ready);
    assert_eq!(fixture.holder(&service(CHANNEL)).await.as_deref(), Some(first.as_str()));
    assert!(fixture.folder(&first).join("index.m3u8").exists());
    worker.close().await;
}

#[tokio::test]
async fn without_a_free_tuner_a_session_is_rejected_after_its_channel_is_released() {
    let mut fixture = Fixture::memory().await;
    fixture.options.slots = [3].into();
    let worker = fixture.worker().await;
    let first = fixture.start(CHANNEL, "high").await;
    assert_eq!(fixture.until(&first, SessionState::Ready).await.slot, Some(3));
    let second = fixture.start(OTHER, "high").await;
    let refused = fixture.until_ended(&second).await;
    assert_eq!(
        (refused.state, refused.reason, refused.detail),
        (SessionState::Failed, Reason::LeaseBusy, Some(Detail::RejectedNoTuner))
    );
    // Released before the record was written.
    assert_eq!(fixture.holder(&service(OTHER)).await, None);
    assert_eq!(fixture.holder("lease:tuner:3").await.as_deref(), Some(first.as_str()));

    fixture.request_stop(&first).await;
    fixture.until_ended(&first).await;
    let third = fixture.start("1:0:3:", "high").await;
    fixture.until(&third, SessionState::Ready).await;
    worker.close().await;
}

#[tokio::test]
async fn a_session_that_is_stopped_before_it_starts_never_becomes_ready() {
    let fixture = Fixture::memory().await;
    let id = fixture.start(CHANNEL, "high").await;
    let mut changes = fixture.log.changes(&id).await.unwrap();
    assert!(fixture.request_stop(&id).await);
    let worker = fixture.worker().await;
    let mut seen = vec![SessionState::New];
    while !seen.last().unwrap().is_terminal() {
        seen.push(changes.next().await.unwrap().unwrap().state);
    }
    assert_eq!(seen.last(), Some(&SessionState::Stopped));
    assert!(!seen.contains(&SessionState::Ready), "{seen:?}");
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_session_without_viewers_is_stopped() {
    let mut fixture = Fixture::memory().await;
    fixture.options.idle_timeout = Duration::from_secs(1);
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::IdleTimeout));
    assert!(over.published.is_some(), "it was playable");
    worker.close().await;
}

#[tokio::test]
async fn the_worker_continues_the_lease_acquired_in_phase_1() {
    let fixture = Fixture::memory().await;
    let admission = LeaseAdmission::new(fixture.store.clone(), fixture.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let mut intent = session(target.clone(), "high");
    let worker = fixture.worker().await;
    let AdmissionOutcome::Granted(ticket) = admission.admit(&target, &intent.id).await.unwrap() else {
        panic!("busy")
    };
    let generation = fixture.status(&service(CHANNEL)).await.generation;
    assert_eq!(
        admission.admit(&target, &intent.id).await.unwrap(),
        AdmissionOutcome::Busy,
        "also for the same session"
    );
    intent.ticket = Some(ticket.clone());
    let id = fixture.record(intent).await;
    fixture.until(&id, SessionState::Ready).await;
    assert_eq!(fixture.status(&service(CHANNEL)).await.generation, generation, "the same reign");
    fixture.request_stop(&id).await;
    assert_eq!(fixture.until_ended(&id).await.ticket, None);
    assert_eq!(fixture.holder(&service(CHANNEL)).await, None);
    assert!(
        matches!(admission.admit(&target, &id).await.unwrap(), AdmissionOutcome::Granted(_)),
        "free again"
    );
    worker.close().await;
}

#[tokio::test]
async fn an_admission_without_a_record_is_released() {
    let fixture = Fixture::memory().await;
    let admission = LeaseAdmission::new(fixture.store.clone(), fixture.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let id = session(target.clone(), "high").id;
    let AdmissionOutcome::Granted(ticket) = admission.admit(&target, &id).await.unwrap() else {
        panic!("busy")
    };
    admission.release(&target, &ticket).await.unwrap();
    assert_eq!(fixture.holder(&service(CHANNEL)).await, None);
}

#[tokio::test]
async fn a_closed_worker_releases_everything_and_the_next_one_starts_at_once() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    fixture.until(&id, SessionState::Ready).await;
    worker.close().await;
    let over = fixture.get(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::Cancelled));
    for key in [service(CHANNEL).as_str(), "lease:tuner:0", crate::fixture::GUARD] {
        assert_eq!(fixture.holder(key).await, None, "{key}");
    }
    let waiting = fixture.start(OTHER, "high").await;
    assert_eq!(fixture.get(&waiting).await.state, SessionState::New, "it stays in NEW until a worker starts");
    let next = fixture.worker().await;
    fixture.until(&waiting, SessionState::Ready).await;
    next.close().await;
}

#[tokio::test]
async fn many_sessions_start_with_limited_concurrency_and_stops_do_not_wait() {
    let mut fixture = Fixture::memory().await;
    fixture.options.slots = (0..40).collect();
    fixture.options.starts = 1;
    fixture.options.stops = 2;
    let worker = fixture.worker().await;
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(fixture.start(&format!("1:2:{number}:"), "high").await);
    }
    for id in &ids[30..] {
        fixture.request_stop(id).await;
    }
    for id in &ids[30..] {
        assert_eq!(fixture.until_ended(id).await.state, SessionState::Stopped);
    }
    let mut slots = std::collections::BTreeSet::new();
    for id in &ids[..30] {
        slots.insert(fixture.until(id, SessionState::Ready).await.slot.unwrap());
    }
    assert_eq!(slots.len(), 30, "no tuner is used twice");
    worker.close().await;
}

/// A fixture whose pipelines ignore SIGTERM.
fn ignoring_sigterm(fixture: Fixture) -> Fixture {
    let mut fixture = fixture.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let program = program_ignoring_sigterm(fixture.dir.path());
    let tenure_session_worker::Source::Ffmpeg(source) = &mut fixture.options.source else {
        panic!("no ffmpeg")
    };
    source.program = program;
    (fixture.options.stop_timeout, fixture.options.stall_timeout) = (LIMIT * 10, LIMIT * 10);
    fixture
}

#[tokio::test]
async fn a_second_stop_request_ends_a_stopping_session_at_once() {
    let fixture = ignoring_sigterm(Fixture::memory().await);
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    fixture.until(&id, SessionState::Ready).await;
    fixture.request_stop(&id).await;
    fixture.until(&id, SessionState::Stopping).await;
    assert_eq!(
        fixture.holder("lease:tuner:0").await.as_deref(),
        Some(id.as_str()),
        "held until the pipeline exits"
    );
    assert!(!fixture.request_stop(&id).await);
    let over = fixture.until_ended(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::ClientStop));
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_pipeline_that_ignores_sigterm_is_killed_after_the_stop_timeout() {
    let mut fixture = ignoring_sigterm(Fixture::memory().await);
    fixture.options.stop_timeout = Duration::from_millis(200);
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    fixture.until(&id, SessionState::Ready).await;
    worker.close().await;
    let over = fixture.get(&id).await;
    assert_eq!((over.state, over.reason), (SessionState::Stopped, Reason::Cancelled));
    assert_eq!(fixture.holder("lease:tuner:0").await, None);
}

/// A launcher that never completes.
struct Hanging;

#[async_trait::async_trait]
impl Launcher for Hanging {
    async fn launch(&self, _command: Command, _times: StopTimes) -> std::io::Result<Box<dyn Process>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn starts_that_hang_delay_neither_stops_nor_the_loss_of_the_guard() {
    let mut fixture = ignoring_sigterm(Fixture::memory().await);
    fixture.options.starts = 1;
    let worker =
        Worker::start(fixture.store.clone(), fixture.options.clone(), Arc::new(Hanging)).await.unwrap();
    let hanging = fixture.start(CHANNEL, "high").await;
    fixture.until_that(&hanging, "it has a tuner", |session| session.slot.is_some()).await;
    let waiting = fixture.start(OTHER, "high").await;
    fixture.request_stop(&waiting).await;
    assert_eq!(fixture.until_ended(&waiting).await.state, SessionState::Stopped);
    assert_eq!(fixture.get(&hanging).await.state, SessionState::Starting);
    fixture.revoke(crate::fixture::GUARD).await;
    assert!(matches!(worker.failed().await, tenure_session_worker::WorkerError::GuardLost { .. }));
    worker.close().await;
}

#[tokio::test]
async fn the_log_contains_no_ticket_or_token() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let file = Arc::new(log.reopen().unwrap());
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(file).init();
    let fixture = Fixture::memory().await;
    let admission = LeaseAdmission::new(fixture.store.clone(), fixture.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let mut intent = session(target.clone(), "high");
    let worker = fixture.worker().await;
    let AdmissionOutcome::Granted(ticket) = admission.admit(&target, &intent.id).await.unwrap() else {
        panic!("busy")
    };
    intent.ticket = Some(ticket.clone());
    let id = fixture.record(intent).await;
    fixture.until(&id, SessionState::Ready).await;
    fixture.revoke("lease:tuner:0").await;
    fixture.until_ended(&id).await;
    worker.close().await;
    let text = std::fs::read_to_string(log.path()).unwrap();
    assert!(text.contains(id.as_str()) && text.contains("READY"), "the log covers this session");
    assert!(!text.contains(ticket.reveal()));
}

#[tokio::test]
async fn an_ended_record_and_its_mapping_are_deleted_after_the_retention_time() {
    let mut fixture = Fixture::memory().await;
    fixture.options.retention = Duration::from_millis(400);
    let worker = fixture.worker().await;
    let intent = session(Target::new(Some(CHANNEL), None, None).unwrap(), "high");
    let key = intent.idempotency.clone();
    let id = fixture.record(intent).await;
    fixture.request_stop(&id).await;
    until_async("both are gone", LIMIT, async || {
        fixture.log.get(&id).await.unwrap().is_none()
            && fixture.log.find_mapping(std::slice::from_ref(&key)).await.unwrap().is_none()
    })
    .await
    .unwrap();
    worker.close().await;
}
