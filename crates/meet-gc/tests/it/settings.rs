//! Settings that change while a meeting runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_keeper::OsEntropy;
use lease_store::BootClock;
use meet_client::door::{Admission, Rest};
use meet_client::{Client, Door as Entrance, DoorError, Ending, Events, Options};
use meet_mc::{Loads, Times};
use meet_rpc::Kind;
use meet_wire::internal::{MeetingSettings, MhRole, RejectionReason};
use reqwest::Method;
use serde_json::{Value, json};
use testkit_meet::{Cables, Venue};

use crate::house::{Door, HOST, House, OTHER, answer};
use crate::nodes::{Mc, Verdict, hold};

/// What a controller was told, each time that it was asked.
fn told(mc: &Mc) -> Vec<(u32, bool)> {
    let settings = |settings: &MeetingSettings| (settings.max_participants, settings.allow_guests);
    mc.desk.asked.lock().iter().map(|asked| settings(asked.settings.as_ref().unwrap())).collect()
}

/// A meeting that runs on a controller which does what it is told.
async fn running(house: &House, mc: &Mc) -> (String, String) {
    let made = house.first().create().await;
    let (id, code) = (made.text("meeting_id").to_owned(), made.text("meeting_code").to_owned());
    assert_eq!(house.first().join(HOST, &code).await.status, 200);
    mc.keep_row(&house.store, &id, "mh-of-the-row").await;
    (id, code)
}

/// A change by the host that a test makes whenever it wants.
fn changing(door: &Door, id: &str, change: Value) -> impl Future<Output = ()> + Send + 'static {
    let request = door.request(HOST, Method::PATCH, &format!("/meetings/{id}/settings")).json(&change);
    async move { assert_eq!(answer(request).await.status, 200, "{change}") }
}

#[tokio::test]
async fn the_owner_is_told_what_changed_with_the_handlers_that_it_has() {
    let (house, mc) = House::furnished().await;
    let idle = house.mc("mc-2").await;
    idle.says(Verdict::Reject(RejectionReason::AtCapacity));
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    changing(door, id, json!({"max_participants": 50})).await;
    assert_eq!((mc.asked(), idle.asked()), (0, 0), "nobody has it, and nobody is asked");
    assert_eq!(door.join(HOST, code).await.status, 200);
    let before = idle.asked();
    mc.keep_row(&house.store, id, "mh-of-the-row").await;
    changing(door, id, json!({"max_participants": 7, "allow_guests": false})).await;
    assert_eq!(told(&mc), [(50, true), (7, false)]);
    let asked = mc.desk.asked.lock()[1].clone();
    assert_eq!((asked.meeting_id.as_str(), asked.requesting_gc_id.as_str()), (id, "gc-0"));
    let [handler] = asked.mh_assignments.as_slice() else { panic!("{asked:?}") };
    assert_eq!((handler.mh_id.as_str(), handler.role()), ("mh-of-the-row", MhRole::Primary));
    assert_eq!(handler.grpc_endpoint, "inproc:mh-of-the-row");
    assert_eq!(handler.certificate_sha256, [vec![7_u8, 8]]);
    changing(door, id, json!({"display_name": "Tuesday"})).await;
    changing(door, id, json!({})).await;
    assert_eq!(door.change(OTHER, id, json!({"max_participants": 9})).await.status, 403);
    assert_eq!((told(&mc).len(), idle.asked()), (2, before), "what does not concern it is not told");
    changing(door, id, json!({"max_participants": 7})).await;
    assert_eq!(told(&mc)[2..], [(7, false)], "again is told again: the last time may not have been heard");
    assert_eq!(door.join(OTHER, code).await.status, 200);
    assert_eq!(told(&mc).len(), 3, "a join of a meeting that runs tells nothing");
}

#[tokio::test]
async fn a_controller_that_cannot_be_told_does_not_keep_the_record_from_changing_and_the_next_one_gets_it() {
    let verdicts = [Verdict::Fail, Verdict::Reject(RejectionReason::Unhealthy)];
    for verdict in verdicts {
        let (house, mut first) = House::furnished().await;
        let (id, code) = running(&house, &first).await;
        let door = house.first();
        first.says(verdict.clone());
        let changed = door.change(HOST, &id, json!({"max_participants": 7, "allow_guests": false})).await;
        assert_eq!((changed.status.as_u16(), &changed.body["max_participants"]), (200, &json!(7)));
        assert_eq!(told(&first), [(100, true), (7, false)], "{verdict:?}: asked once");
        assert_eq!(door.guest(&code, "Ada", None).await.code(), (403, "FORBIDDEN"));
        let second = house.mc("mc-2").await;
        first.leave().await;
        assert_eq!(door.join(HOST, &code).await.body["mc_assignment"]["mc_id"], "mc-2");
        assert_eq!(told(&second), [(7, false)], "{verdict:?}");
    }
}

