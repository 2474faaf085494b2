//! Sessions from their wish to their end.

use std::sync::Arc;
use std::time::Duration;

use session::{Admission, Admitted, Detail, Reason, SessionLog, State, Target};
use session_worker::{Command, Launcher, LeaseAdmission, Process, Times, Worker};
use testkit::RedisServer;
use testkit::wait::until_async;

use crate::house::{House, LIMIT, session, stubborn_program};

const CHANNEL: &str = "1:0:1:445D:453:1:C00000:0:0:0:";
const OTHER: &str = "1:0:1:445E:453:1:C00000:0:0:0:";

fn service(channel: &str) -> String {
    format!("lease:service:{channel}")
}

async fn a_whole_life(house: &House) {
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    let ready = house.until(&id, State::Ready).await;
    assert_eq!((ready.slot, ready.reason), (Some(0), Reason::None));
    assert_eq!(house.holder(&service(CHANNEL)).await.as_deref(), Some(id.as_str()));
    assert_eq!(house.holder("lease:tuner:0").await.as_deref(), Some(id.as_str()));
    assert!(house.folder(&id).join("index.m3u8").exists());

    assert!(house.ask_stop(&id).await);
    let stopped = house.until_over(&id).await;
    assert_eq!((stopped.state, stopped.reason), (State::Stopped, Reason::ClientStop));
    assert_eq!(house.holder(&service(CHANNEL)).await, None);
    assert_eq!(house.holder("lease:tuner:0").await, None);
    assert!(!house.folder(&id).exists());
    assert!(!house.ask_stop(&id).await || house.get(&id).await.state == State::Stopped);
    worker.close().await;
}

#[tokio::test]
async fn a_session_starts_is_watched_and_stops_in_memory() {
    a_whole_life(&House::memory().await).await;
}

#[tokio::test]
async fn a_session_starts_is_watched_and_stops_on_redis() {
    let redis = RedisServer::start().unwrap();
    a_whole_life(&House::redis(&redis).await).await;
}

#[tokio::test]
async fn a_taken_channel_is_refused_and_the_one_who_has_it_notices_nothing() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let first = house.wish(CHANNEL, "high").await;
    house.until(&first, State::Ready).await;
    let second = house.wish(CHANNEL, "low").await;
    let refused = house.until_over(&second).await;
    assert_eq!(
        (refused.state, refused.reason, refused.detail, refused.slot),
        (State::Failed, Reason::LeaseBusy, Some(Detail::RejectedBusy), None)
    );
    assert_eq!(house.get(&first).await.state, State::Ready);
    assert_eq!(house.holder(&service(CHANNEL)).await.as_deref(), Some(first.as_str()));
    assert!(house.folder(&first).join("index.m3u8").exists());
    worker.close().await;
}

#[tokio::test]
async fn without_a_free_tuner_a_session_is_refused_after_its_channel_is_given_back() {
    let mut house = House::memory().await;
    house.options.slots = [3].into();
    let worker = house.worker().await;
    let first = house.wish(CHANNEL, "high").await;
    assert_eq!(house.until(&first, State::Ready).await.slot, Some(3));
    let second = house.wish(OTHER, "high").await;
    let refused = house.until_over(&second).await;
    assert_eq!(
        (refused.state, refused.reason, refused.detail),
        (State::Failed, Reason::LeaseBusy, Some(Detail::RejectedNoTuner))
    );
    // Given back before the record said so.
    assert_eq!(house.holder(&service(OTHER)).await, None);
    assert_eq!(house.holder("lease:tuner:3").await.as_deref(), Some(first.as_str()));

    house.ask_stop(&first).await;
    house.until_over(&first).await;
    let third = house.wish("1:0:3:", "high").await;
    house.until(&third, State::Ready).await;
    worker.close().await;
}

