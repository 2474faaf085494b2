//! Steps that may give a key to somebody in line, and when the giver is answered.

use std::time::Duration;

use lease::{Key, Result};

use super::engine::Shared;
use super::slots::Slot;
use super::table::{Now, Table};

/// A reign that was shorter than this ended when its holder heard of it.
const SHORT: Duration = Duration::from_micros(250);

/// How long the giver's answer is held back at most where a key is fought for.
const LINGER: Duration = Duration::from_micros(100);

/// How often others have their turn meanwhile. Where nobody is ready a turn takes some 2 µs.
const TURNS: usize = 20;

impl Shared {
    /// A step that may give the key to somebody in line, who hears of it before the answer is given: he waited for it,
    /// and where all share a thread he would wait for the answer's way as well.
    pub(crate) async fn hand_over<T>(
        &self,
        key: &Key,
        decide: impl FnOnce(&mut Table, Now) -> Result<T>,
    ) -> Result<T> {
        let (mut fought, mut handed) = (false, false);
        let step = |table: &mut Table, now: Now| {
            fought = table.is_fought_for(key, now);
            let answer = decide(table, now)?;
            handed = !table.out.grants.is_empty();
            Ok(answer)
        };
        match self.decide(0, step).await? {
            (answer, None) => {
                match handed {
                    true if fought => self.linger().await,
                    true => tokio::task::yield_now().await,
                    false => {}
                }
                Ok(answer)
            }
            (answer, pending) => self.wait(pending).await.map(|()| answer),
        }
    }

    /// Stays awake for a moment. The heir will give the key back sooner than a thread could sleep and be woken, and the
    /// giver's next claim would only stand in his way: it goes to the end of a line.
    async fn linger(&self) {
        let until = self.clock.now() + LINGER;
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            if self.clock.now() >= until {
                return;
            }
        }
    }
}

impl Table {
    /// Whether a key goes from hand to hand over a network: it was only just granted or renewed, and more than one stand
    /// in line.
    fn is_fought_for(&self, key: &Key, now: Now) -> bool {
        let Some(at) = self.slots.find(key) else { return false };
        let line = self.slots.at(at).and_then(Slot::rare).map_or(0, |rare| rare.queue.len());
        line > 1 && self.slots.remote_since(at).is_some_and(|since| now.tick.since(since) < SHORT)
    }
}
