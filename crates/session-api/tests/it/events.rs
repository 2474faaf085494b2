//! Session states as server-sent events.

use reqwest::Method;
use serde_json::Value;
use tenure_session::{Reason, SessionEvent, UnixMs};

use crate::api::{READ, TestApi, TestApiBuilder, send, within_limit};

/// A client of one stream.
pub(crate) struct Stream {
    response: reqwest::Response,
    text: String,
}

/// One received event.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = within_limit(request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) =
                self.text.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
            {
                self.text = rest;
                if block.lines().all(|line| line.starts_with(':')) {
                    continue;
                }
                let field = |name: &str| {
                    let prefix = format!("{name}: ");
                    block.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
                };
                let data = serde_json::from_str(&field("data")).unwrap();
                return Some(Event { id: field("id").parse().unwrap(), event: field("event"), data });
            }
            let chunk = within_limit(self.response.chunk()).await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn watch(api: &TestApi, id: &str) -> reqwest::RequestBuilder {
    api.request(READ, Method::GET, &format!("/sessions/{id}/events"))
}

#[tokio::test]
async fn a_stream_starts_with_the_current_state_and_ends_with_the_terminal_one() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let mut stream = Stream::open(watch(&api, &id)).await;
    let mut events = vec![stream.next().await.unwrap()];
    for event in [SessionEvent::Pick, SessionEvent::Prime, SessionEvent::Publish, SessionEvent::RequestStop] {
        api.log.apply_events(&id, &[event]);
        events.push(stream.next().await.unwrap());
    }
    let stopping = api.log.session(&id).with_reason(Reason::ClientStop, None, None);
    api.log.put(stopping.apply(SessionEvent::End, UnixMs(stopping.updated.0 + 1)).unwrap().unwrap());
    events.push(stream.next().await.unwrap());
    let states: Vec<_> = events.iter().map(|event| event.data["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["NEW", "STARTING", "PRIMING", "READY", "STOPPING", "STOPPED"]);
    assert!(events.iter().all(|event| event.event == "state" && event.data["sessionId"] == id));
    assert!(events.windows(2).all(|pair| pair[0].id < pair[1].id), "{events:?}");
    assert!(events[3].data["playbackUrl"].is_string() && events[3].data["leaseExpiresAt"].is_string());
    assert_eq!(events[5].data["reason"], "R_CLIENT_STOP");
    assert_eq!(stream.next().await, None, "nothing follows the last state");
}

#[tokio::test]
async fn a_late_client_receives_the_terminal_state_once() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    api.log.apply_events(&id, &[SessionEvent::Fail]);
    let mut stream = Stream::open(watch(&api, &id)).await;
    let last = stream.next().await.unwrap();
    assert_eq!((last.data["state"].as_str(), stream.next().await), (Some("FAILED"), None));
    // A browser reconnects with the last id, and 204 tells it to stop.
    let back = watch(&api, &id).header("last-event-id", last.id.to_string());
    assert_eq!(within_limit(back.send()).await.unwrap().status(), 204);
    let stranger = watch(&api, &id).header("last-event-id", "nonsense");
    assert_eq!(Stream::open(stranger).await.next().await.unwrap().data["state"], "FAILED");
}

#[tokio::test]
async fn a_reconnecting_client_receives_the_current_state_with_a_greater_id() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let first = Stream::open(watch(&api, &id)).await.next().await.unwrap();
    let mut back = Stream::open(watch(&api, &id).header("last-event-id", first.id.to_string())).await;
    let again = back.next().await.unwrap();
    assert!(again.id > first.id);
    assert_eq!(again.data["state"], "NEW");
}

#[tokio::test]
async fn a_stream_of_an_unknown_session_is_a_404_and_ends_when_the_record_is_deleted() {
    let api = TestApi::new().await;
    assert_eq!(send(watch(&api, "no-such-session")).await.code(), (404, "SESSION.NOT_FOUND"));
    let id = api.start_channel().await;
    let mut stream = Stream::open(watch(&api, &id)).await;
    assert!(stream.next().await.is_some());
    api.log.delete(&id);
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn streams_are_limited_and_a_closed_one_frees_its_slot() {
    let api = TestApiBuilder::new().with(|options| options.max_watchers = 1).build().await;
    let id = api.start_channel().await;
    let first = Stream::open(watch(&api, &id)).await;
    let refused = send(watch(&api, &id)).await;
    assert_eq!((refused.code(), &refused.body["limit"]), ((429, "TOO_MANY"), &Value::from(1)));
    drop(first);
    within_limit(async {
        while within_limit(watch(&api, &id).send()).await.unwrap().status() != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_ends_when_the_server_shuts_down() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let mut stream = Stream::open(watch(&api, &id)).await;
    assert!(stream.next().await.is_some());
    api.shutdown.trigger();
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_slow_client_receives_the_terminal_state() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let mut stream = Stream::open(watch(&api, &id)).await;
    // The client does not read in the meantime, and nothing is queued for it.
    api.log.apply_events(&id, &[SessionEvent::Pick]);
    for _ in 0..1_000 {
        api.log.apply_events(&id, &[SessionEvent::Reset, SessionEvent::Pick]);
    }
    api.log.apply_events(&id, &[SessionEvent::Fail]);
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    assert_eq!(last.unwrap().data["state"], "FAILED");
}
