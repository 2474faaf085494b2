//! How parked claims hear that they were granted.
//!
//! Every engine listens on one channel of its own. A script that grants to a parked claim publishes there, and
//! skips the claim when nobody listens. A release that grants to a claim of its own engine says so in its answer instead.
//! Messages are hints: a claim that hears nothing looks for itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hashbrown::HashMap;
use lease::{Entropy, Generation, Tick};
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::sync::{Notify, mpsc, watch};

use super::fault::{Fault, words};
use super::link::CONNECT;
use super::wire::{Wire, pause};
use super::{push, reply};
use crate::OsEntropy;

/// How long the server may be silent before it is asked whether it is still there: a connection that a firewall forgot ends
/// without a word.
const QUIET: Duration = Duration::from_secs(5);

/// The name of a parked claim.
pub(super) type SeatId = [u8; 16];

/// What a parked claim hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    /// It was granted.
    Granted(Generation),
    /// Messages may have been missed: look.
    Look,
}

/// The channel of this engine and the claims that listen.
pub(super) struct Bell {
    /// The end of the channel's name.
    pub(super) instance: SeatId,
    listening: watch::Sender<bool>,
    seats: Mutex<HashMap<SeatId, mpsc::Sender<Ring>>>,
}

/// The place of one parked claim in this process.
pub(super) struct Seat {
    pub(super) id: SeatId,
    pub(super) rings: mpsc::Receiver<Ring>,
    bell: Arc<Bell>,
}

impl Bell {
    pub(super) fn new() -> Arc<Self> {
        let (listening, _) = watch::channel(false);
        Arc::new(Self { instance: name(), listening, seats: Mutex::default() })
    }

    /// Takes a seat.
    pub(super) fn seat(self: &Arc<Self>) -> Seat {
        let id = name();
        let (sender, rings) = mpsc::channel(2);
        self.seats.lock().insert(id, sender);
        Seat { id, rings, bell: Arc::clone(self) }
    }

    /// Waits until the channel is heard: parking earlier could miss the grant.
    pub(super) async fn ready(&self, wire: &Wire, deadline: Tick) -> Result<(), Fault> {
        let mut listening = self.listening.subscribe();
        match wire.before(deadline, listening.wait_for(|yes| *yes)).await {
            Some(Ok(_)) => Ok(()),
            _ => Err(Fault::unsent("no connection for wake-ups")),
        }
    }

    /// Listens for ever, over lost connections.
    pub(super) async fn listen(self: Arc<Self>, wire: Arc<Wire>) {
        let channel = format!("tenure:c:{}", String::from_utf8_lossy(&self.instance));
        let mut failures = 0;
        loop {
            let heard = match self.hear(&wire, &channel).await {
                // One that does not speak first, or not to this user.
                Err(error) if !error.is_io_error() => self.hear_plainly(&wire, &channel).await,
                heard => heard,
            };
            match heard {
                Ok(()) => failures = 0,
                Err(error) => tracing::debug!(error = %words(&error), "no connection for wake-ups"),
            }
            self.listening.send_replace(false);
            failures += 1;
            wire.clock.sleep_until(wire.clock.now() + pause(failures)).await;
        }
    }

    /// Listens until the connection is lost.
    async fn hear(self: &Arc<Self>, wire: &Wire, channel: &str) -> Result<(), RedisError> {
        let limit = wire.clock.now() + CONNECT;
        let (bell, lost) = (Arc::clone(self), Arc::new(Notify::new()));
        let losing = Arc::clone(&lost);
        let told = move |push: PushInfo| match (push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(payload)]) => drop(bell.ring(payload)),
            (PushKind::Disconnection, _) => losing.notify_one(),
            _ => {}
        };
        let opening = async {
            let mut conn = push::open(wire, told).await?;
            conn.subscribe(channel).await?;
            Ok::<_, RedisError>(conn)
        };
        let Some(conn) = wire.before(limit, opening).await else { return Ok(()) };
        let mut conn = conn?;
        self.begin();
        loop {
            tokio::select! {
                () = lost.notified() => return Ok(()),
                () = wire.clock.sleep_until(wire.clock.now() + QUIET) => {}
            }
            // Whatever it says instead, it is not that it cannot speak first.
            if let Err(error) = redis::cmd("PING").exec_async(&mut conn).await {
                tracing::debug!(error = %words(&error), "the connection for wake-ups is silent");
                return Ok(());
            }
        }
    }

    /// The same in the way of older servers.
    async fn hear_plainly(&self, wire: &Wire, channel: &str) -> Result<(), RedisError> {
        let limit = wire.clock.now() + CONNECT;
        let opening = async {
            let mut pubsub = wire.options.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok::<_, RedisError>(pubsub)
        };
        let Some(pubsub) = wire.before(limit, opening).await else { return Ok(()) };
        let (mut asking, mut messages) = pubsub?.split();
        self.begin();
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => drop(self.ring(message.get_payload_bytes())),
                    None => return Ok(()),
                },
                () = wire.clock.sleep_until(wire.clock.now() + QUIET) => {
                    match wire.before(wire.budget(), asking.ping::<Value>()).await {
                        Some(answer) => drop(answer?),
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Says that the channel is heard; what was said before may have been missed.
    fn begin(&self) {
        self.listening.send_replace(true);
        self.ring_all();
    }

    /// Tells a parked claim that it was granted: `id(16) generation(16)`. The release that granted it may have been
    /// answered in this process before the message is here; the second of the two finds nobody.
    /// Says whether somebody heard it.
    pub(super) fn ring(&self, payload: &[u8]) -> bool {
        let Some((id, rest)) = payload.split_first_chunk::<16>() else { return false };
        let digits = rest.get(..16).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(generation) = digits.and_then(reply::generation) else { return false };
        // A claim that is gone gives back what it was granted by itself; a message for it means nothing.
        self.seats.lock().get(id).is_some_and(|seat| seat.try_send(Ring::Granted(generation)).is_ok())
    }

    /// Lets every parked claim look for itself.
    pub(super) fn ring_all(&self) {
        for seat in self.seats.lock().values() {
            let _ = seat.try_send(Ring::Look);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.bell.seats.lock().remove(&self.id);
    }
}

fn name() -> SeatId {
    let mut raw = [0; 8];
    OsEntropy.fill(&mut raw);
    let mut hex = [0; 16];
    for (pair, byte) in hex.chunks_mut(2).zip(raw) {
        let digit = |n: u8| char::from_digit(u32::from(n), 16).map_or(b'0', |c| c as u8);
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_its_seat_and_no_other() {
        let bell = Bell::new();
        let (mut one, mut two) = (bell.seat(), bell.seat());
        let mut payload = one.id.to_vec();
        payload.extend_from_slice(b"0000000000000007");
        bell.ring(&payload);
        assert_eq!(one.rings.try_recv(), Ok(Ring::Granted(Generation::new(7).unwrap())));
        assert!(two.rings.try_recv().is_err());
        drop(one);
        bell.ring(&payload);
        bell.ring(b"short");
        assert_eq!(bell.seats.lock().len(), 1);
    }
}
