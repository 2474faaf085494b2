//! Watching over server-sent events.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tenure_lease_api::Options;
use tenure_store::Local;

use crate::http::grant;
use crate::server::{LIMIT, READ, Server, within};

/// A client of one stream.
struct Stream {
    response: reqwest::Response,
    text: String,
}

/// One event as it was written.
#[derive(Debug, PartialEq)]
struct Event {
    id: String,
    event: String,
    data: Value,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) =
                self.text.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
            {
                self.text = rest;
                let field = |name: &str| {
                    let prefix = format!("{name}: ");
                    let line = block.lines().find_map(|line| line.strip_prefix(&prefix));
                    line.unwrap_or_default().to_owned()
                };
                if block.lines().all(|line| line.starts_with(':')) {
                    continue;
                }
                let data = serde_json::from_str(&field("data")).unwrap();
                return Some(Event { id: field("id"), event: field("event"), data });
            }
            let chunk = within(LIMIT, self.response.chunk()).await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

async fn release(server: &Server, lease: &Value) {
    server.post("/v1/leases/release", json!({"key": lease["key"], "token": lease["token"]})).await;
}

#[tokio::test]
async fn events_have_the_revision_as_id_and_the_verb_as_name() {
    let server = Server::start().await;
    let mut stream = Stream::open(server.request(READ, Method::GET, "/v1/leases/watch?prefix=p/")).await;
    grant(&server, "other", "a").await;
    let lease = grant(&server, "p/k", "a").await;
    release(&server, &lease).await;
    let granted = stream.next().await.unwrap();
    assert_eq!(granted.event, "granted");
    assert_eq!(granted.data["key"], "p/k");
    assert_eq!(granted.data["holder"], "a");
    assert_eq!(granted.data["generation"], lease["generation"]);
    assert_eq!(granted.data["revision"], granted.id.as_str());
    let released = stream.next().await.unwrap();
    assert_eq!(released.event, "released");
    assert!(released.id.parse::<u64>().unwrap() > granted.id.parse::<u64>().unwrap());
}

#[tokio::test]
async fn a_watch_resumes_after_the_revision_it_names() {
    let server = Server::start().await;
    let (_, page) = server.get("/v1/leases").await;
    let from = page["revision"].as_str().unwrap().to_owned();
    let lease = grant(&server, "k", "a").await;
    release(&server, &lease).await;
    let path = format!("/v1/leases/watch?from={from}");
    let mut stream = Stream::open(server.request(READ, Method::GET, &path)).await;
    let granted = stream.next().await.unwrap();
    let released = stream.next().await.unwrap();
    assert_eq!((granted.event.as_str(), released.event.as_str()), ("granted", "released"));
    // A browser repeats its URL and adds the last event id.
    let request = server.request(READ, Method::GET, &path).header("Last-Event-ID", &granted.id);
    assert_eq!(Stream::open(request).await.next().await, Some(released));
}

#[tokio::test]
async fn a_watch_from_a_forgotten_revision_reports_lagged_and_continues() {
    let server = Server::start().await;
    let mut stream = Stream::open(server.request(READ, Method::GET, "/v1/leases/watch?from=1")).await;
    let lagged = stream.next().await.unwrap();
    assert_eq!((lagged.event.as_str(), lagged.data), ("lagged", json!({})));
    grant(&server, "k", "a").await;
    assert_eq!(stream.next().await.unwrap().event, "granted");
}

#[tokio::test]
async fn a_bad_last_event_id_is_refused() {
    let server = Server::start().await;
    let request = server.request(READ, Method::GET, "/v1/leases/watch").header("Last-Event-ID", "x");
    assert_eq!(crate::server::answer(request).await.0, 400);
}

#[tokio::test]
async fn watchers_are_limited_and_a_closed_one_frees_its_slot() {
    let server = Server::with(Arc::new(Local::memory()), Options::default().max_watchers(2)).await;
    let watch = || server.request(READ, Method::GET, "/v1/leases/watch");
    let (first, _second) = (Stream::open(watch()).await, Stream::open(watch()).await);
    let (status, body) = crate::server::answer(watch()).await;
    assert_eq!((status.as_u16(), &body["code"], &body["limit"]), (429, &json!("TOO_MANY"), &json!(2)));
    drop(first);
    let room = async {
        while watch().send().await.unwrap().status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, room).await;
}

#[tokio::test]
async fn changes_of_service_records_are_hidden() {
    let server = Server::start().await;
    let mut stream = Stream::open(server.request(READ, Method::GET, "/v1/leases/watch")).await;
    let put = |key: &str| tenure_lease::Op::Put {
        key: tenure_lease::Key::new(key).unwrap(),
        value: b"1"[..].into(),
        ttl: None,
    };
    server.store.commit(&[put("v3:secret")]).await.unwrap();
    server.store.commit(&[put("plain")]).await.unwrap();
    let event = stream.next().await.unwrap();
    assert_eq!((event.event.as_str(), &event.data["key"]), ("written", &json!("plain")));
}

#[tokio::test]
async fn a_stalled_watcher_is_closed_and_others_continue() {
    let options = Options::default().max_watchers(2).stall_timeout(Duration::from_millis(50));
    let server = Server::with(Arc::new(Local::memory()), options).await;
    let deaf = server.request(READ, Method::GET, "/v1/leases/watch").send().await.unwrap();
    let mut stream = Stream::open(server.request(READ, Method::GET, "/v1/leases/watch?prefix=end")).await;
    let key = |n: usize| tenure_lease::Key::new(format!("{n}-{}", "x".repeat(200))).unwrap();
    // More than the queue, the connection's buffers and the kernel's together.
    let put = |n: usize| tenure_lease::Op::Put { key: key(n), value: b"1"[..].into(), ttl: None };
    let closed = async {
        let mut n = 0;
        while server.request(READ, Method::GET, "/v1/leases/watch").send().await.unwrap().status() != 200 {
            for _ in 0..200 {
                let ops: Vec<_> = (0..64).map(|i| put(n + i)).collect();
                server.store.commit(&ops).await.unwrap();
                n = (n + 64) % 6_400;
            }
        }
    };
    within(Duration::from_secs(60), closed).await;
    grant(&server, "end", "a").await;
    assert_eq!(stream.next().await.unwrap().event, "granted");
    drop(deaf);
}

#[tokio::test]
async fn a_watch_ends_when_the_server_shuts_down() {
    let server = Server::start().await;
    let mut stream = Stream::open(server.request(READ, Method::GET, "/v1/leases/watch")).await;
    server.shutdown.trigger();
    assert_eq!(stream.next().await, None);
}
