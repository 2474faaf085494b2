//! One trace from a client through GC and its controller to the store.

use serde_json::Value;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::{ChatRequest, ClientMessage};
use tenure_testkit::wait;

use crate::harness::LIMIT;
use crate::meet::cluster::TestCluster;
use crate::meet::collector::{Collector, ReceivedSpan};
use crate::meet::installation::{TOKEN, TestClient};
use crate::meet::placed;

fn trace(number: u32) -> (String, String) {
    let id = format!("{number:032x}");
    (format!("00-{id}-00f067aa0ba902b7-01"), id)
}

/// Whether the log has this message in this trace, for this request.
fn says(log: &str, message: &str, trace_id: &str, seq: Option<u64>) -> bool {
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|line| {
        let of =
            |name: &str| if line[name].is_null() { line["span"][name].clone() } else { line[name].clone() };
        line["message"] == message && of("trace_id") == trace_id && seq.is_none_or(|seq| of("seq") == seq)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_trace_appears_in_the_logs_of_every_part() {
    let json = [("TENURE_LOG__FORMAT", "json")];
    let cluster = TestCluster::start(&["mc-one"], "info,tenure::meet=debug", &json).await;
    let logged = async |part: &str, message: &str, trace_id: &str, seq: Option<u64>| {
        let found = async || says(&cluster.installation.log(part), message, trace_id, seq);
        let what = format!("{part}: {message} {trace_id} {seq:?}");
        wait::until_async(&what, LIMIT, found).await.unwrap();
    };
    let made = cluster.gc.create("followed").await;
    // REST: GC, then the controller that opens the meeting.
    let (parent, id) = trace(0xa1);
    let url = format!("{}/api/v1/meetings/{}", cluster.gc.address, made["meeting_code"].as_str().unwrap());
    let ask = || reqwest::Client::new().get(&url).bearer_auth(TOKEN).header("traceparent", &parent).send();
    let mut answer = Value::Null;
    let joined = async || {
        let response = ask().await.unwrap();
        let ok = response.status() == 200;
        answer = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        ok
    };
    wait::until_async("the meeting has a controller", LIMIT, joined).await.unwrap();
    logged("gc", "assigned", &id, None).await;
    logged("gc", "request", &id, None).await;
    logged("mc-one", "meeting opened", &id, None).await;
    logged("mc-one", "writing", &id, None).await;
    // A native client: the CONNECT request names the trace for the whole session.
    let place = placed(&answer, &cluster.gc);
    let (parent, id) = trace(0xb2);
    let mut ada = TestClient::open(place.dial_traced(Some(&parent)).await.unwrap()).await;
    ada.join(place.request("Ada")).await;
    ada.chat("hello").await;
    ada.hears("hello").await;
    logged("mc-one", "joined", &id, Some(1)).await;
    logged("mc-one", "writing", &id, Some(1)).await;
    // The first participant registers the meeting at the handlers.
    logged("mh-one", "request", &id, None).await;
    logged("mc-one", "request", &id, Some(2)).await;
    logged("mc-one", "queued", &id, Some(2)).await;
    // A page cannot set headers: its first message names the trace.
    let (parent, id) = trace(0xc3);
    let mut bob = place.open().await;
    let message = ClientMessage {
        payload: Some(ClientPayload::JoinRequest(place.request("Bob"))),
        trace_parent: parent,
        seq: 7,
        ..ClientMessage::default()
    };
    bob.writer.send(&message).await.unwrap();
    bob.next().await;
    logged("mc-one", "joined", &id, Some(7)).await;
    logged("mc-one", "writing", &id, Some(7)).await;
    // A later message may name its own.
    let (parent, id) = trace(0xd4);
    let payload = Some(ClientPayload::ChatRequest(ChatRequest { text: "mine".to_owned() }));
    let message = ClientMessage { payload, trace_parent: parent, seq: 8, ..ClientMessage::default() };
    bob.writer.send(&message).await.unwrap();
    logged("mc-one", "queued", &id, Some(8)).await;
}

const CLIENT: u64 = 0x00f0_67aa_0ba9_02b7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_sees_every_part_below_the_span_of_the_client() {
    let collector = Collector::start().await;
    let cluster =
        TestCluster::start(&["mc-one"], "info", &[("TENURE_LOG__OTLP_ENDPOINT", &collector.url)]).await;
    let made = cluster.gc.create("collected").await;
    let (parent, asking) = trace(0xa1);
    let place =
        cluster.gc.place_traced(made["meeting_code"].as_str().unwrap(), Some(TOKEN), Some(&parent)).await;
    let (parent, joining) = trace(0xb2);
    let mut ada = TestClient::open(place.dial_traced(Some(&parent)).await.unwrap()).await;
    ada.join(place.request("Ada")).await;
    // GC answers the client and calls a controller; the controller admits the client and calls a handler.
    let gc = collector.find("GC's answer", |span| span.of(&asking, CLIENT, "request")).await;
    let mc = |span: &ReceivedSpan| span.trace == asking && span.name == "request" && span.parent != CLIENT;
    let mc = collector.find("the controller's answer to GC", mc).await;
    assert!(collector.is_below(&mc, &gc), "{mc:?} is not below {gc:?}");
    let seat = collector.find("the seat", |span| span.of(&joining, CLIENT, "request")).await;
    let mh = collector.find("the handler's answer", |span| span.of(&joining, seat.id, "request")).await;
    assert!(collector.is_below(&mh, &seat), "{mh:?} is not below {seat:?}");
}
