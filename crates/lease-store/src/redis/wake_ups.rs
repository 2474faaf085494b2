//! How waiting claims learn that they were granted.
//!
//! Every engine listens on a channel of its own. A script that grants a key to a waiting claim publishes there, and
//! skips the claim if nothing listens. A release that grants to a claim of its own engine says so in its reply instead.
//! Messages are hints: a claim that gets none checks by itself after a while.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, RedisError, Value};
use tenure_lease::{Entropy, Generation, Tick};
use tokio::sync::{Notify, mpsc, watch};

use super::client::{Client, backoff};
use super::connection::CONNECT_TIMEOUT;
use super::fault::{Fault, describe_error};
use super::protocol::release::decode_wake_up;
use super::protocol::{Instance, WaiterId, wake_up_channel};
use super::push_connection;
use crate::OsEntropy;

/// How long the connection may be silent before it is checked: one that a firewall has dropped ends without notice.
const SILENCE: Duration = Duration::from_secs(5);

/// What a waiting claim is woken by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeUp {
    /// It was granted.
    Granted(Generation),
    /// Messages may have been missed: check by yourself.
    Recheck,
}

/// The channel of this engine and the claims that wait in it.
pub(super) struct WakeUps {
    /// The end of the channel's name.
    pub(super) instance: Instance,
    listening: watch::Sender<bool>,
    waiters: Mutex<HashMap<WaiterId, mpsc::Sender<WakeUp>>>,
}

/// A waiting claim of this process, until it is dropped.
pub(super) struct Waiter {
    pub(super) id: WaiterId,
    pub(super) messages: mpsc::Receiver<WakeUp>,
    wake_ups: Arc<WakeUps>,
}

impl WakeUps {
    pub(super) fn new() -> Arc<Self> {
        let (listening, _) = watch::channel(false);
        Arc::new(Self { instance: random_id(), listening, waiters: Mutex::default() })
    }

    /// Registers a waiting claim.
    pub(super) fn register(self: &Arc<Self>) -> Waiter {
        let id = random_id();
        let (sender, messages) = mpsc::channel(2);
        self.waiters.lock().insert(id, sender);
        Waiter { id, messages, wake_ups: Arc::clone(self) }
    }

    /// Waits until the channel is subscribed: a claim that is queued earlier could miss its grant.
    pub(super) async fn wait_until_listening(&self, client: &Client, deadline: Tick) -> Result<(), Fault> {
        let mut listening = self.listening.subscribe();
        match client.before(deadline, listening.wait_for(|yes| *yes)).await {
            Some(Ok(_)) => Ok(()),
            _ => Err(Fault::unsent("no connection for wake-ups")),
        }
    }

    /// Listens until it is dropped, over lost connections.
    pub(super) async fn run(self: Arc<Self>, client: Arc<Client>) {
        let channel = wake_up_channel(&self.instance);
        let mut failures = 0;
        loop {
            let listened = match self.listen(&client, &channel).await {
                // The server does not support RESP3, or does not allow it to this user.
                Err(error) if !error.is_io_error() => self.listen_resp2(&client, &channel).await,
                listened => listened,
            };
            match listened {
                Ok(()) => failures = 0,
                Err(error) => tracing::debug!(error = %describe_error(&error), "no connection for wake-ups"),
            }
            self.listening.send_replace(false);
            failures += 1;
            client.clock.sleep_until(client.clock.now() + backoff(failures)).await;
        }
    }

    /// Listens until the connection is lost.
    async fn listen(self: &Arc<Self>, client: &Client, channel: &str) -> Result<(), RedisError> {
        let limit = client.clock.now() + CONNECT_TIMEOUT;
        let (wake_ups, lost) = (Arc::clone(self), Arc::new(Notify::new()));
        let on_lost = Arc::clone(&lost);
        let receive = move |push: PushInfo| match (push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(payload)]) => wake_ups.receive(payload),
            (PushKind::Disconnection, _) => on_lost.notify_one(),
            _ => {}
        };
        let opening = async {
            let mut conn = push_connection::open(client, receive).await?;
            conn.subscribe(channel).await?;
            Ok::<_, RedisError>(conn)
        };
        let Some(conn) = client.before(limit, opening).await else { return Ok(()) };
        let mut conn = conn?;
        self.start();
        loop {
            tokio::select! {
                () = lost.notified() => return Ok(()),
                () = client.clock.sleep_until(client.clock.now() + SILENCE) => {}
            }
            // Not an error of this function: the server does support RESP3.
            if let Err(error) = redis::cmd("PING").exec_async(&mut conn).await {
                tracing::debug!(error = %describe_error(&error), "the connection for wake-ups does not answer");
                return Ok(());
            }
        }
    }

    /// The same over RESP2.
    async fn listen_resp2(&self, client: &Client, channel: &str) -> Result<(), RedisError> {
        let limit = client.clock.now() + CONNECT_TIMEOUT;
        let opening = async {
            let mut pubsub = client.options.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok::<_, RedisError>(pubsub)
        };
        let Some(pubsub) = client.before(limit, opening).await else { return Ok(()) };
        let (mut sink, mut messages) = pubsub?.split();
        self.start();
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.receive(message.get_payload_bytes()),
                    None => return Ok(()),
                },
                () = client.clock.sleep_until(client.clock.now() + SILENCE) => {
                    match client.before(client.deadline(), sink.ping::<Value>()).await {
                        Some(reply) => drop(reply?),
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// The channel is subscribed; earlier messages may have been missed.
    fn start(&self) {
        self.listening.send_replace(true);
        self.recheck_all();
    }

    fn receive(&self, payload: &[u8]) {
        if let Some((waiter, generation)) = decode_wake_up(payload) {
            self.wake(&waiter, generation);
        }
    }

    /// Tells a waiting claim that it was granted. One that is gone releases what it was granted by itself.
    pub(super) fn wake(&self, waiter: &WaiterId, generation: Generation) {
        if let Some(sender) = self.waiters.lock().get(waiter) {
            let _ = sender.try_send(WakeUp::Granted(generation));
        }
    }

    /// Has every waiting claim check by itself.
    pub(super) fn recheck_all(&self) {
        for sender in self.waiters.lock().values() {
            let _ = sender.try_send(WakeUp::Recheck);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.wake_ups.waiters.lock().remove(&self.id);
    }
}

/// 16 hexadecimal digits.
fn random_id() -> [u8; 16] {
    let mut raw = [0; 8];
    OsEntropy.fill(&mut raw);
    let mut id = [0; 16];
    for (byte, digit) in format!("{:016x}", u64::from_be_bytes(raw)).bytes().zip(&mut id) {
        *digit = byte;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_its_claim_and_no_other() {
        let wake_ups = WakeUps::new();
        let (mut one, mut two) = (wake_ups.register(), wake_ups.register());
        let payload = [&one.id[..], b" 7"].concat();
        wake_ups.receive(&payload);
        assert_eq!(one.messages.try_recv(), Ok(WakeUp::Granted(Generation::new(7).unwrap())));
        assert!(two.messages.try_recv().is_err());
        drop(one);
        wake_ups.receive(&payload);
        wake_ups.receive(b"short");
        assert_eq!(wake_ups.waiters.lock().len(), 1);
    }
}
