//! Settings that change while a meeting runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};
use tenure_keeper::OsEntropy;
use tenure_meet_client::join_api::{Admission, RestJoinApi};
use tenure_meet_client::{Client, Ending, Events, JoinApi, JoinApiError, Options};
use tenure_meet_mc::{HandlerLoads, SeatTimeouts};
use tenure_meet_rpc::Kind;
use tenure_meet_wire::internal::{MeetingSettings, MhRole, RejectionReason};
use tenure_store::BootClock;
use tenure_testkit_meet::{FlakyTransport, TestMeeting};

use crate::nodes::{Mc, Verdict, hold};
use crate::test_gc::{HOST, OTHER, TestGc, TestServer, answer};

/// The settings that a controller received, per request.
fn received_settings(mc: &Mc) -> Vec<(u32, bool)> {
    let settings = |settings: &MeetingSettings| (settings.max_participants, settings.allow_guests);
    mc.fake.asked.lock().iter().map(|asked| settings(asked.settings.as_ref().unwrap())).collect()
}

/// A meeting that runs on a scripted controller.
async fn running(test_gc: &TestGc, mc: &Mc) -> (String, String) {
    let made = test_gc.first().create().await;
    let (id, code) = (made.text("meeting_id").to_owned(), made.text("meeting_code").to_owned());
    assert_eq!(test_gc.first().join(HOST, &code).await.status, 200);
    mc.keep_row(&test_gc.store, &id, "mh-of-the-row").await;
    (id, code)
}

/// A change by the host.
fn changing(server: &TestServer, id: &str, change: Value) -> impl Future<Output = ()> + Send + 'static {
    let request = server.request(HOST, Method::PATCH, &format!("/meetings/{id}/settings")).json(&change);
    async move { assert_eq!(answer(request).await.status, 200, "{change}") }
}

#[tokio::test]
async fn the_owner_receives_changed_settings_with_its_current_handlers() {
    let (test_gc, mc) = TestGc::furnished().await;
    let idle = test_gc.mc("mc-2").await;
    idle.says(Verdict::Reject(RejectionReason::AtCapacity));
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    changing(server, id, json!({"max_participants": 50})).await;
    assert_eq!((mc.asked(), idle.asked()), (0, 0), "an unowned meeting sends no request");
    assert_eq!(server.join(HOST, code).await.status, 200);
    let before = idle.asked();
    mc.keep_row(&test_gc.store, id, "mh-of-the-row").await;
    changing(server, id, json!({"max_participants": 7, "allow_guests": false})).await;
    assert_eq!(received_settings(&mc), [(50, true), (7, false)]);
    let asked = mc.fake.asked.lock()[1].clone();
    assert_eq!((asked.meeting_id.as_str(), asked.requesting_gc_id.as_str()), (id, "gc-0"));
    let [handler] = asked.mh_assignments.as_slice() else { panic!("{asked:?}") };
    assert_eq!((handler.mh_id.as_str(), handler.role()), ("mh-of-the-row", MhRole::Primary));
    assert_eq!(handler.grpc_endpoint, "inproc:mh-of-the-row");
    assert_eq!(handler.certificate_sha256, [vec![7_u8, 8]]);
    changing(server, id, json!({"display_name": "Tuesday"})).await;
    changing(server, id, json!({})).await;
    assert_eq!(server.change(OTHER, id, json!({"max_participants": 9})).await.status, 403);
    assert_eq!(
        (received_settings(&mc).len(), idle.asked()),
        (2, before),
        "a change that does not concern the controller is not sent"
    );
    changing(server, id, json!({"max_participants": 7})).await;
    assert_eq!(
        received_settings(&mc)[2..],
        [(7, false)],
        "a repeated change is sent again: the last push may have failed"
    );
    assert_eq!(server.join(OTHER, code).await.status, 200);
    assert_eq!(received_settings(&mc).len(), 3, "a join of a running meeting sends nothing");
}

#[tokio::test]
async fn an_unreachable_controller_does_not_block_a_change_and_its_successor_gets_it() {
    let verdicts = [Verdict::Fail, Verdict::Reject(RejectionReason::Unhealthy)];
    for verdict in verdicts {
        let (test_gc, mut first) = TestGc::furnished().await;
        let (id, code) = running(&test_gc, &first).await;
        let server = test_gc.first();
        first.says(verdict.clone());
        let changed = server.change(HOST, &id, json!({"max_participants": 7, "allow_guests": false})).await;
        assert_eq!((changed.status.as_u16(), &changed.body["max_participants"]), (200, &json!(7)));
        assert_eq!(received_settings(&first), [(100, true), (7, false)], "{verdict:?}: asked once");
        assert_eq!(server.guest(&code, "Ada", None).await.code(), (403, "FORBIDDEN"));
        let second = test_gc.mc("mc-2").await;
        first.leave().await;
        assert_eq!(server.join(HOST, &code).await.body["mc_assignment"]["mc_id"], "mc-2");
        assert_eq!(received_settings(&second), [(7, false)], "{verdict:?}");
    }
}

