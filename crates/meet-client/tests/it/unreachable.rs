//! A controller that stops answering: pings, reports, and the home that the decision names.

use std::time::Duration;

use tenure_lease::{Clock, Tick};
use tenure_meet_client::join_api::{Home, UnreachableReason, UnreachableReport};
use tenure_meet_client::{Endpoint, Event};
use tenure_meet_wire::signaling::Paused;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::transport::{Listener as _, memory};

use crate::party::connected;
use crate::script::{Stage, resumed};

const OTHER: &str = "https://mc-9/wt/mc";

fn report(reason: UnreachableReason, suspect: bool) -> UnreachableReport {
    UnreachableReport { reason, suspect }
}

fn home(generation: u64) -> Home {
    let place = Endpoint { url: OTHER.to_owned(), hashes: Vec::new() };
    Home { mc_id: "mc-9".to_owned(), place, generation }
}

fn passed(stage: &Stage, since: Tick) -> u128 {
    stage.clock.now().since(since).as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_silent_controller_is_reported_after_one_second_and_left_after_two() {
    let stage = Stage::new();
    let (_client, mut events, silent) = stage.seated().await;
    let began = stage.clock.now();
    let (mut scene, join, seq) = stage.scene().await;
    assert_eq!(passed(&stage, began), 2_000);
    assert_eq!(join.binding_token, "t1");
    let timeout = UnreachableReason::Timeout;
    assert_eq!(stage.join_api.reports(), [report(timeout, true), report(timeout, false)]);
    drop(silent);
    scene.say(seq, 0, resumed("t2", 7, 0)).await;
    while connected(&events.recv().await.unwrap()).is_none() {}
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_answers_pings_is_never_reported() {
    let stage = Stage::new();
    let (client, _events, mut scene) = stage.seated().await;
    let minute = stage.clock.sleep_until(stage.clock.now() + Duration::from_secs(60));
    tokio::select! {
        () = minute => {}
        () = scene.stay() => {}
    }
    assert!(stage.join_api.reports().is_empty());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn the_decision_on_a_suspect_report_names_the_home_to_dial() {
    let stage = Stage::new();
    let (listener, dialer) = memory::listener();
    stage.transport.add_route(OTHER, dialer);
    let (_client, _events, _silent) = stage.seated().await;
    stage.join_api.decide(Some(home(8)));
    let began = stage.clock.now();
    let _offer = listener.offer().await.unwrap();
    assert_eq!(passed(&stage, began), 1_000, "it does not wait for the second second");
    assert_eq!(stage.join_api.call_count(), 1, "the decision was enough");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_reported_before_the_next_dial_and_dials_end() {
    let stage = Stage::new();
    let (_client, mut events, scene) = stage.seated().await;
    drop(scene);
    stage.join_api.hold_decisions(true);
    stage.transport.cut();
    while !matches!(events.recv().await.unwrap(), Event::Reconnecting { .. }) {}
    stage.clock.sleep_until(stage.clock.now() + Duration::from_secs(3)).await;
    assert_eq!(stage.join_api.reports().len(), 1);
    assert_eq!(stage.transport.dials().len(), 1, "not dialed before the decision");
    stage.join_api.hold_decisions(false);
    let began = stage.clock.now();
    let _unanswered = stage.listener.offer().await.unwrap();
    let _next = stage.listener.offer().await.unwrap();
    let waited = passed(&stage, began);
    assert!((1_500..=1_700).contains(&waited), "{waited} ms");
    let reasons: Vec<_> = stage.join_api.reports().iter().map(|report| report.reason).collect();
    assert_eq!(reasons, [UnreachableReason::Unspecified, UnreachableReason::Timeout]);
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_paused_meeting_ask_for_its_owner_after_three_seconds() {
    for leaves in [false, true] {
        let stage = Stage::new();
        let (listener, dialer) = memory::listener();
        stage.transport.add_route(OTHER, dialer);
        let (_client, _events, mut scene) = stage.seated().await;
        scene.say(0, 0, Payload::Paused(Paused {})).await;
        if leaves {
            stage.join_api.set_home(home(8));
        }
        let began = stage.clock.now();
        let moved = async {
            tokio::select! {
                _ = listener.offer() => true,
                () = stage.clock.sleep_until(began + Duration::from_secs(10)) => false,
                () = scene.stay() => false,
            }
        };
        assert_eq!(moved.await, leaves);
        if leaves {
            assert_eq!(passed(&stage, began), 3_000);
        }
    }
}
