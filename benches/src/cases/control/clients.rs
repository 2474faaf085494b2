//! Clients of the control service: an owner, observers and a frame stream.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tenure_control::{PAYLOAD, frame};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::server::TOKEN;
use crate::clock::{Moment, Until, pause};
use crate::numbers::Lags;

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Interval of commands of one client, within the rate limit of a connection.
const BETWEEN: Duration = Duration::from_millis(25);
/// Commands between two heartbeats of an owner: about a second.
const BEATS: usize = 40;

pub(super) struct Crowd {
    _tasks: JoinSet<()>,
    heard: Arc<Heard>,
}

#[derive(Default)]
struct Heard {
    count: AtomicUsize,
    texts: AtomicUsize,
    full: Notify,
}

/// The counters of a stream.
pub(super) struct Streamed {
    pub(super) packets: usize,
    pub(super) counters: String,
}

/// Connects clients, as fast as the rate limit of one token allows.
async fn connect(address: SocketAddr) -> Result<Socket> {
    loop {
        let mut request = format!("ws://{address}/ws").into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse()?);
        let socket = match tokio_tungstenite::connect_async(request).await {
            Err(Error::Http(answer)) if answer.status() == 429 => {
                pause(Duration::from_millis(50)).await;
                continue;
            }
            answer => answer?.0,
        };
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_nodelay(true)?;
        }
        return Ok(socket);
    }
}

/// Sends a message and reads until its response. The bare server sends the same response to every message.
async fn request(socket: &mut Socket, message: Value) -> Result<Value> {
    socket.send(Message::text(message.to_string())).await?;
    while let Some(heard) = socket.next().await {
        if let Message::Text(text) = heard?
            && text.contains("\"requestId\"")
        {
            return Ok(serde_json::from_str(&text)?);
        }
    }
    bail!("connection closed by the server")
}

/// Sends one command and waits for its response.
async fn command(socket: &mut Socket, number: usize) -> Result<Duration> {
    let message = json!({ "type": "setBrightness", "requestId": "0000", "brightness": number % 256 });
    let begun = Moment::now();
    request(socket, message).await?;
    Ok(begun.passed())
}

/// Acquires the control lease; returns the connection that owns it and its token.
pub(super) async fn acquire_lease(address: SocketAddr) -> Result<(Socket, String)> {
    let mut owner = connect(address).await?;
    let lease = request(&mut owner, json!({ "type": "control.acquire", "requestId": "0" })).await?;
    let token = lease["data"]["leaseToken"].as_str().context("no token")?.to_owned();
    Ok((owner, token))
}

impl Crowd {
    /// Starts observers that count heartbeats; the last of `size` sends a notification.
    async fn observers(address: SocketAddr, size: usize) -> Result<Self> {
        let (mut tasks, heard) = (JoinSet::new(), Arc::new(Heard::default()));
        for _ in 0..size {
            let mut socket = connect(address).await?;
            let heard = heard.clone();
            tasks.spawn(async move {
                while let Some(Ok(message)) = socket.next().await {
                    let Message::Text(text) = message else { continue };
                    heard.texts.fetch_add(1, Ordering::Relaxed);
                    if text.contains("\"event\":\"heartbeat\"")
                        && heard.count.fetch_add(1, Ordering::AcqRel) + 1 == size
                    {
                        heard.full.notify_one();
                    }
                }
            });
        }
        Ok(Self { _tasks: tasks, heard })
    }

    /// Round trips of the owner's commands with observers connected, and the messages per second of each observer.
    pub(super) async fn owner(address: SocketAddr, observers: usize, seconds: u64) -> Result<(Lags, f64)> {
        let crowd = Self::observers(address, observers).await?;
        let mut socket = connect(address).await?;
        let lease = request(&mut socket, json!({ "type": "control.acquire", "requestId": "0" })).await?;
        let (id, token) = (&lease["data"]["leaseId"], &lease["data"]["leaseToken"]);
        let beat =
            json!({ "type": "control.heartbeat", "requestId": "0", "leaseId": id, "leaseToken": token });
        let (begun, until, mut lags) =
            (Moment::now(), Until::after(Duration::from_secs(seconds)), Vec::new());
        crowd.heard.texts.store(0, Ordering::Relaxed);
        while !until.over() {
            if lags.len() % BEATS == BEATS - 1 {
                request(&mut socket, beat.clone()).await?;
            }
            lags.push(command(&mut socket, lags.len()).await?);
            pause(BETWEEN).await;
        }
        let heard = crowd.heard.texts.load(Ordering::Relaxed) as f64;
        Ok((Lags::new(lags), heard / observers as f64 / begun.passed().as_secs_f64()))
    }

