//! One trace from a client through GC and its controller to the store.

use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::{ChatRequest, ClientMessage};
use serde_json::Value;
use testkit::wait;

use crate::meet::cast::Cast;
use crate::meet::collector::{Collector, Seen};
use crate::meet::house::{Line, TOKEN};
use crate::meet::placed;
use crate::rig::LIMIT;

fn trace(number: u32) -> (String, String) {
    let id = format!("{number:032x}");
    (format!("00-{id}-00f067aa0ba902b7-01"), id)
}

/// Whether a line of a log says this in this trace, of this request.
fn says(log: &str, message: &str, trace_id: &str, seq: Option<u64>) -> bool {
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|line| {
        let of =
            |name: &str| if line[name].is_null() { line["span"][name].clone() } else { line[name].clone() };
        line["message"] == message && of("trace_id") == trace_id && seq.is_none_or(|seq| of("seq") == seq)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_a_client_is_in_the_logs_of_all_that_it_causes() {
    let json = [("TENURE_LOG__FORMAT", "json")];
    let cast = Cast::start(&["mc-one"], "info,tenure::meet=debug", &json).await;
    let logged = async |part: &str, message: &str, trace_id: &str, seq: Option<u64>| {
        let found = async || says(&cast.house.log(part), message, trace_id, seq);
        let what = format!("{part}: {message} {trace_id} {seq:?}");
        wait::until_async(&what, LIMIT, found).await.unwrap();
    };
    let made = cast.gc.create("followed").await;
    // REST: from GC to the controller that takes the meeting, and to the lease.
    let (parent, id) = trace(0xa1);
    let url = format!("{}/api/v1/meetings/{}", cast.gc.address, made["meeting_code"].as_str().unwrap());
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
    logged("mc-one", "took the meeting", &id, None).await;
    logged("mc-one", "writing", &id, None).await;
    // A native client: CONNECT says it once for all that follows.
    let place = placed(&answer, &cast.gc);
    let (parent, id) = trace(0xb2);
    let mut ada = Line::open(place.dial_traced(Some(&parent)).await.unwrap()).await;
    ada.join(place.request("Ada")).await;
    ada.chat("hello").await;
    ada.hears("hello").await;
    logged("mc-one", "joined", &id, Some(1)).await;
    logged("mc-one", "writing", &id, Some(1)).await;
    // The first who comes has the handlers told of the meeting.
    logged("mh-one", "request", &id, None).await;
    logged("mc-one", "asked", &id, Some(2)).await;
    logged("mc-one", "noted, to be written", &id, Some(2)).await;
    // A page cannot set headers: the first message says it.
    let (parent, id) = trace(0xc3);
    let mut bob = place.open().await;
    let message = ClientMessage {
        payload: Some(Ask::JoinRequest(place.request("Bob"))),
        trace_parent: parent,
        seq: 7,
        ..ClientMessage::default()
    };
    bob.writer.send(&message).await.unwrap();
    bob.next().await;
    logged("mc-one", "joined", &id, Some(7)).await;
    logged("mc-one", "writing", &id, Some(7)).await;
    // And so may every later one, for itself.
    let (parent, id) = trace(0xd4);
    let payload = Some(Ask::ChatRequest(ChatRequest { text: "mine".to_owned() }));
    let message = ClientMessage { payload, trace_parent: parent, seq: 8, ..ClientMessage::default() };
    bob.writer.send(&message).await.unwrap();
    logged("mc-one", "noted, to be written", &id, Some(8)).await;
}

const CLIENT: u64 = 0x00f0_67aa_0ba9_02b7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_sees_every_part_below_the_span_of_the_client() {
    let collector = Collector::start().await;
    let cast = Cast::start(&["mc-one"], "info", &[("TENURE_LOG__OTLP_ENDPOINT", &collector.url)]).await;
    let made = cast.gc.create("collected").await;
    let (parent, asking) = trace(0xa1);
    let place =
        cast.gc.place_traced(made["meeting_code"].as_str().unwrap(), Some(TOKEN), Some(&parent)).await;
    let (parent, joining) = trace(0xb2);
    let mut ada = Line::open(place.dial_traced(Some(&parent)).await.unwrap()).await;
    ada.join(place.request("Ada")).await;
    // GC answers the client and asks a controller; the controller seats the client and asks a handler.
    let gc = collector.find("GC's answer", |span| span.of(&asking, CLIENT, "request")).await;
    let mc = |span: &Seen| span.trace == asking && span.name == "request" && span.parent != CLIENT;
    let mc = collector.find("the controller's answer to GC", mc).await;
    assert!(collector.is_below(&mc, &gc), "{mc:?} is not below {gc:?}");
    let seat = collector.find("the seat", |span| span.of(&joining, CLIENT, "asked")).await;
    let mh = collector.find("the handler's answer", |span| span.of(&joining, seat.id, "request")).await;
    assert!(collector.is_below(&mh, &seat), "{mh:?} is not below {seat:?}");
}
