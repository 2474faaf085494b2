//! A WebSocket: one task that reads, does and answers, and passes on what everybody hears.
//!
//! Its own answers are written before it looks at the news again, so an owner hears its answer first and then the
//! broadcast. A reader that falls too far behind the news, or does not read at all, is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use lease::Tick;
use serde_json::Value;
use service::{Area, Caller, Level};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::class::Source;
use crate::code::{Code, Refusal};
use crate::command;
use crate::desk::{Hand, Inner};
use crate::guesses::Window;
use crate::telemetry::TARGET;
use crate::{rest, wire};

/// Bytes of a text message.
const TEXT: usize = 64 * 1_024;
/// Bytes of a binary message.
const BINARY: usize = 2_048;
/// Text messages per second.
const TEXTS: u32 = 50;
/// Binary messages per second.
const BINARIES: u32 = 300;
/// Bytes of a message that is looked into even when it is refused.
const CHEAP: usize = 1_024;
const SECOND: Duration = Duration::from_secs(1);
/// How long a reader may take for one message.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// The least silence after which a connection counts as dead.
const LEAST_SILENCE: Duration = Duration::from_secs(2);

/// `GET /ws`. Who asks has been found out by the layers before.
pub(crate) async fn upgrade(
    State(inner): State<Arc<Inner>>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            let status = rejection.into_response().status();
            let refusal = Refusal::new(Code::INVALID_ACTION, "this path speaks WebSocket").status(status);
            return wire::rest_error(&refusal, inner.now());
        }
    };
    let hand = Hand {
        source: Source::Ws,
        client: Some(inner.number()),
        token: None,
        lease_id: None,
        principal: caller.name.as_str().into(),
        write: caller.scopes.allows(Area::Control, Level::Write),
    };
    let answer = upgrade
        .read_buffer_size(4 * 1_024)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * TEXT)
        .max_message_size(TEXT)
        .max_frame_size(TEXT)
        .on_upgrade(move |socket| {
            let tasks = inner.tasks.clone();
            tasks.track_future(serve(inner, socket, hand))
        });
    debug_assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    answer
}

/// A place among the clients.
struct Seat<'a>(&'a Inner);

impl<'a> Seat<'a> {
    fn take(inner: &'a Inner) -> Option<Self> {
        let taken = inner.clients.fetch_add(1, Ordering::Relaxed);
        metrics::gauge!("control_clients").increment(1.0);
        let seat = Self(inner);
        (taken < inner.options.max_clients).then_some(seat)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("control_clients").decrement(1.0);
    }
}

/// A lease must not outlive its connection, also when the task of the connection is dropped or panics.
struct Presence<'a> {
    inner: &'a Inner,
    client: u32,
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.inner.left(self.client);
    }
}

async fn serve(inner: Arc<Inner>, mut socket: WebSocket, hand: Hand) {
    let Some(_seat) = Seat::take(&inner) else {
        let close =
            Message::Close(Some(CloseFrame { code: close_code::POLICY, reason: "Connection limit".into() }));
        return goodbye(&inner, &mut socket, close).await;
    };
    let client = hand.client.unwrap_or_default();
    let presence = Presence { inner: &inner, client };
    let why = Connection::new(&inner, hand).run(&mut socket).await;
    // First the lease is free, then there is time for politeness.
    drop(presence);
    tracing::debug!(target: TARGET, client, why = why.word(), "socket ends");
    if why == End::Slow {
        metrics::counter!("control_slow_readers_total").increment(1);
    }
    if let Some(close) = why.close() {
        goodbye(&inner, &mut socket, close).await;
    }
}

async fn goodbye(inner: &Inner, socket: &mut WebSocket, close: Message) {
    tokio::select! {
        biased;
        _ = async {
            let _ = socket.send(close).await;
            // Whatever still comes is read, so that the goodbye is not lost with the connection.
            while let Some(Ok(_)) = socket.recv().await {}
        } => {}
        () = inner.uptime.sleep(GOODBYE) => {}
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Left,
    TooBig,
    Slow,
    Silent,
    Over,
}

impl End {
    const fn word(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::TooBig => "message_too_big",
            Self::Slow => "slow_reader",
            Self::Silent => "silent",
            Self::Over => "service_over",
        }
    }

    fn close(self) -> Option<Message> {
        let (code, reason) = match self {
            Self::Left | Self::Slow | Self::Silent => return None,
            Self::TooBig => (close_code::SIZE, "Message too big"),
            Self::Over => (close_code::RESTART, "The device is no longer served here"),
        };
        Some(Message::Close(Some(CloseFrame { code, reason: reason.into() })))
    }
}

struct Connection<'a> {
    inner: &'a Arc<Inner>,
    hand: Hand,
    texts: Window,
    binaries: Window,
    heard: Tick,
    preview: Option<Preview>,
}

/// Pictures for this socket.
struct Preview {
    frames: watch::Receiver<Bytes>,
    every: Duration,
    due: Tick,
}

impl<'a> Connection<'a> {
    fn new(inner: &'a Arc<Inner>, hand: Hand) -> Self {
        let now = inner.tick();
        Self { inner, hand, texts: Window::new(now), binaries: Window::new(now), heard: now, preview: None }
    }