    /// Round trips of commands of many clients while the lease is free, with observers connected.
    pub(super) async fn commands(
        address: SocketAddr,
        callers: usize,
        observers: usize,
        seconds: u64,
    ) -> Result<Lags> {
        let _observers = Self::observers(address, observers).await?;
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let mut socket = connect(address).await?;
            tasks.spawn(async move {
                let (until, mut lags) = (Until::after(Duration::from_secs(seconds)), Vec::new());
                pause(BETWEEN * caller as u32 / callers as u32).await;
                while !until.over() {
                    lags.push(command(&mut socket, lags.len()).await?);
                    pause(BETWEEN).await;
                }
                anyhow::Ok(lags)
            });
        }
        let mut all = Vec::new();
        while let Some(lags) = tasks.join_next().await {
            all.extend(lags??);
        }
        Ok(Lags::new(all))
    }

    /// The time until a heartbeat has reached all observers.
    pub(super) async fn heartbeats(address: SocketAddr, observers: usize, count: usize) -> Result<Lags> {
        let crowd = Self::observers(address, observers).await?;
        let mut owner = connect(address).await?;
        let lease = request(
            &mut owner,
            json!({ "type": "control.acquire", "requestId": "0", "clientName": "bench" }),
        )
        .await?;
        let data = &lease["data"];
        let beat = json!({ "type": "control.heartbeat", "requestId": "0", "leaseId": data["leaseId"], "leaseToken": data["leaseToken"] });
        let mut lags = Vec::new();
        for _ in 0..count {
            crowd.heard.count.store(0, Ordering::Release);
            let begun = Moment::now();
            request(&mut owner, beat.clone()).await?;
            crowd.heard.full.notified().await;
            lags.push(begun.passed());
            pause(Duration::from_millis(60)).await;
        }
        Ok(Lags::new(lags))
    }

    /// Streams frames at a fixed rate and returns the counters of the stream and its output.
    pub(super) async fn stream(
        address: SocketAddr,
        fps: u32,
        seconds: u64,
        strip: &UdpSocket,
    ) -> Result<Streamed> {
        let mut owner = connect(address).await?;
        let lease =
            request(&mut owner, json!({ "type": "control.acquire", "requestId": "0" })).await?["data"]
                .clone();
        request(&mut owner, json!({ "type": "render.stream.start", "requestId": "0", "targetFps": fps }))
            .await?;
        let (mut buffer, mut packets) = ([0; 2_048], 0);
        while strip.recv(&mut buffer).is_ok() {}
        let begun = Moment::now();
        let total = fps * seconds as u32;
        for sequence in 0..total {
            owner.send(Message::binary(frame(sequence, &[(sequence % 256) as u8; PAYLOAD]))).await?;
            while strip.recv(&mut buffer).is_ok() {
                packets += 1;
            }
            if sequence % fps == fps - 1 {
                let beat = json!({ "type": "control.heartbeat", "requestId": "0", "leaseId": lease["leaseId"], "leaseToken": lease["leaseToken"] });
                request(&mut owner, beat).await?;
            }
            let due = Duration::from_secs(1) * (sequence + 1) / fps;
            pause(due.saturating_sub(begun.passed())).await;
        }
        let status = request(&mut owner, json!({ "type": "render.stream.status", "requestId": "0" })).await?;
        let number = |name: &str| status["data"][name].as_u64().context("missing counter");
        let counters = format!(
            "{} received, {} rendered, {} dropped, {} invalid",
            number("framesRx")?,
            number("framesRendered")?,
            number("framesDroppedMailbox")?,
            number("framesInvalid")?
        );
        Ok(Streamed { packets, counters })
    }
}
