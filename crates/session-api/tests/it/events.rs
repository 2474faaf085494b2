//! A session's life as server-sent events.

use reqwest::Method;
use serde_json::Value;
use session::{Event as Happening, Reason, UnixMs};

use crate::house::{House, Plan, READ, answer, soon};

/// A client of one stream.
pub(crate) struct Stream {
    response: reqwest::Response,
    text: String,
}

/// One event as it was written.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = soon(request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; none at the end of the stream.
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
            let chunk = soon(self.response.chunk()).await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn watch(house: &House, id: &str) -> reqwest::RequestBuilder {
    house.request(READ, Method::GET, &format!("/sessions/{id}/events"))
}

#[tokio::test]
async fn a_stream_begins_with_what_is_and_ends_with_what_is_last() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let mut stream = Stream::open(watch(&house, &id)).await;
    let mut events = vec![stream.next().await.unwrap()];
    for event in [Happening::Pick, Happening::Prime, Happening::Publish, Happening::AskStop] {
        house.log.live_through(&id, &[event]);
        events.push(stream.next().await.unwrap());
    }
    let stopping = house.log.session(&id).because(Reason::ClientStop, None, None);
    house.log.put(stopping.after(Happening::End, UnixMs(stopping.updated.0 + 1)).unwrap().unwrap());
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
async fn whoever_comes_late_is_told_the_end_once() {
    let house = House::new().await;
    let id = house.start_channel().await;
    house.log.live_through(&id, &[Happening::Fail]);
    let mut stream = Stream::open(watch(&house, &id)).await;
    let last = stream.next().await.unwrap();
    assert_eq!((last.data["state"].as_str(), stream.next().await), (Some("FAILED"), None));
    // A browser comes back with what it saw last, and is told to stay away.
    let back = watch(&house, &id).header("last-event-id", last.id.to_string());
    assert_eq!(soon(back.send()).await.unwrap().status(), 204);
    let stranger = watch(&house, &id).header("last-event-id", "nonsense");
    assert_eq!(Stream::open(stranger).await.next().await.unwrap().data["state"], "FAILED");
}

#[tokio::test]
async fn a_browser_that_comes_back_sees_what_is_now_under_a_greater_id() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let first = Stream::open(watch(&house, &id)).await.next().await.unwrap();
    let mut back = Stream::open(watch(&house, &id).header("last-event-id", first.id.to_string())).await;
    let again = back.next().await.unwrap();
    assert!(again.id > first.id);
    assert_eq!(again.data["state"], "NEW");
}

#[tokio::test]
async fn a_stream_of_nothing_is_a_404_and_one_whose_record_goes_ends() {
    let house = House::new().await;
    assert_eq!(answer(watch(&house, "no-such-session")).await.code(), (404, "SESSION.NOT_FOUND"));
    let id = house.start_channel().await;
    let mut stream = Stream::open(watch(&house, &id)).await;
    assert!(stream.next().await.is_some());
    house.log.forget(&id);
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn streams_are_counted_and_one_that_is_gone_makes_room() {
    let house = Plan::new().with(|options| options.max_watchers = 1).build().await;
    let id = house.start_channel().await;
    let first = Stream::open(watch(&house, &id)).await;
    let refused = answer(watch(&house, &id)).await;
    assert_eq!((refused.code(), &refused.body["limit"]), ((429, "TOO_MANY"), &Value::from(1)));
    drop(first);
    soon(async {
        while soon(watch(&house, &id).send()).await.unwrap().status() != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_ends_when_the_server_shuts_down() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let mut stream = Stream::open(watch(&house, &id)).await;
    assert!(stream.next().await.is_some());
    house.shutdown.trigger();
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_reader_that_falls_behind_sees_the_last_state() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let mut stream = Stream::open(watch(&house, &id)).await;
    // Nothing is read meanwhile; nothing is kept for it either.
    house.log.live_through(&id, &[Happening::Pick]);
    for _ in 0..1_000 {
        house.log.live_through(&id, &[Happening::Reset, Happening::Pick]);
    }
    house.log.live_through(&id, &[Happening::Fail]);
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    assert_eq!(last.unwrap().data["state"], "FAILED");
}
