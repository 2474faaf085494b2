//! Audio from speakers to listeners.

use std::time::Duration;

use tenure_meet_wire::media::audio::{self, Datagram};
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Change, Unsubscribe};
use tenure_meet_wire::signaling::ErrorCode;
use tenure_meet_wire::transport::Session as _;
use tenure_meet_wire::transport::memory::Session;

use crate::client::{MediaClient, listen, microphone};
use crate::harness::{Harness, harness, id};

/// Speakers 1 to `count` and a listener to all audio, the last participant.
async fn room(harness: &Harness, count: u8) -> (Vec<MediaClient<Session>>, MediaClient<Session>) {
    harness.open(count + 1).await;
    let mut speakers = Vec::new();
    for n in 1..=count {
        let mut speaker = harness.join(n).await;
        speaker.publish(microphone(1)).await;
        speakers.push(speaker);
    }
    let mut listener = harness.join(count + 1).await;
    let answer = listener.subscribe(listen(None, 100)).await;
    assert!(answer.participant_id.is_empty() && answer.alias > 0);
    (speakers, listener)
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_every_speaker_under_its_alias() {
    let harness = harness(100);
    let (speakers, mut listener) = room(&harness, 2).await;
    speakers[0].speak(1, 1, 30);
    let packet = listener.hear().await;
    let subscribed = listener.subscribed().await;
    assert_eq!(u32::from(packet.alias.number()), subscribed.alias);
    assert_eq!(subscribed.participant_id, id(1).to_string());
    assert_eq!((packet.sequence, packet.level, packet.payload.len()), (1, 30, 40));
    speakers[1].speak(1, 9, 40);
    let other = listener.hear().await;
    assert_ne!(other.alias, packet.alias);
    assert_eq!(listener.subscribed().await.participant_id, id(2).to_string());
}

#[tokio::test(start_paused = true)]
async fn the_loudest_eight_are_forwarded() {
    let harness = harness(100);
    let (speakers, listener) = room(&harness, 10).await;
    let mut heard = std::collections::BTreeMap::new();
    for sequence in 1..=100 {
        for (at, speaker) in speakers.iter().enumerate() {
            speaker.speak(1, sequence, 30 + 5 * at as u8);
        }
        harness.pass(Duration::from_millis(20)).await;
        while let Some(packet) = heard_now(&listener).await {
            if packet.sequence > 90 {
                *heard.entry(packet.level).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(heard.keys().copied().collect::<Vec<u8>>(), (0..8).map(|at| 30 + 5 * at).collect::<Vec<u8>>());
    assert!(heard.values().all(|count| *count == 10), "{heard:?}");
}

/// An audio packet that is there already.
async fn heard_now(listener: &MediaClient<Session>) -> Option<audio::AudioPacket> {
    tokio::select! {
        biased;
        packet = listener.hear() => Some(packet),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn priority_255_is_always_forwarded_to_four() {
    let harness = harness(100);
    let (speakers, mut listener) = room(&harness, 10).await;
    let quiet = listener.subscribe(listen(Some(id(10)), 255)).await;
    for n in 1..=3 {
        listener.subscribe(listen(Some(id(n)), 255)).await;
    }
    let fifth = listener.error(Request::Subscribe(listen(Some(id(4)), 255))).await;
    assert_eq!(fifth, ErrorCode::CapacityExceeded);
    let low = listener.subscribe(listen(Some(id(4)), 10)).await;
    let raise = Change { alias: low.alias, priority: 255, ..Change::default() };
    assert_eq!(listener.error(Request::Change(raise)).await, ErrorCode::CapacityExceeded);
    let all = listener.error(Request::Subscribe(listen(None, 255))).await;
    assert_eq!(all, ErrorCode::InvalidRequest);
    let mut count = 0;
    for sequence in 1..=100 {
        for (at, speaker) in speakers.iter().enumerate() {
            speaker.speak(1, sequence, 30 + 5 * at as u8);
        }
        harness.pass(Duration::from_millis(20)).await;
        while let Some(packet) = heard_now(&listener).await {
            count += usize::from(u32::from(packet.alias.number()) == quiet.alias);
        }
    }
    assert_eq!(count, 100);
}

#[tokio::test(start_paused = true)]
async fn packets_of_one_listener_leave_together() {
    let harness = harness(100);
    let (speakers, listener) = room(&harness, 3).await;
    let began = harness.now();
    for speaker in &speakers {
        speaker.speak(1, 1, 30);
    }
    for _ in 0..3 {
        listener.hear().await;
        assert_eq!(harness.now().since(began).as_millis(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_without_anything_to_send_shows_that_it_is_alive() {
    let harness = harness(100);
    harness.open(1).await;
    let client = harness.join(1).await;
    let mut last = harness.now();
    for _ in 0..20 {
        let datagram = client.session.receive_datagram().await.unwrap();
        assert_eq!(audio::decode(&datagram), Ok(Datagram::KeepAlive));
        assert!(harness.now().since(last) <= Duration::from_millis(150));
        last = harness.now();
    }
}

#[tokio::test(start_paused = true)]
async fn speakers_are_announced_when_their_order_changes() {
    let harness = harness(100);
    let (speakers, mut listener) = room(&harness, 2).await;
    let order = |event: &Event| match event {
        Event::Speakers(speakers) => {
            Some(speakers.levels.iter().map(|level| level.participant_id.clone()).collect::<Vec<_>>())
        }
        _ => None,
    };
    let talk = async |levels: [u8; 2], from: u64| {
        for sequence in from..from + 100 {
            for (speaker, level) in speakers.iter().zip(levels) {
                speaker.speak(1, sequence, level);
            }
            harness.pass(Duration::from_millis(20)).await;
        }
    };
    talk([30, 60], 1).await;
    talk([60, 30], 101).await;
    assert_eq!(listener.event(order).await, [id(1).to_string(), id(2).to_string()]);
    assert_eq!(listener.event(order).await, [id(2).to_string(), id(1).to_string()]);
    harness.pass(Duration::from_secs(1)).await;
    assert!(listener.event(order).await.is_empty(), "all are silent");
}

#[tokio::test(start_paused = true)]
async fn datagrams_ahead_of_their_publication_wait() {
    let harness = harness(100);
    harness.open(2).await;
    let (mut speaker, mut listener) = (harness.join(1).await, harness.join(2).await);
    listener.subscribe(listen(None, 1)).await;
    for sequence in 1..=40 {
        speaker.speak(1, sequence, 30);
    }
    harness.pass(Duration::from_millis(100)).await;
    speaker.publish(microphone(1)).await;
    for sequence in 1..=32 {
        assert_eq!(listener.hear().await.sequence, sequence);
    }
    speaker.speak(1, 50, 30);
    assert_eq!(listener.hear().await.sequence, 50, "those beyond 32 were dropped");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_packets_is_cut_to_110_a_second() {
    let harness = harness(100);
    let (speakers, listener) = room(&harness, 1).await;
    let mut count = 0;
    for sequence in 0..1_000 {
        speakers[0].speak(1, sequence, 30);
        if sequence % 20 == 19 {
            harness.pass(Duration::from_millis(20)).await;
            while heard_now(&listener).await.is_some() {
                count += 1;
            }
        }
    }
    assert!((200..=225).contains(&count), "a burst of 110 and 110 in a second: {count}");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_unsubscribes_hears_nothing_more() {
    let harness = harness(100);
    harness.open(2).await;
    let (mut speaker, mut listener) = (harness.join(1).await, harness.join(2).await);
    speaker.publish(microphone(1)).await;
    let all = listener.subscribe(listen(None, 1)).await;
    speaker.speak(1, 1, 30);
    listener.hear().await;
    listener.accept(Request::Unsubscribe(Unsubscribe { alias: all.alias })).await;
    speaker.speak(1, 2, 30);
    tokio::select! {
        biased;
        packet = listener.hear() => panic!("{packet:?}"),
        () = harness.pass(Duration::from_millis(500)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_speaker_that_comes_back_keeps_its_alias() {
    let harness = harness(100);
    let (mut speakers, listener) = room(&harness, 1).await;
    speakers[0].speak(1, 1, 30);
    let before = listener.hear().await;
    drop(speakers.pop());
    harness.pass(Duration::from_millis(10)).await;
    let mut again = harness.join(1).await;
    again.publish(microphone(3)).await;
    again.speak(3, 2, 30);
    let after = listener.hear().await;
    assert_eq!((after.alias, after.sequence), (before.alias, 2));
}