#[tokio::test]
async fn a_change_does_not_wait_for_a_dead_controller() {
    let (test_gc, mut mc) = TestGc::furnished().await;
    let (id, _) = running(&test_gc, &mc).await;
    mc.leave_the_registry().await;
    changing(test_gc.first(), &id, json!({"max_participants": 7})).await;
    assert_eq!(received_settings(&mc), [(100, true)]);
}

#[tokio::test]
async fn a_change_during_an_assignment_is_sent_after_it() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    mc.keep_row(&test_gc.store, id, "mh-of-the-row").await;
    mc.meanwhile(changing(server, id, json!({"max_participants": 7})));
    assert_eq!(server.join(HOST, code).await.status, 200);
    assert_eq!(received_settings(&mc), [(100, true), (7, true)]);
}

#[tokio::test]
async fn after_concurrent_changes_the_controller_receives_the_record_last() {
    let (test_gc, mc) = TestGc::furnished().await;
    let (id, _) = running(&test_gc, &mc).await;
    let server = test_gc.first();
    // The second change is sent before the first one is acknowledged.
    mc.meanwhile(changing(server, &id, json!({"max_participants": 9})));
    changing(server, &id, json!({"max_participants": 7})).await;
    assert_eq!(received_settings(&mc), [(100, true), (7, true), (9, true), (9, true)]);
}

/// A join API with a token obtained earlier.
struct Ticket(Admission);

#[async_trait]
impl JoinApi for Ticket {
    async fn admit(&self) -> Result<Admission, JoinApiError> {
        Ok(self.0.clone())
    }
}

/// A real controller, and a route to it.
async fn real(test_gc: &TestGc) -> (TestMeeting, Arc<FlakyTransport>, impl Sized) {
    let node = hold(&test_gc.store, Kind::Controller, "mc-1", "a").await;
    let mut test_meeting = TestMeeting::trusting(&test_gc.store, "mc-1", test_gc.keys.clone()).unwrap();
    let grace = Duration::from_secs(30);
    let times = SeatTimeouts { grace, binding_ttl: grace };
    let routes =
        tenure_meet_mc::grpc(&test_meeting.controller, test_gc.keys.clone(), times, HandlerLoads::default());
    test_gc.channels.offer("mc-1", routes);
    let transport = FlakyTransport::new();
    transport.add_route("https://127.0.0.1:4433/wt/mc-1", test_meeting.in_memory());
    (test_meeting, transport, node)
}

async fn join_via(
    transport: &Arc<FlakyTransport>,
    join_api: impl JoinApi,
) -> Result<(Client, Events), String> {
    let options = Options::new("Ada", Arc::new(BootClock), Arc::new(OsEntropy));
    Client::join(Arc::new(join_api), transport.clone(), options).await.map_err(|ending| match ending {
        Ending::Refused { code, .. } => code,
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn a_real_controller_applies_changed_settings_to_joins() {
    let mut test_gc = TestGc::new().await;
    test_gc.handlers().await;
    let (mut test_meeting, transport, _node) = real(&test_gc).await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    changing(server, id, json!({"max_participants": 2})).await;
    let user = |token: &str| RestJoinApi::user(&server.url, code, token, Arc::new(BootClock)).unwrap();
    let guest = |name: &str| RestJoinApi::guest(&server.url, code, name, Arc::new(BootClock)).unwrap();
    let _host = join_via(&transport, user(HOST)).await.unwrap();
    let (gus, _events) = join_via(&transport, guest("Gus")).await.unwrap();
    assert_eq!(join_via(&transport, user(OTHER)).await.err().as_deref(), Some("CAPACITY_EXCEEDED"));

    let early = Ticket(guest("Gil").admit().await.unwrap());
    changing(server, id, json!({"max_participants": 3, "allow_guests": false})).await;
    assert_eq!(
        join_via(&transport, early).await.err().as_deref(),
        Some("FORBIDDEN"),
        "with a token from before the change"
    );
    let _other = join_via(&transport, user(OTHER)).await.unwrap();
    assert_eq!(join_via(&transport, user(OTHER)).await.err().as_deref(), Some("CAPACITY_EXCEEDED"));
    gus.chat("current participants stay").await.unwrap();
    assert_eq!(test_meeting.controller.counts().await.participants, 3);
    test_meeting.shut_down().await;
}
