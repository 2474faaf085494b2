//! A WebSocket connection: one task reads messages, runs commands, writes replies and forwards broadcasts.
//!
//! The task writes a reply before it forwards further broadcasts, so an owner receives its reply before the broadcast.
//! A client that lags too far behind, or does not read at all, is dropped.

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
use serde_json::Value;
use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tenure_service::{Area, Caller, Level};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use crate::class::InputSource;
use crate::code::{Code, Refusal};
use crate::command;
use crate::rate_limit::RateWindow;
use crate::service::{ControlService, Requester};
use crate::telemetry::TARGET;
use crate::{rest, wire};

/// Maximum bytes of a text message.
const MAX_TEXT: usize = 64 * 1_024;
/// Maximum bytes of a binary message.
const MAX_BINARY: usize = 2_048;
/// Text messages per second.
const MAX_TEXT_RATE: u32 = 50;
/// Binary messages per second.
const MAX_BINARY_RATE: u32 = 300;
/// Maximum bytes of a rate-limited message that is parsed for its request id.
const MAX_PARSED_REFUSAL: usize = 1_024;
const SECOND: Duration = Duration::from_secs(1);
/// Timeout of writing one message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the close handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum silence after which a connection counts as dead.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /ws`. Earlier layers have authenticated the caller.
pub(crate) async fn upgrade(
    State(service): State<Arc<ControlService>>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            let status = rejection.into_response().status();
            let refusal =
                Refusal::new(Code::INVALID_ACTION, "this path requires a WebSocket upgrade").status(status);
            return wire::rest_error(&refusal, service.now());
        }
    };
    let requester = Requester {
        source: InputSource::Ws,
        client: Some(service.next_client_id()),
        token: None,
        lease_id: None,
        principal: caller.name.as_str().into(),
        write: caller.scopes.allows(Area::Control, Level::Write),
    };
    let response = upgrade
        .read_buffer_size(4 * 1_024)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MAX_TEXT)
        .max_message_size(MAX_TEXT)
        .max_frame_size(MAX_TEXT)
        .on_upgrade(move |socket| {
            let tasks = service.tasks.clone();
            tasks.track_future(serve(service, socket, requester))
        });
    debug_assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    response
}

/// One of the `max_clients` connections.
struct ConnectionSlot<'a>(&'a ControlService);

impl<'a> ConnectionSlot<'a> {
    fn acquire(service: &'a ControlService) -> Option<Self> {
        let taken = service.clients.fetch_add(1, Ordering::Relaxed);
        metrics::gauge!("tenure_control_clients").increment(1.0);
        let slot = Self(service);
        (taken < service.options.max_clients).then_some(slot)
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("tenure_control_clients").decrement(1.0);
    }
}

/// Releases the lease with its connection, even if the connection's task is dropped or panics.
struct DisconnectGuard<'a> {
    service: &'a ControlService,
    client: u32,
}

impl Drop for DisconnectGuard<'_> {
    fn drop(&mut self) {
        if !broken(Break::LeaseOutlivesConnection) {
            self.service.disconnect(self.client);
        }
    }
}

async fn serve(service: Arc<ControlService>, mut socket: WebSocket, requester: Requester) {
    let Some(_slot) = ConnectionSlot::acquire(&service) else {
        let close =
            Message::Close(Some(CloseFrame { code: close_code::POLICY, reason: "Connection limit".into() }));
        return close_socket(&service, &mut socket, close).await;
    };
    let client = requester.client.unwrap_or_default();
    let disconnect = DisconnectGuard { service: &service, client };
    let reason = Connection::new(&service, requester).run(&mut socket).await;
    // The lease is released before the close handshake.
    drop(disconnect);
    tracing::debug!(target: TARGET, client, why = reason.as_str(), "connection closed");
    if reason == CloseReason::Slow {
        metrics::counter!("tenure_control_slow_clients_total").increment(1);
    }
    if let Some(close) = reason.close_message() {
        close_socket(&service, &mut socket, close).await;
    }
}

async fn close_socket(service: &ControlService, socket: &mut WebSocket, close: Message) {
    tokio::select! {
        biased;
        _ = async {
            let _ = socket.send(close).await;
            // Unread data would reset the connection and lose the close frame.
            while let Some(Ok(_)) = socket.recv().await {}
        } => {}
        () = service.uptime.sleep(CLOSE_TIMEOUT) => {}
    }
}

/// Why a connection closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CloseReason {
    Left,
    TooBig,
    Slow,
    Silent,
    NotServing,
}

impl CloseReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::TooBig => "message_too_big",
            Self::Slow => "slow_reader",
            Self::Silent => "silent",
            Self::NotServing => "service_over",
        }
    }

    fn close_message(self) -> Option<Message> {
        let (code, reason) = match self {
            Self::Left | Self::Slow | Self::Silent => return None,
            Self::TooBig => (close_code::SIZE, "Message too big"),
            Self::NotServing => (close_code::RESTART, "The device is no longer served here"),
        };
        Some(Message::Close(Some(CloseFrame { code, reason: reason.into() })))
    }
}

struct Connection<'a> {
    service: &'a Arc<ControlService>,
    requester: Requester,
    texts: RateWindow,
    binaries: RateWindow,
    last_received: Tick,
    preview: Option<PreviewStream>,
}

/// The LED preview of this connection.
struct PreviewStream {
    frames: watch::Receiver<Bytes>,
    every: Duration,
    due: Tick,
}

impl<'a> Connection<'a> {
    fn new(service: &'a Arc<ControlService>, requester: Requester) -> Self {
        let now = service.tick();
        Self {
            service,
            requester,
            texts: RateWindow::new(now),
            binaries: RateWindow::new(now),
            last_received: now,
            preview: None,
        }
    }

