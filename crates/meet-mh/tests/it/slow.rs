//! Slow subscribers, and what they cost others: nothing.

use std::time::Duration;

use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{ClientReport, ClientTrackReport};
use tenure_meet_wire::transport::memory::Conditions;
use tenure_meet_wire::transport::{Closed, Session as _};

use crate::client::{GroupEnd, MediaClient, video, watch};
use crate::harness::{Harness, harness, id};

async fn join_viewer(harness: &Harness, n: u8) -> MediaClient<tenure_meet_wire::transport::memory::Session> {
    let mut viewer = harness.join(n).await;
    viewer.subscribe(watch(id(1))).await;
    viewer
}

fn conditions(harness: &Harness) -> Conditions {
    Conditions {
        clock: harness.clock.clone(),
        delay: Duration::from_millis(20),
        loss_permille: 0,
        reorder_permille: 0,
        bytes_per_second: None,
        seed: 1,
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_reads_nothing_holds_up_no_other_and_skips_to_the_newest_group() {
    let harness = harness(100);
    harness.open(3).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 1)).await;
    let (slow, fast) = (join_viewer(&harness, 2).await, join_viewer(&harness, 3).await);
    for number in 1..=4 {
        let mut group = publisher.group(5, 0, number).await;
        let mut got = None;
        for frame in 0..100 {
            let name = format!("{number}.{frame}");
            group.frame(0, name.as_bytes()).await.unwrap();
            if got.is_none() {
                got = Some(fast.next_group().await);
            }
            assert_eq!(got.as_mut().unwrap().next().await, Ok(name));
            harness.pass(Duration::from_millis(10)).await;
        }
        group.stream.finish();
        assert_eq!(got.unwrap().next().await, Err(GroupEnd::Finished));
    }
    let mut ends = Vec::new();
    for _ in 0..4 {
        ends.push(slow.next_group().await.rest().await.1);
    }
    let stale = GroupEnd::Reset(Some(1));
    assert_eq!(ends, [stale.clone(), stale.clone(), stale, GroupEnd::Finished]);
    assert!(harness.handler.cached_bytes() < 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_does_not_read_events_is_closed() {
    let harness = harness(100);
    harness.open(2).await;
    let silent = harness.join(1).await;
    // Reports and keep-alives alone fill what it may leave unread, in the end.
    let closed = tokio::select! {
        closed = silent.session.closed() => closed,
        () = harness_open(&harness) => panic!("still open"),
    };
    assert_eq!(closed, Closed::Code(4006));
}

/// Renews the registration for 20 minutes.
async fn harness_open(harness: &Harness) {
    for _ in 0..120 {
        harness.pass(Duration::from_secs(10)).await;
        harness.open(2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_path_gets_a_lower_rendition_and_the_better_one_back() {
    let harness = harness(100);
    harness.open(2).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 3)).await;
    let viewer = join_viewer(&harness, 2).await;
    viewer.session.wire().set(&Conditions { bytes_per_second: Some(60_000), ..conditions(&harness) });
    let mut seen = Vec::new();
    let mut restored = None;
    for second in 1..=60_u64 {
        if second % 10 == 0 {
            harness.open(2).await;
        }
        if second == 20 {
            viewer.session.wire().set(&conditions(&harness));
        }
        let send = async {
            // 100, 400 and 1,200 kbit/s in ten frames a second.
            let mut groups = Vec::new();
            for rendition in 0..3 {
                groups.push(publisher.group(5, rendition, second).await);
            }
            for _ in 0..10 {
                for (group, len) in groups.iter_mut().zip([1_250, 5_000, 15_000]) {
                    group.frame(0, &vec![0; len]).await.unwrap();
                }
                harness.pass(Duration::from_millis(100)).await;
            }
            for group in &mut groups {
                group.stream.finish();
            }
        };
        let read = async {
            loop {
                let mut group = viewer.next_group().await;
                seen.push(group.header().await.rendition);
                while group.next().await.is_ok() {}
            }
        };
        tokio::select! {
            () = send => {}
            () = read => {}
        }
        if second > 20 && seen.last() == Some(&2) {
            restored.get_or_insert(second);
        }
        if second == 19 {
            assert!(seen.last().is_some_and(|rendition| *rendition < 2), "{seen:?}");
        }
    }
    let restored = restored.expect("the best rendition comes back");
    assert!((24..=55).contains(&restored), "after a clean time: {restored} s, {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_is_far_behind_skips_to_the_newest_group() {
    let harness = harness(100);
    harness.open(2).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 1)).await;
    let mut viewer = harness.join(2).await;
    let alias = viewer.subscribe(watch(id(1))).await.alias;
    let mut first = publisher.group(5, 0, 1).await;
    first.frame(0, b"one").await.unwrap();
    let mut got = viewer.next_group().await;
    assert_eq!(got.next().await, Ok("one".into()));
    publisher.group(5, 0, 9).await.frame(0, b"nine").await.unwrap();
    harness.pass(Duration::from_millis(50)).await;
    let track = ClientTrackReport { alias, group: 1, timestamp_us: 1_000_000, ..Default::default() };
    viewer.send(Request::Report(ClientReport { tracks: vec![track] })).await;
    assert_eq!(got.next().await, Err(GroupEnd::Reset(Some(1))));
    assert_eq!(viewer.next_group().await.header().await.group, 9);
}

#[tokio::test(start_paused = true)]
async fn participants_get_a_report_every_second() {
    let harness = harness(100);
    harness.open(2).await;
    let mut publisher = harness.join(1).await;
    publisher.session.wire().set(&conditions(&harness));
    publisher.publish(video(5, 1)).await;
    let mut group = publisher.group(5, 0, 1).await;
    for _ in 0..30 {
        group.frame(0, &[0; 1_000]).await.unwrap();
        harness.pass(Duration::from_millis(100)).await;
    }
    let mut reports = Vec::new();
    for _ in 0..3 {
        let report = publisher.event(|event| match event {
            Event::Report(report) => Some(report.clone()),
            _ => None,
        });
        reports.push(report.await);
    }
    let last = reports.last().unwrap();
    assert_eq!((last.rtt_ms, last.loss_permille), (40, 0));
    assert!((75_000..=95_000).contains(&last.bitrate_in), "{last:?}");
    assert_eq!((last.tracks[0].alias, last.tracks[0].rendition), (5, 0));
    assert!((60_000..=90_000).contains(&last.tracks[0].bitrate), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_accepts_no_stream_pins_no_old_group() {
    let harness = harness(100);
    harness.open(3).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(5, 3)).await;
    let (_hostile, fast) = (join_viewer(&harness, 2).await, join_viewer(&harness, 3).await);
    for number in 1..=80 {
        let mut group = publisher.group(5, 2, number).await;
        group.frame(0, &[0; 10_000]).await.unwrap();
        group.stream.finish();
        assert_eq!(fast.next_group().await.rest().await, (1, GroupEnd::Finished));
        harness.pass(Duration::from_millis(200)).await;
    }
    assert!(harness.handler.cached_bytes() < 2 * 10_000, "{}", harness.handler.cached_bytes());
}