#[tokio::test]
async fn a_change_of_a_meeting_whose_controller_is_gone_waits_for_nobody() {
    let (house, mut mc) = House::furnished().await;
    let (id, _) = running(&house, &mc).await;
    mc.leave_the_registry().await;
    changing(house.first(), &id, json!({"max_participants": 7})).await;
    assert_eq!(told(&mc), [(100, true)]);
}

#[tokio::test]
async fn a_change_during_the_assignment_is_told_after_it() {
    let (house, mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    mc.keep_row(&house.store, id, "mh-of-the-row").await;
    mc.meanwhile(changing(door, id, json!({"max_participants": 7})));
    assert_eq!(door.join(HOST, code).await.status, 200);
    assert_eq!(told(&mc), [(100, true), (7, true)]);
}

#[tokio::test]
async fn of_two_changes_at_once_the_record_is_what_the_controller_hears_last() {
    let (house, mc) = House::furnished().await;
    let (id, _) = running(&house, &mc).await;
    let door = house.first();
    // The second change is told before the first one is answered.
    mc.meanwhile(changing(door, &id, json!({"max_participants": 9})));
    changing(door, &id, json!({"max_participants": 7})).await;
    assert_eq!(told(&mc), [(100, true), (7, true), (9, true), (9, true)]);
}

/// An entrance that a token was got at before.
struct Ticket(Admission);

#[async_trait]
impl Entrance for Ticket {
    async fn admit(&self) -> Result<Admission, DoorError> {
        Ok(self.0.clone())
    }

    async fn unreachable(&self, _: &Admission, _: &str) {}
}

/// A real controller in the house, and the way to it.
async fn real(house: &House) -> (Venue, Arc<Cables>, impl Sized) {
    let node = hold(&house.store, Kind::Controller, "mc-1", "a").await;
    let mut venue = Venue::trusting(&house.store, "mc-1", house.keys.clone()).unwrap();
    let grace = Duration::from_secs(30);
    let times = Times { grace, binding_ttl: grace };
    let routes = meet_mc::grpc(&venue.controller, house.keys.clone(), times, Loads::default());
    house.lines.offer("mc-1", routes);
    let cables = Cables::new();
    cables.lead("https://127.0.0.1:4433/wt/mc-1", venue.in_memory());
    (venue, cables, node)
}

async fn come(cables: &Arc<Cables>, entrance: impl Entrance) -> Result<(Client, Events), String> {
    let options = Options::new("Ada", Arc::new(BootClock), Arc::new(OsEntropy));
    Client::join(Arc::new(entrance), cables.clone(), options).await.map_err(|ending| match ending {
        Ending::Refused { code, .. } => code,
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn a_real_controller_judges_joins_by_what_the_host_has_changed() {
    let mut house = House::new().await;
    house.handlers().await;
    let (mut venue, cables, _node) = real(&house).await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    changing(door, id, json!({"max_participants": 2})).await;
    let user = |token: &str| Rest::user(&door.url, code, token, Arc::new(BootClock)).unwrap();
    let guest = |name: &str| Rest::guest(&door.url, code, name, Arc::new(BootClock)).unwrap();
    let _host = come(&cables, user(HOST)).await.unwrap();
    let (gus, _events) = come(&cables, guest("Gus")).await.unwrap();
    assert_eq!(come(&cables, user(OTHER)).await.err().as_deref(), Some("CAPACITY_EXCEEDED"));

    let early = Ticket(guest("Gil").admit().await.unwrap());
    changing(door, id, json!({"max_participants": 3, "allow_guests": false})).await;
    assert_eq!(come(&cables, early).await.err().as_deref(), Some("FORBIDDEN"), "with a token of before");
    let _other = come(&cables, user(OTHER)).await.unwrap();
    assert_eq!(come(&cables, user(OTHER)).await.err().as_deref(), Some("CAPACITY_EXCEEDED"));
    gus.chat("who has a seat keeps it").await.unwrap();
    assert_eq!(venue.controller.counts().await.participants, 3);
    venue.shut_down().await;
}