    async fn run(mut self, socket: &mut WebSocket) -> CloseReason {
        let mut ended = std::pin::pin!(self.service.serving_ended().cancelled_owned());
        let mut broadcasts = self.service.broadcasts.subscribe();
        let idle_timeout =
            Duration::from_millis(u64::from(self.service.options.ttl_ms)).mul_f32(0.6).max(MIN_IDLE_TIMEOUT);
        let clock = self.service.uptime.clock().clone();
        let mut ping = clock.sleep_until(clock.now() + idle_timeout / 2);
        loop {
            let step = tokio::select! {
                biased;
                () = &mut ended => Err(CloseReason::NotServing),
                received = broadcasts.recv() => match received {
                    Ok(text) => self.send(socket, Message::Text(text)).await,
                    Err(RecvError::Lagged(_)) => Err(CloseReason::Slow),
                    Err(RecvError::Closed) => Err(CloseReason::NotServing),
                },
                message = socket.recv() => self.received(socket, message).await,
                frame = next_preview(&mut self.preview, self.service) => self.send(socket, Message::Binary(frame)).await,
                () = &mut ping => {
                    ping = clock.sleep_until(clock.now() + idle_timeout / 2);
                    match clock.now().since(self.last_received) >= idle_timeout {
                        true => Err(CloseReason::Silent),
                        false => self.send(socket, Message::Ping(Bytes::new())).await,
                    }
                }
            };
            if let Err(end) = step {
                // Queued broadcasts are still sent when the service shutdown.
                while end == CloseReason::NotServing
                    && let Ok(text) = broadcasts.try_recv()
                {
                    if self.send(socket, Message::Text(text)).await.is_err() {
                        break;
                    }
                }
                return end;
            }
        }
    }

    /// Writes a message, unless the client does not read.
    async fn send(&self, socket: &mut WebSocket, message: Message) -> Result<(), CloseReason> {
        tokio::select! {
            biased;
            sent = socket.send(message) => sent.map_err(|_| CloseReason::Left),
            () = self.service.uptime.sleep(WRITE_TIMEOUT) => Err(CloseReason::Slow),
        }
    }

    async fn received(
        &mut self,
        socket: &mut WebSocket,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), CloseReason> {
        self.last_received = self.service.tick();
        match message {
            None | Some(Ok(Message::Close(_))) => Err(CloseReason::Left),
            Some(Err(error)) => Err(if is_too_big(&error) { CloseReason::TooBig } else { CloseReason::Left }),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(bytes))) if bytes.len() > MAX_BINARY => Err(CloseReason::TooBig),
            Some(Ok(Message::Binary(bytes))) => {
                if self.binaries.admit(MAX_BINARY_RATE, SECOND, self.last_received) {
                    self.service.ingest_frame(self.requester.client.unwrap_or_default(), &bytes);
                }
                Ok(())
            }
            Some(Ok(Message::Text(text))) => {
                let reply = match self.texts.admit(MAX_TEXT_RATE, SECOND, self.last_received) {
                    true => self.handle_text(&text).await,
                    false => rate_limited(&text),
                };
                self.send(socket, Message::Text(reply)).await
            }
        }
    }

    async fn handle_text(&mut self, text: &str) -> Utf8Bytes {
        let mut given = match rest::parse_object(text) {
            Ok(given) => given,
            Err(refusal) => return wire::error(None, &refusal),
        };
        let (kind, request) = (given.remove("type"), given.remove("requestId"));
        let request = wire::request_id(request.as_ref());
        let Some(kind) = kind.as_ref().and_then(Value::as_str) else {
            let refusal = Refusal::new(Code::MISSING_FIELD, "`type` is required").field("type");
            return wire::error(request, &refusal);
        };
        let Some(command) = command::find(kind) else {
            return wire::error(request, &command::unknown_command(self.service, &self.requester, kind));
        };
        match command::perform(self.service, &self.requester, command, given).await {
            Ok(data) => {
                self.update_preview(command.name, &data);
                wire::reply(command.reply, request, &data)
            }
            Err(refusal) => wire::error(request, &refusal),
        }
    }

    fn update_preview(&mut self, command: &str, data: &Value) {
        match command {
            "ledStream.subscribe" => {
                let fps = data["fps"].as_u64().unwrap_or(30).max(1) as u32;
                let frames = self.service.frames.subscribe();
                self.preview = Some(PreviewStream { frames, every: SECOND / fps, due: self.service.tick() });
            }
            "ledStream.unsubscribe" => self.preview = None,
            _ => {}
        }
    }
}

/// The refusal of a message over the rate limit. It includes the request id of a short message.
fn rate_limited(text: &str) -> Utf8Bytes {
    let given = if text.len() <= MAX_PARSED_REFUSAL {
        rest::parse_object(text).unwrap_or_default()
    } else {
        Default::default()
    };
    let refusal =
        Refusal::new(Code::RATE_LIMITED, "at most 50 messages per second").with("retryAfterMs", 1_000);
    wire::error(wire::request_id(given.get("requestId")), &refusal)
}

/// The next preview frame, once it is due. Never completes without a subscription.
async fn next_preview(preview: &mut Option<PreviewStream>, service: &ControlService) -> Bytes {
    let Some(preview) = preview else { return std::future::pending().await };
    service.uptime.clock().sleep_until(preview.due).await;
    if preview.frames.changed().await.is_err() {
        return std::future::pending().await;
    }
    preview.due = service.tick() + preview.every;
    preview.frames.borrow_and_update().clone()
}

fn is_too_big(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // The error type is private to the library. Its text only selects the close code.
        if error.to_string().contains("too long") {
            return true;
        }
        cause = error.source();
    }
    false
}