    async fn run(mut self, socket: &mut WebSocket) -> End {
        let mut over = std::pin::pin!(self.inner.over().cancelled_owned());
        let mut news = self.inner.news.subscribe();
        let silence =
            Duration::from_millis(u64::from(self.inner.options.ttl_ms)).mul_f32(0.6).max(LEAST_SILENCE);
        let clock = self.inner.uptime.clock().clone();
        let mut ping = clock.sleep_until(clock.now() + silence / 2);
        loop {
            let step = tokio::select! {
                biased;
                () = &mut over => Err(End::Over),
                heard = news.recv() => match heard {
                    Ok(text) => self.send(socket, Message::Text(text)).await,
                    Err(RecvError::Lagged(_)) => Err(End::Slow),
                    Err(RecvError::Closed) => Err(End::Over),
                },
                message = socket.recv() => self.received(socket, message).await,
                frame = next(&mut self.preview, self.inner) => self.send(socket, Message::Binary(frame)).await,
                () = &mut ping => {
                    ping = clock.sleep_until(clock.now() + silence / 2);
                    match clock.now().since(self.heard) >= silence {
                        true => Err(End::Silent),
                        false => self.send(socket, Message::Ping(Bytes::new())).await,
                    }
                }
            };
            if let Err(end) = step {
                // The last words of a service that ends are passed on, as far as they are there.
                while end == End::Over
                    && let Ok(text) = news.try_recv()
                {
                    if self.send(socket, Message::Text(text)).await.is_err() {
                        break;
                    }
                }
                return end;
            }
        }
    }

    /// Writes, as long as the reader reads.
    async fn send(&self, socket: &mut WebSocket, message: Message) -> Result<(), End> {
        tokio::select! {
            biased;
            sent = socket.send(message) => sent.map_err(|_| End::Left),
            () = self.inner.uptime.sleep(PATIENCE) => Err(End::Slow),
        }
    }

    async fn received(
        &mut self,
        socket: &mut WebSocket,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), End> {
        self.heard = self.inner.tick();
        match message {
            None | Some(Ok(Message::Close(_))) => Err(End::Left),
            Some(Err(error)) => Err(if is_too_big(&error) { End::TooBig } else { End::Left }),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(bytes))) if bytes.len() > BINARY => Err(End::TooBig),
            Some(Ok(Message::Binary(bytes))) => {
                if self.binaries.admit(BINARIES, SECOND, self.heard) {
                    self.inner.frame(self.hand.client.unwrap_or_default(), &bytes);
                }
                Ok(())
            }
            Some(Ok(Message::Text(text))) => {
                let answer = match self.texts.admit(TEXTS, SECOND, self.heard) {
                    true => self.answer(&text).await,
                    false => too_fast(&text),
                };
                self.send(socket, Message::Text(answer)).await
            }
        }
    }

    async fn answer(&mut self, text: &str) -> Utf8Bytes {
        let mut given = match rest::parse(text) {
            Ok(given) => given,
            Err(refusal) => return wire::error(None, &refusal),
        };
        let (kind, request) = (given.remove("type"), given.remove("requestId"));
        let request = wire::request_id(request.as_ref());
        let Some(kind) = kind.as_ref().and_then(Value::as_str) else {
            let refusal = Refusal::new(Code::MISSING_FIELD, "a message needs a `type`").field("type");
            return wire::error(request, &refusal);
        };
        let Some(command) = command::find(kind) else {
            return wire::error(request, &command::unknown(self.inner, &self.hand, kind));
        };
        match command::perform(self.inner, &self.hand, command, given).await {
            Ok(data) => {
                self.subscription(command.name, &data);
                wire::reply(command.answer, request, &data)
            }
            Err(refusal) => wire::error(request, &refusal),
        }
    }

    fn subscription(&mut self, command: &str, data: &Value) {
        match command {
            "ledStream.subscribe" => {
                let fps = data["fps"].as_u64().unwrap_or(30).max(1) as u32;
                let frames = self.inner.frames.subscribe();
                self.preview = Some(Preview { frames, every: SECOND / fps, due: self.inner.tick() });
            }
            "ledStream.unsubscribe" => self.preview = None,
            _ => {}
        }
    }
}

/// The refusal of a message too many. It names the request if that is cheap to find.
fn too_fast(text: &str) -> Utf8Bytes {
    let given = if text.len() <= CHEAP { rest::parse(text).unwrap_or_default() } else { Default::default() };
    let refusal =
        Refusal::new(Code::RATE_LIMITED, "at most 50 messages per second").with("retryAfterMs", 1_000);
    wire::error(wire::request_id(given.get("requestId")), &refusal)
}

/// The next picture, not before it is due; never, if none are wanted.
async fn next(preview: &mut Option<Preview>, inner: &Inner) -> Bytes {
    let Some(preview) = preview else { return std::future::pending().await };
    inner.uptime.clock().sleep_until(preview.due).await;
    if preview.frames.changed().await.is_err() {
        return std::future::pending().await;
    }
    preview.due = inner.tick() + preview.every;
    preview.frames.borrow_and_update().clone()
}

fn is_too_big(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // The library's own type is not ours to name; its words are stable enough and only choose the close code.
        if error.to_string().contains("too long") {
            return true;
        }
        cause = error.source();
    }
    false
}
