//! Participants of a meeting.

use tenure_meet_client::{Ending, Event, JoinApiError, News, Refused, State};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::{ErrorCode, LayoutConfig, LayoutType, Presence, StreamType};

use crate::party::Party;

fn is_muted(participant: &str) -> impl Fn(&tenure_meet_client::View) -> bool {
    move |view| {
        let mute = view.people.get(participant).and_then(|person| person.mute.as_ref());
        mute.is_some_and(|mute| mute.audio_host)
    }
}

#[tokio::test(start_paused = true)]
async fn participants_see_each_other_and_chat_in_one_order() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    assert_eq!(bob.client.view(|view| view.others().next().unwrap().name.clone()), "ADA");
    ada.sees(|view| view.people.len() == 2).await;
    assert_eq!(bob.client.own().unwrap().name, "BOB");
    for (guest, word) in [(&ada, "one"), (&bob, "two"), (&ada, "three")] {
        guest.client.chat(word).await.unwrap();
    }
    for guest in [&mut ada, &mut bob] {
        guest.hears("three").await;
        assert_eq!(guest.heard(), ["one", "two", "three"]);
    }
    assert_eq!(ada.taken().iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [2, 3, 4, 5]);
    bob.client.mute(true, false).await.unwrap();
    let id = bob.id();
    ada.sees(|view| {
        view.people.get(&id).is_some_and(|person| person.mute.as_ref().is_some_and(|mute| mute.audio_self))
    })
    .await;
    assert_eq!(bob.client.leave().await, Ending::Left);
    ada.sees(|view| view.people.len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_muted_participant_requests_unmute_and_is_granted_audio_only() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let id = bob.id();
    let no = bob.client.host_mute(&id, true, true, "").await;
    assert!(matches!(no, Err(Refused::No { code: ErrorCode::Forbidden, .. })));
    ada.client.host_mute(&id, true, true, "noise").await.unwrap();
    let enforced = ada.next_event(|event| match event {
        Event::News { news: News::Enforced(enforced), .. } => Some(enforced.enforced),
        _ => None,
    });
    assert!(enforced.await);
    bob.sees(is_muted(&id)).await;
    bob.client.request_unmute(true, true).await.unwrap();
    ada.sees(|view| view.asks.contains_key(&id)).await;
    ada.client.answer_unmute(&id, true, false).await.unwrap();
    let granted = bob.next_event(|event| match event {
        Event::News { news: News::UnmuteAnswered(answer), .. } => {
            Some((answer.audio_approved, answer.video_approved))
        }
        _ => None,
    });
    assert_eq!(granted.await, (true, false));
    bob.sees(|view| !is_muted(&id)(view) && view.people[&id].mute.as_ref().unwrap().video_host).await;
    ada.sees(|view| view.asks.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn streams_layouts_and_data_reach_their_recipients() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let mut bob = party.join("bob", Role::Participant).await;
    let mut eve = party.join("eve", Role::Participant).await;
    ada.client.publish(4, StreamType::Video, "camera").await.unwrap();
    let id = ada.id();
    bob.sees(|view| view.people.get(&id).is_some_and(|person| person.streams.len() == 1)).await;
    bob.client
        .subscribe(LayoutType::Grid, LayoutConfig { rows: 2, ..LayoutConfig::default() })
        .await
        .unwrap();
    bob.client.update_layout(LayoutConfig::default()).await.unwrap();
    bob.client.unsubscribe().await.unwrap();
    ada.client.unpublish(4).await.unwrap();
    ada.client.data("pointer", "x".into(), &[bob.id()]).await.unwrap();
    let data = bob.next_event(|event| match event {
        Event::News { news: News::Data(data), seq, .. } => Some((data.payload.clone(), *seq)),
        _ => None,
    });
    let (payload, seq) = data.await;
    assert_eq!(payload, "x");
    let hidden = eve.next_event(|event| match event {
        Event::News { news, seq: number, .. } if *number == seq => Some(news.clone()),
        _ => None,
    });
    assert_eq!(hidden.await, News::Hidden, "numbered but not shown");
    let long = ada.client.data("t", vec![0; 70_000].into(), &[]).await;
    assert_eq!(long, Err(Refused::TooLong));
}

#[tokio::test(start_paused = true)]
async fn a_removed_participant_stays_out_and_the_end_reaches_all() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let bob = party.join("bob", Role::Participant).await;
    let eve = party.join("eve", Role::Participant).await;
    ada.client.kick(&bob.id(), "").await.unwrap();
    assert_eq!(bob.client.over().await, Ending::Kicked);
    assert!(matches!(bob.client.chat("hello?").await, Err(Refused::Over(Ending::Kicked))));
    assert!(matches!(eve.client.end_meeting().await, Err(Refused::No { code: ErrorCode::Forbidden, .. })));
    ada.client.end_meeting().await.unwrap();
    for guest in [ada, eve] {
        assert!(matches!(guest.client.over().await, Ending::MeetingOver(_)));
        assert!(matches!(guest.client.state(), State::Over(Ending::MeetingOver(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_join_returns_its_reason_and_temporary_failures_are_retried() {
    let mut party = Party::new().await;
    let join_api = party.join_api("ada", Role::Host);
    join_api.fail_with(&[
        JoinApiError::Unavailable("starting".to_owned()),
        JoinApiError::Unavailable("starting".to_owned()),
    ]);
    let joined =
        tenure_meet_client::Client::join(join_api.clone(), party.transport.clone(), party.options("Ada"))
            .await;
    let (client, _events) = joined.unwrap();
    assert_eq!(join_api.call_count(), 3);
    assert_eq!(client.state(), State::Connected);
    let refused = Ending::Refused { code: "FORBIDDEN".to_owned(), message: "no guests".to_owned() };
    join_api.fail_with(&[JoinApiError::Refused {
        code: "FORBIDDEN".to_owned(),
        message: "no guests".to_owned(),
    }]);
    let again =
        tenure_meet_client::Client::join(join_api.clone(), party.transport.clone(), party.options("Ada"))
            .await;
    assert_eq!(again.err(), Some(refused));
    join_api.set_token(Some("garbage"));
    let bad =
        tenure_meet_client::Client::join(join_api, party.transport.clone(), party.options("Ada")).await.err();
    assert!(matches!(bad, Some(Ending::Refused { code, .. }) if code == "UNAUTHORIZED"));
    let long = party.try_join("bob", Role::Participant, party.options(&"x".repeat(257))).await.err();
    assert!(matches!(long, Some(Ending::Refused { code, .. }) if code == "INVALID_REQUEST"));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_controller_is_reported_and_finally_given_up() {
    let mut party = Party::new().await;
    let mut ada = party.join("ada", Role::Host).await;
    let bob = party.join("bob", Role::Participant).await;
    let id = bob.id();
    bob.transport.set_down(true);
    ada.sees(|view| view.people.get(&id).is_some_and(|person| person.presence() == Presence::Disconnected))
        .await;
    assert!(matches!(bob.client.over().await, Ending::GaveUp(_)));
    assert!(!bob.join_api.reports().is_empty());
    assert!(ada.taken().iter().all(|(seq, _)| *seq > 0));
}

#[tokio::test(start_paused = true)]
async fn a_load_client_keeps_nothing_and_counts_everything() {
    let mut party = Party::new().await;
    let ada = party.join("ada", Role::Host).await;
    let bare = party.try_join("bob", Role::Participant, party.options("Bob").bare()).await.unwrap();
    for number in 0..50 {
        ada.client.chat(&number.to_string()).await.unwrap();
    }
    bare.sees(|view| view.event_seq == 52).await;
    assert!(bare.heard().is_empty() && bare.events.is_empty());
}
