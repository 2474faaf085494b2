//! Connections, controllers and clients that fail.

use std::sync::Arc;
use std::time::Duration;

use lease::{Key, Motive, Revoke};
use lease_store::{Local, TokioClock};
use meet_client::{Client, Event, News, Refused, State};
use meet_wire::jwt::Role;
use meet_wire::signaling::{ErrorCode, Presence};
use testkit_meet::{Fate, Mishap, Venue};

use crate::party::{Party, connected};

fn reconnecting(event: &Event) -> Option<()> {
    matches!(event, Event::Reconnecting { .. }).then_some(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_comes_back_to_its_seat_with_nothing_missed_and_nothing_done_twice() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let id = bob.id();
    bob.client.chat("before").await.unwrap();
    bob.cables.down(true);
    bob.told(reconnecting).await;
    ada.sees(|view| view.people.get(&id).is_some_and(|person| person.presence() == Presence::Disconnected))
        .await;
    for word in ["one", "two"] {
        ada.client.chat(word).await.unwrap();
    }
    // What is asked for meanwhile waits.
    let waiting = async {
        let (first, second) = tokio::join!(bob.client.chat("mine"), bob.client.mute(true, false));
        first.and(second)
    };
    let back = async {
        party.pass(Duration::from_secs(3)).await;
        bob.cables.down(false);
    };
    let (asked, ()) = tokio::join!(waiting, back);
    asked.unwrap();
    ada.hears("mine").await;
    bob.hears("mine").await;
    for guest in [&ada, &bob] {
        assert_eq!(guest.heard(), ["before", "one", "two", "mine"]);
        assert_eq!(guest.client.view(|view| view.people[&id].presence()), Presence::Connected);
    }
    assert_eq!(bob.id(), id, "the same seat");
    assert!(bob.client.own().unwrap().mute.unwrap().audio_self);
    assert!(bob.usher.asked() >= 2, "asked the door again");
    let traces: std::collections::BTreeSet<_> =
        bob.cables.dialled().into_iter().map(|(_, trace)| trace).collect();
    assert_eq!(traces.len(), 1, "one trace for the whole of it");
    assert!(meet_wire::TraceParent::parse(traces.first().unwrap().as_deref().unwrap()).is_some());
}

#[tokio::test(start_paused = true)]
async fn every_event_is_told_once_and_in_order_over_many_losses() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    for round in 0..20 {
        for word in 0..round % 4 {
            ada.client.chat(&format!("{round}.{word}")).await.unwrap();
        }
        bob.cables.cut();
        ada.client.chat(&format!("{round} after")).await.unwrap();
        if round % 3 == 0 {
            bob.told(connected).await;
        }
    }
    let last = ada.client.view(|view| view.event_seq);
    bob.sees(|view| view.event_seq >= last).await;
    bob.hears("19 after").await;
    assert_eq!(bob.heard(), ada.heard());
    let taken = bob.taken();
    assert!(taken.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{taken:?}");
    assert_eq!(party.venue.controller.counts().await.participants, 2, "never a second seat");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_too_late_has_a_new_seat_and_is_told() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let old = bob.id();
    bob.cables.down(true);
    ada.sees(|view| !view.people.contains_key(&old)).await;
    bob.cables.down(false);
    bob.told(reconnecting).await;
    assert_eq!(bob.told(connected).await, (false, false));
    assert_ne!(bob.id(), old);
    bob.client.chat("new here").await.unwrap();
    ada.hears("new here").await;
    assert_eq!(bob.client.view(|view| view.people.len()), 2);
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_fenced_controller_go_on_at_the_next_owner_without_a_gap() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    ada.client.chat("before").await.unwrap();
    bob.hears("before").await;
    let key = Key::new("meeting:abc").unwrap();
    let generation = party.store.inspect(&key).await.unwrap().generation.unwrap();
    let mut next = Venue::open(&party.store, "mc-2").unwrap();
    for guest in [&ada, &bob] {
        guest.cables.lead("https://mc-2/wt/mc", next.in_memory());
        guest.usher.moved("https://mc-2/wt/mc");
    }
    let revoke = Revoke { key, generation, delay: Some(Duration::ZERO), reason: Motive::default() };
    party.store.revoke(revoke).await.unwrap();
    // It does not know yet; its write is refused, and it closes everybody.
    let (chat, taken) = tokio::join!(ada.client.chat("after"), next.assign());
    taken.unwrap();
    chat.unwrap();
    bob.hears("after").await;
    for guest in [&mut ada, &mut bob] {
        assert_eq!(guest.heard(), ["before", "after"]);
        let taken = guest.taken();
        assert!(taken.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{taken:?}");
    }
    assert_eq!(next.controller.counts().await.participants, 2, "both in their old seats");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_goes_away_is_left_for_the_next() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let id = ada.id();
    let mut next = Venue::open(&party.store, "mc-2").unwrap();
    ada.cables.lead("https://mc-2/wt/mc", next.in_memory());
    ada.usher.moved("https://mc-2/wt/mc");
    party.venue.shut_down().await;
    next.assign().await.unwrap();
    ada.told(reconnecting).await;
    assert_eq!(ada.told(connected).await, (true, true));
    assert_eq!(ada.id(), id);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_and_who_does_not_wait_is_not_heard() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let options = meet_client::Options { queue: 2, ..party.options("Bob") };
    let mut bob = party.try_join("bob", Role::Participant, options).await.unwrap();
    bob.cables.down(true);
    bob.told(reconnecting).await;
    {
        // Two fit; the third is told so at once, and the first changes its mind.
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
        bob.cables.down(false);
        second.await.unwrap();
    }
    ada.hears("second").await;
    assert_eq!(ada.heard(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_its_events_too_slowly_is_closed_and_still_sees_each_once() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let options = meet_client::Options { events: 4, lines: 2_000, ..party.options("Slow") };
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
async fn a_client_that_is_dropped_keeps_its_seat_for_its_grace() {
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
async fn who_leaves_without_a_connection_is_gone_in_five_seconds() {
    let mut party = Party::new().await;
    let mut bob = party.join("bob", Role::Participant).await;
    bob.cables.down(true);
    bob.told(reconnecting).await;
    assert_eq!(bob.client.state(), State::Reconnecting);
    let began = lease::Clock::now(&*party.clock);
    bob.client.leave().await;
    let took = lease::Clock::now(&*party.clock).since(began);
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_chat_is_told_as_not_written_and_who_joins_waits_until_it_is_back() {
    let clock = Arc::new(TokioClock::default());
    let mishap = Mishap::new(Arc::new(Local::memory_on(clock.clone())));
    let mut party = Party::on(clock, mishap.clone()).await;
    let mut ada = party.join("ada", Role::Host).await;
    mishap.always(Some(Fate::Away));
    ada.client.chat("is anybody there?").await.unwrap();
    let durable = ada.told(|event| match event {
        Event::News { news: News::Chat(_), durable, .. } => Some(*durable),
        _ => None,
    });
    assert!(!durable.await);
    assert_eq!(ada.client.view(|view| (view.event_seq, view.durable_seq)), (2, 1));
    let no = ada.client.host_mute(&ada.id(), true, false, "").await;
    assert!(matches!(no, Err(Refused::No { code: ErrorCode::Unavailable, .. })));
    let usher = party.usher("bob", Role::Participant);
    let (back, joined) = tokio::join!(
        async {
            party.pass(Duration::from_secs(3)).await;
            mishap.always(None);
        },
        Client::join(usher.clone(), party.cables.clone(), party.options("Bob"))
    );
    let ((), (bob, _events)) = (back, joined.unwrap());
    assert!(usher.asked() > 1, "it was turned away first");
    ada.sees(|view| view.people.len() == 2 && view.durable_seq == view.event_seq).await;
    ada.client.chat("welcome").await.unwrap();
    bob.until(|view| (view.lines.len() == 1).then_some(())).await.unwrap();
    assert_eq!(ada.heard(), ["is anybody there?", "welcome"]);
}
