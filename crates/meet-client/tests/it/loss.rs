//! Failures of connections, controllers and clients.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Key, Revoke, RevokeReason};
use tenure_meet_client::{Client, Event, News, Refused, State};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::{ErrorCode, Presence};
use tenure_store::{Local, TokioClock};
use tenure_testkit_meet::{FaultyStore, TestMeeting, WriteFault};

use crate::party::{Party, connected};

fn reconnecting(event: &Event) -> Option<()> {
    matches!(event, Event::Reconnecting { .. }).then_some(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_resumes_without_missing_or_repeating_anything() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let id = bob.id();
    bob.client.chat("before").await.unwrap();
    bob.transport.set_down(true);
    bob.next_event(reconnecting).await;
    ada.sees(|view| view.people.get(&id).is_some_and(|person| person.presence() == Presence::Disconnected))
        .await;
    for word in ["one", "two"] {
        ada.client.chat(word).await.unwrap();
    }
    // Requests made while disconnected are queued.
    let waiting = async {
        let (first, second) = tokio::join!(bob.client.chat("mine"), bob.client.mute(true, false));
        first.and(second)
    };
    let back = async {
        party.pass(Duration::from_secs(3)).await;
        bob.transport.set_down(false);
    };
    let (asked, ()) = tokio::join!(waiting, back);
    asked.unwrap();
    ada.hears("mine").await;
    bob.hears("mine").await;
    for guest in [&ada, &bob] {
        assert_eq!(guest.heard(), ["before", "one", "two", "mine"]);
        assert_eq!(guest.client.view(|view| view.people[&id].presence()), Presence::Connected);
    }
    assert_eq!(bob.id(), id, "the same participant");
    assert!(bob.client.own().unwrap().mute.unwrap().audio_self);
    assert!(bob.join_api.call_count() >= 2, "called the join API again");
    let traces: std::collections::BTreeSet<_> =
        bob.transport.dials().into_iter().map(|(_, trace)| trace).collect();
    assert_eq!(traces.len(), 1, "one trace across all connections");
    assert!(tenure_meet_wire::TraceParent::parse(traces.first().unwrap().as_deref().unwrap()).is_some());
}

#[tokio::test(start_paused = true)]
async fn every_event_arrives_once_and_in_order_across_many_losses() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    for round in 0..20 {
        for word in 0..round % 4 {
            ada.client.chat(&format!("{round}.{word}")).await.unwrap();
        }
        bob.transport.cut();
        ada.client.chat(&format!("{round} after")).await.unwrap();
        if round % 3 == 0 {
            bob.next_event(connected).await;
        }
    }
    let last = ada.client.view(|view| view.event_seq);
    bob.sees(|view| view.event_seq >= last).await;
    bob.hears("19 after").await;
    assert_eq!(bob.heard(), ada.heard());
    let taken = bob.taken();
    assert!(taken.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{taken:?}");
    assert_eq!(party.meeting.controller.counts().await.participants, 2, "never a second participant");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_returns_after_its_grace_is_a_new_participant() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let old = bob.id();
    bob.transport.set_down(true);
    ada.sees(|view| !view.people.contains_key(&old)).await;
    bob.transport.set_down(false);
    bob.next_event(reconnecting).await;
    assert_eq!(bob.next_event(connected).await, (false, false));
    assert_ne!(bob.id(), old);
    bob.client.chat("new here").await.unwrap();
    ada.hears("new here").await;
    assert_eq!(bob.client.view(|view| view.people.len()), 2);
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_fenced_controller_continue_at_the_next_owner_without_a_gap() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    ada.client.chat("before").await.unwrap();
    bob.hears("before").await;
    let key = Key::new("meeting:abc").unwrap();
    let generation = party.store.inspect(&key).await.unwrap().generation.unwrap();
    let mut next = TestMeeting::open(&party.store, "mc-2").unwrap();
    for guest in [&ada, &bob] {
        guest.transport.add_route("https://mc-2/wt/mc", next.in_memory());
        guest.join_api.set_endpoint("https://mc-2/wt/mc");
    }
    let revoke = Revoke { key, generation, delay: Some(Duration::ZERO), reason: RevokeReason::default() };
    party.store.revoke(revoke).await.unwrap();
    // The controller does not know yet that it is fenced. Its write fails and it closes all sessions.
    let (chat, taken) = tokio::join!(ada.client.chat("after"), next.assign());
    taken.unwrap();
    chat.unwrap();
    bob.hears("after").await;
    for guest in [&mut ada, &mut bob] {
        assert_eq!(guest.heard(), ["before", "after"]);
        let taken = guest.taken();
        assert!(taken.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{taken:?}");
    }
    assert_eq!(next.controller.counts().await.participants, 2, "both participants resumed");
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_departing_controller_move_to_the_next_one() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let id = ada.id();
    let mut next = TestMeeting::open(&party.store, "mc-2").unwrap();
    ada.transport.add_route("https://mc-2/wt/mc", next.in_memory());
    ada.join_api.set_endpoint("https://mc-2/wt/mc");
    party.meeting.shut_down().await;
    next.assign().await.unwrap();
    ada.next_event(reconnecting).await;
    assert_eq!(ada.next_event(connected).await, (true, true));
    assert_eq!(ada.id(), id);
}

#[tokio::test(start_paused = true)]
async fn the_request_queue_is_bounded_and_abandoned_requests_are_dropped() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let options = tenure_meet_client::Options { queue: 2, ..party.options("Bob") };
    let mut bob = party.try_join("bob", Role::Participant, options).await.unwrap();
    bob.transport.set_down(true);
    bob.next_event(reconnecting).await;
    {
        // Two requests fit. The third is rejected at once, and the first is abandoned.
        let mut first = Box::pin(bob.client.chat("first"));
        let mut second = Box::pin(bob.client.chat("second"));
        let pending = std::future::poll_fn(|cx| {
            use std::future::Future;
            std::task::Poll::Ready(
                first.as_mut().poll(cx).is_pending() && second.as_mut().poll(cx).is_pending(),
            )
        });
        assert!(pending.await);
        assert_eq!(bob.client.chat("third").await, Err(Refused::QueueFull));
        drop(first);
        bob.transport.set_down(false);
        second.await.unwrap();
    }
    ada.hears("second").await;
    assert_eq!(ada.heard(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_closed_and_still_sees_each_event_once() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let options = tenure_meet_client::Options { events: 4, lines: 2_000, ..party.options("Slow") };
    let mut slow = party.try_join("slow", Role::Participant, options).await.unwrap();
    for number in 0..600 {
        ada.client.chat(&number.to_string()).await.unwrap();
    }
    let id = slow.id();
    ada.sees(|view| view.people.get(&id).is_none_or(|person| person.presence() == Presence::Disconnected))
        .await;
    let mut chat = Vec::new();
    while chat.len() < 600 {
        match slow.events.recv().await.unwrap() {
            Event::News { news: News::Chat(said), .. } => chat.push(said.text),
            Event::Connected { resumed, replay } => assert!(chat.is_empty() || (resumed && replay)),
            _ => {}
        }
    }
    assert_eq!(chat, (0..600).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(slow.id(), id);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_stays_a_participant_for_its_grace() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let bob = party.join("bob", Role::Participant).await;
    let id = bob.id();
    drop(bob);
    ada.sees(|view| view.people.get(&id).is_some_and(|person| person.presence() == Presence::Disconnected))
        .await;
    ada.sees(|view| !view.people.contains_key(&id)).await;
}

#[tokio::test(start_paused = true)]
async fn leaving_without_a_connection_takes_five_seconds() {
    let mut party = Party::new().await;
    let mut bob = party.join("bob", Role::Participant).await;
    bob.transport.set_down(true);
    bob.next_event(reconnecting).await;
    assert_eq!(bob.client.state(), State::Reconnecting);
    let began = tenure_lease::Clock::now(&*party.clock);
    bob.client.leave().await;
    let took = tenure_lease::Clock::now(&*party.clock).since(began);
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_store_chat_is_not_durable_and_joins_wait() {
    let clock = Arc::new(TokioClock::default());
    let mishap = FaultyStore::new(Arc::new(Local::memory_on(clock.clone())));
    let mut party = Party::on(clock, mishap.clone()).await;
    let mut ada = party.join("ada", Role::Host).await;
    mishap.fail_all_writes(Some(WriteFault::Unavailable));
    ada.client.chat("unsaved").await.unwrap();
    let durable = ada.next_event(|event| match event {
        Event::News { news: News::Chat(_), durable, .. } => Some(*durable),
        _ => None,
    });
    assert!(!durable.await);
    assert_eq!(ada.client.view(|view| (view.event_seq, view.durable_seq)), (2, 1));
    let no = ada.client.host_mute(&ada.id(), true, false, "").await;
    assert!(matches!(no, Err(Refused::No { code: ErrorCode::Unavailable, .. })));
    let join_api = party.join_api("bob", Role::Participant);
    let (back, joined) = tokio::join!(
        async {
            party.pass(Duration::from_secs(3)).await;
            mishap.fail_all_writes(None);
        },
        Client::join(join_api.clone(), party.transport.clone(), party.options("Bob"))
    );
    let ((), (bob, _events)) = (back, joined.unwrap());
    assert!(join_api.call_count() > 1, "the first attempts were rejected");
    ada.sees(|view| view.people.len() == 2 && view.durable_seq == view.event_seq).await;
    ada.client.chat("welcome").await.unwrap();
    bob.until(|view| (view.lines.len() == 1).then_some(())).await.unwrap();
    assert_eq!(ada.heard(), ["unsaved", "welcome"]);
}
