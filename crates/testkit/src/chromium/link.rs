//! The DevTools protocol over one WebSocket: commands by number, events by session.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::page_error::{PageError, page_error, push_bounded};
use crate::lock;

/// How long the browser may take for one command on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Commands in flight; a test sends one at a time.
const UNDER_WAY: usize = 64;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Answer = SyncSender<Result<Value>>;
/// The errors of each session.
type SessionErrors = Arc<Mutex<HashMap<String, Vec<PageError>>>>;

struct Order {
    session: Option<String>,
    method: &'static str,
    params: Value,
    answer: Answer,
}

/// A connection to a browser, shared by its pages.
pub(super) struct Link {
    orders: mpsc::Sender<Order>,
    errors: SessionErrors,
    runtime: Option<Runtime>,
}

impl Link {
    /// Connects to the DevTools at `address`.
    pub(super) fn open(address: &str) -> Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("testkit-devtools")
            .enable_all()
            .build()
            .context("cannot start the runtime of the DevTools connection")?;
        let (orders, inbox) = mpsc::channel(UNDER_WAY);
        let errors = SessionErrors::default();
        let (opened, outcome) = sync_channel(1);
        let wire = Wire { errors: Arc::clone(&errors), pending: HashMap::new(), last: 0 };
        let url = address.to_owned();
        runtime.spawn(async move {
            match Box::pin(connect_async(url)).await {
                Ok((socket, _)) => {
                    let _ = opened.send(Ok(()));
                    wire.run(socket, inbox).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        // Created before the result is known, so that a failure also ends the runtime.
        let link = Self { orders, errors, runtime: Some(runtime) };
        match outcome.recv_timeout(LIMIT) {
            Ok(Ok(())) => Ok(link),
            Ok(Err(error)) => Err(anyhow!(error).context(format!("connect to {address}"))),
            Err(_) => bail!("no connection to {address} within {LIMIT:?}"),
        }
    }

    /// Sends one command, to the browser or to one session, and waits for its result.
    pub(super) fn call(&self, session: Option<&str>, method: &'static str, params: Value) -> Result<Value> {
        let (answer, result) = sync_channel(1);
        let order = Order { session: session.map(str::to_owned), method, params, answer };
        self.orders
            .try_send(order)
            .map_err(|error| anyhow!("{method}: connection to the browser closed: {error}"))?;
        match result.recv_timeout(LIMIT) {
            Ok(outcome) => outcome.with_context(|| method.to_owned()),
            Err(RecvTimeoutError::Timeout) => bail!("{method}: no response within {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("{method}: connection to the browser closed"),
        }
    }

    /// The errors of a session so far.
    pub(super) fn errors(&self, session: &str) -> Vec<PageError> {
        lock(&self.errors).get(session).cloned().unwrap_or_default()
    }

    /// Takes the errors of a session.
    pub(super) fn take_errors(&self, session: &str) -> Vec<PageError> {
        lock(&self.errors).remove(session).unwrap_or_default()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Waiting for a runtime would panic in an async test.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The state of the task behind a [`Link`].
struct Wire {
    errors: SessionErrors,
    pending: HashMap<u64, Answer>,
    last: u64,
}

impl Wire {
    /// Runs until either side is closed. Then the channels of waiting callers are closed too.
    async fn run(mut self, mut socket: Socket, mut inbox: mpsc::Receiver<Order>) {
        loop {
            tokio::select! {
                order = inbox.recv() => {
                    let Some(order) = order else { return };
                    let message = self.number(order);
                    if socket.send(Message::text(message.to_string())).await.is_err() {
                        return;
                    }
                }
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.receive(&text),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                }
            }
        }
    }

    /// Assigns an id to a command.
    fn number(&mut self, order: Order) -> Value {
        self.last += 1;
        self.pending.insert(self.last, order.answer);
        let mut message = json!({ "id": self.last, "method": order.method, "params": order.params });
        if let Some(session) = order.session {
            message["sessionId"] = json!(session);
        }
        message
    }

    fn receive(&mut self, text: &str) {
        let Ok(mut message) = serde_json::from_str::<Value>(text) else { return };
        if let Some(answer) = message["id"].as_u64().and_then(|id| self.pending.remove(&id)) {
            // The caller may have timed out.
            let _ = answer.send(result(&mut message));
            return;
        }
        let (Some(session), Some(method)) = (message["sessionId"].as_str(), message["method"].as_str())
        else {
            return;
        };
        if let Some(page_error) = page_error(method, &message["params"]) {
            push_bounded(lock(&self.errors).entry(session.to_owned()).or_default(), page_error);
        }
    }
}

fn result(message: &mut Value) -> Result<Value> {
    match message.get("error") {
        Some(error) => Err(anyhow!("{}", error["message"].as_str().unwrap_or("unknown error"))),
        None => Ok(message["result"].take()),
    }
}