#[tokio::test]
async fn a_session_that_is_stopped_before_it_starts_never_becomes_ready() {
    let house = House::memory().await;
    let id = house.wish(CHANNEL, "high").await;
    let mut changes = house.log.changes(&id).await.unwrap();
    assert!(house.ask_stop(&id).await);
    let worker = house.worker().await;
    let mut seen = vec![State::New];
    while !seen.last().unwrap().is_terminal() {
        seen.push(changes.next().await.unwrap().unwrap().state);
    }
    assert_eq!(seen.last(), Some(&State::Stopped));
    assert!(!seen.contains(&State::Ready), "{seen:?}");
    assert_eq!(house.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_session_that_nobody_watches_ends() {
    let mut house = House::memory().await;
    house.options.idle_timeout = Duration::from_secs(1);
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::IdleTimeout));
    assert!(over.published.is_some(), "it could be watched");
    worker.close().await;
}

#[tokio::test]
async fn what_the_door_took_in_phase_1_is_gone_on_with() {
    let house = House::memory().await;
    let admission = LeaseAdmission::new(house.store.clone(), house.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let mut wish = session(target.clone(), "high");
    let worker = house.worker().await;
    let Admitted::Yes(ticket) = admission.admit(&target, &wish.id).await.unwrap() else { panic!("busy") };
    let generation = house.status(&service(CHANNEL)).await.generation;
    assert_eq!(admission.admit(&target, &wish.id).await.unwrap(), Admitted::Busy, "also for itself");
    wish.ticket = Some(ticket.clone());
    let id = house.record(wish).await;
    house.until(&id, State::Ready).await;
    assert_eq!(house.status(&service(CHANNEL)).await.generation, generation, "the same reign");
    house.ask_stop(&id).await;
    assert_eq!(house.until_over(&id).await.ticket, None);
    assert_eq!(house.holder(&service(CHANNEL)).await, None);
    assert!(matches!(admission.admit(&target, &id).await.unwrap(), Admitted::Yes(_)), "free again");
    worker.close().await;
}

#[tokio::test]
async fn an_admission_that_was_not_recorded_is_given_back() {
    let house = House::memory().await;
    let admission = LeaseAdmission::new(house.store.clone(), house.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let id = session(target.clone(), "high").id;
    let Admitted::Yes(ticket) = admission.admit(&target, &id).await.unwrap() else { panic!("busy") };
    admission.release(&target, &ticket).await.unwrap();
    assert_eq!(house.holder(&service(CHANNEL)).await, None);
}

#[tokio::test]
async fn a_worker_that_is_closed_gives_everything_back_and_the_next_one_starts_at_once() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    house.until(&id, State::Ready).await;
    worker.close().await;
    let over = house.get(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::Cancelled));
    for key in [service(CHANNEL).as_str(), "lease:tuner:0", crate::house::GUARD] {
        assert_eq!(house.holder(key).await, None, "{key}");
    }
    let unheard = house.wish(OTHER, "high").await;
    assert_eq!(house.get(&unheard).await.state, State::New, "it stays until a worker is there");
    let next = house.worker().await;
    house.until(&unheard, State::Ready).await;
    next.close().await;
}

#[tokio::test]
async fn many_sessions_start_with_few_places_and_stops_do_not_wait_for_them() {
    let mut house = House::memory().await;
    house.options.slots = (0..40).collect();
    house.options.starts = 1;
    house.options.stops = 2;
    let worker = house.worker().await;
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(house.wish(&format!("1:2:{number}:"), "high").await);
    }
    for id in &ids[30..] {
        house.ask_stop(id).await;
    }
    for id in &ids[30..] {
        assert_eq!(house.until_over(id).await.state, State::Stopped);
    }
    let mut slots = std::collections::BTreeSet::new();
    for id in &ids[..30] {
        slots.insert(house.until(id, State::Ready).await.slot.unwrap());
    }
    assert_eq!(slots.len(), 30, "no tuner twice");
    worker.close().await;
}

/// A house whose pipelines do not listen when they are asked to stop.
fn stubborn(house: House) -> House {
    let mut house = house.receiver("http://127.0.0.1:1/{serviceRef}".to_owned());
    let program = stubborn_program(house.dir.path());
    let session_worker::Source::Ffmpeg(source) = &mut house.options.source else { panic!("no ffmpeg") };
    source.program = program;
    (house.options.stop_timeout, house.options.stall_timeout) = (LIMIT * 10, LIMIT * 10);
    house
}

