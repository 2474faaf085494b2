//! The load of a handler: measured, reported to controllers, and a reason to refuse.

use std::time::Duration;

use tenure_meet_mh::{LoadReporter, RefuseMeetings};
use tenure_meet_wire::internal::HealthStatus;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::signaling::ErrorCode;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::{listen, video, watch};
use crate::harness::{Harness, harness, id};
use crate::speakers::controller;

fn report(harness: &Harness) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(LoadReporter::new(harness.handler.clone()).run(CancellationToken::new()));
    tasks
}

#[tokio::test(start_paused = true)]
async fn a_controller_hears_of_the_load_at_first_and_when_it_changes() {
    let harness = harness(10);
    let mut received = controller(&harness, 100);
    harness.open(3).await;
    let _tasks = report(&harness);
    let first = received.loads.recv().await.unwrap();
    assert_eq!((first.mh_id.as_str(), first.health()), ("mh-1", HealthStatus::Healthy));
    // The harness measures 6 percent of memory, which is more than all else.
    assert_eq!((first.capacity_percent, first.estimated_available_streams), (6, 10));
    harness.pass(Duration::from_secs(5)).await;
    assert!(received.loads.try_recv().is_err(), "nothing changed");
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 1)).await;
    let mut viewer = harness.join(2).await;
    viewer.subscribe(watch(id(1))).await;
    let next = received.loads.recv().await.unwrap();
    assert_eq!((next.capacity_percent, next.estimated_available_streams), (20, 8));
    harness.handler.set_refuse(RefuseMeetings::Draining);
    let began = harness.now();
    assert_eq!(received.loads.recv().await.unwrap().health(), HealthStatus::Draining);
    assert!(harness.now().since(began) <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn reports_of_the_load_leave_at_most_once_a_second() {
    let harness = harness(10);
    let mut received = controller(&harness, 100);
    harness.open(3).await;
    let _tasks = report(&harness);
    for at in 0..40 {
        let refuse = [RefuseMeetings::Nothing, RefuseMeetings::Draining][at % 2];
        harness.handler.set_refuse(refuse);
        harness.pass(Duration::from_millis(350)).await;
    }
    let mut count = 0;
    while received.loads.try_recv().is_ok() {
        count += 1;
    }
    assert!((2..=15).contains(&count), "{count} in 14 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_bandwidth_is_used_refuses_subscriptions() {
    let harness = harness(100);
    let mut received = controller(&harness, 100);
    harness.open(3).await;
    let _tasks = report(&harness);
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 3)).await;
    let mut viewer = harness.join(2).await;
    viewer.subscribe(watch(id(1))).await;
    // The harness has 1 Mbit/s: this is 1.2 Mbit/s each way.
    for number in 1..=4 {
        let mut group = publisher.group(5, 2, number).await;
        for _ in 0..10 {
            group.frame(0, &[0; 15_000]).await.unwrap();
            harness.pass(Duration::from_millis(100)).await;
        }
        group.stream.finish();
        viewer.next_group().await.rest().await;
    }
    let mut late = harness.join(3).await;
    assert_eq!(late.error(Request::Subscribe(watch(id(1)))).await, ErrorCode::CapacityExceeded);
    let mut last = None;
    while let Ok(load) = received.loads.try_recv() {
        last = Some(load.capacity_percent);
    }
    assert!(last.is_some_and(|percent| percent >= 95), "{last:?}");
    harness.pass(Duration::from_secs(3)).await;
    late.subscribe(listen(None, 1)).await;
}