#[tokio::test]
async fn a_session_that_is_stopping_ends_at_once_when_it_is_asked_again() {
    let house = stubborn(House::memory().await);
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    house.until(&id, State::Ready).await;
    house.ask_stop(&id).await;
    house.until(&id, State::Stopping).await;
    assert_eq!(house.holder("lease:tuner:0").await.as_deref(), Some(id.as_str()), "held until it is gone");
    assert!(!house.ask_stop(&id).await);
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::ClientStop));
    assert_eq!(house.holder("lease:tuner:0").await, None);
    worker.close().await;
}

#[tokio::test]
async fn a_pipeline_that_does_not_listen_is_killed_when_its_time_to_stop_is_over() {
    let mut house = stubborn(House::memory().await);
    house.options.stop_timeout = Duration::from_millis(200);
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    house.until(&id, State::Ready).await;
    worker.close().await;
    let over = house.get(&id).await;
    assert_eq!((over.state, over.reason), (State::Stopped, Reason::Cancelled));
    assert_eq!(house.holder("lease:tuner:0").await, None);
}

/// Starts nothing, for ever.
struct Hanging;

#[async_trait::async_trait]
impl Launcher for Hanging {
    async fn launch(&self, _command: Command, _times: Times) -> std::io::Result<Box<dyn Process>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn starts_that_hang_delay_neither_stops_nor_the_loss_of_the_guard() {
    let mut house = stubborn(House::memory().await);
    house.options.starts = 1;
    let worker = Worker::start(house.store.clone(), house.options.clone(), Arc::new(Hanging)).await.unwrap();
    let hanging = house.wish(CHANNEL, "high").await;
    house.until_that(&hanging, "it has its tuner", |session| session.slot.is_some()).await;
    let waiting = house.wish(OTHER, "high").await;
    house.ask_stop(&waiting).await;
    assert_eq!(house.until_over(&waiting).await.state, State::Stopped);
    assert_eq!(house.get(&hanging).await.state, State::Starting);
    house.revoke(crate::house::GUARD).await;
    assert!(matches!(worker.failed().await, session_worker::Fatal::Lost { .. }));
    worker.close().await;
}

#[tokio::test]
async fn no_line_of_a_log_shows_a_ticket_or_a_token() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let file = Arc::new(log.reopen().unwrap());
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(file).init();
    let house = House::memory().await;
    let admission = LeaseAdmission::new(house.store.clone(), house.options.lease_ttl);
    let target = Target::new(Some(CHANNEL), None, None).unwrap();
    let mut wish = session(target.clone(), "high");
    let worker = house.worker().await;
    let Admitted::Yes(ticket) = admission.admit(&target, &wish.id).await.unwrap() else { panic!("busy") };
    wish.ticket = Some(ticket.clone());
    let id = house.record(wish).await;
    house.until(&id, State::Ready).await;
    house.revoke("lease:tuner:0").await;
    house.until_over(&id).await;
    worker.close().await;
    let text = std::fs::read_to_string(log.path()).unwrap();
    assert!(text.contains(id.as_str()) && text.contains("READY"), "it is a log of this session");
    assert!(!text.contains(ticket.reveal()));
}

#[tokio::test]
async fn a_record_that_is_over_is_forgotten_after_its_retention_and_its_mapping_with_it() {
    let mut house = House::memory().await;
    house.options.retention = Duration::from_millis(400);
    let worker = house.worker().await;
    let wish = session(Target::new(Some(CHANNEL), None, None).unwrap(), "high");
    let key = wish.idempotency.clone();
    let id = house.record(wish).await;
    house.ask_stop(&id).await;
    until_async("both are gone", LIMIT, async || {
        house.log.get(&id).await.unwrap().is_none()
            && house.log.find(std::slice::from_ref(&key)).await.unwrap().is_none()
    })
    .await
    .unwrap();
    worker.close().await;
}
