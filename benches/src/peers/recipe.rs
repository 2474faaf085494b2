//! Hand-written locks over Redis.

use anyhow::{Result, bail, ensure};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, Script};
use tenure_lease::Entropy;
use tenure_store::OsEntropy;

use crate::callers::Batches;
use crate::clock::{Until, pause};

/// Longer than any measurement.
const TTL_MS: u64 = 600_000;

const DELETE_IF_MINE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const PROLONG_IF_MINE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
const SET_AND_MINT: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
     return redis.call('INCR', KEYS[2]) else return false end";
const DELETE_AND_TELL: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], '') return 1 else return 0 end";

/// How a key is acquired.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// `SET NX PX`, no generation.
    Bare,
    /// `SET NX PX` and `INCR` in one script.
    Minting,
}

/// Connections to one Redis server, and the recipe's scripts loaded there.
#[derive(Clone)]
pub(crate) struct Hand {
    connections: Vec<MultiplexedConnection>,
    delete: String,
    prolong: String,
    mint: String,
    tell: String,
}

impl Hand {
    pub(crate) async fn connect(url: &str, connections: usize) -> Result<Self> {
        let client = Client::open(url)?;
        // A timeout per command would cost the recipe a tenth of its rate.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut all = Vec::new();
        for _ in 0..connections {
            all.push(client.get_multiplexed_async_connection_with_config(&config).await?);
        }
        let mut hashes = Vec::new();
        for text in [DELETE_IF_MINE, PROLONG_IF_MINE, SET_AND_MINT, DELETE_AND_TELL] {
            hashes.push(Script::new(text).load_async(&mut all[0]).await?);
        }
        let [delete, prolong, mint, tell] = <[String; 4]>::try_from(hashes).unwrap_or_default();
        Ok(Self { connections: all, delete, prolong, mint, tell })
    }

    pub(crate) fn connection(&self, me: usize) -> MultiplexedConnection {
        self.connections[me % self.connections.len()].clone()
    }

    /// Acquires and releases its own key until the slice is over.
    pub(crate) async fn cycles(self, recipe: Recipe, me: usize, until: Until) -> Result<u64> {
        let mut connection = self.connection(me);
        let (key, counter) = (format!("hand/{me}"), format!("hand/{me}/generation"));
        let mut done = 0;
        while !until.over() {
            let secret = secret();
            let taken = self.acquire(recipe, &key, &counter, &secret);
            let taken: redis::Value = taken.query_async(&mut connection).await?;
            ensure!(taken != redis::Value::Nil, "{key} is busy");
            let given: i64 = evalsha(&self.delete, &[&key], &[&secret]).query_async(&mut connection).await?;
            ensure!(given == 1, "{key} was not held");
            done += 1;
        }
        Ok(done)
    }

    fn acquire(&self, recipe: Recipe, key: &str, counter: &str, secret: &str) -> Cmd {
        match recipe {
            Recipe::Bare => {
                let mut set = redis::cmd("SET");
                set.arg(key).arg(secret).arg("NX").arg("PX").arg(TTL_MS);
                set
            }
            Recipe::Minting => evalsha(&self.mint, &[key, counter], &[secret, &TTL_MS.to_string()]),
        }
    }

    /// Acquires keys and returns them with their secrets.
    pub(crate) async fn acquire_all(&self, count: usize) -> Result<Vec<(String, String)>> {
        let mut connection = self.connection(0);
        let held: Vec<_> = (0..count).map(|i| (format!("hand/renew/{i}"), secret())).collect();
        for some in held.chunks(1_000) {
            let mut pipe = Pipeline::new();
            for (key, secret) in some {
                pipe.cmd("SET").arg(key).arg(secret).arg("NX").arg("PX").arg(3_600_000);
            }
            let _: Vec<redis::Value> = pipe.query_async(&mut connection).await?;
        }
        Ok(held)
    }

    /// Acquires the keys of the memory measurement.
    pub(crate) async fn fill(&self, recipe: Recipe, which: std::ops::Range<usize>) -> Result<()> {
        let mut connection = self.connection(0);
        let names: Vec<_> = which.map(crate::cases::network_memory::name).collect();
        for some in names.chunks(1_000) {
            let mut pipe = Pipeline::new();
            for key in some {
                pipe.add_command(self.acquire(recipe, key, &format!("{key}/generation"), &secret()));
            }
            let answers: Vec<redis::Value> = pipe.query_async(&mut connection).await?;
            ensure!(!answers.contains(&redis::Value::Nil), "a key is busy");
        }
        Ok(())
    }

    /// Renews keys, one pipeline per batch, until the slice is over.
    pub(crate) async fn renewals(
        &self,
        held: &[(String, String)],
        batch: &Batches,
        me: usize,
        until: Until,
    ) -> Result<u64> {
        let mut connection = self.connection(me);
        let mut done = 0;
        while !until.over() {
            let some = batch.next(held);
            let mut pipe = Pipeline::new();
            for (key, secret) in some {
                pipe.add_command(evalsha(&self.prolong, &[key], &[secret, "3600000"]));
            }
            let answers: Vec<i64> = pipe.query_async(&mut connection).await?;
            ensure!(answers.iter().all(|answer| *answer == 1), "a lease was lost");
            done += some.len() as u64;
        }
        Ok(done)
    }

    /// Acquires a key; after a failed attempt, waits for the message of the release.
    pub(crate) async fn acquire_told(&self, me: usize, key: &str, bell: &mut Bell) -> Result<String> {
        let mut connection = self.connection(me);
        let secret = secret();
        for _ in 0..100_000 {
            let taken: redis::Value =
                self.acquire(Recipe::Bare, key, "", &secret).query_async(&mut connection).await?;
            if taken != redis::Value::Nil {
                return Ok(secret);
            }
            bell.ring().await;
        }
        bail!("{key} was not acquired")
    }

    /// Releases a key and publishes a message.
    pub(crate) async fn release_telling(&self, me: usize, key: &str, secret: &str) -> Result<()> {
        let mut connection = self.connection(me);
        let given: i64 = evalsha(&self.tell, &[key], &[secret]).query_async(&mut connection).await?;
        ensure!(given == 1, "{key} was not held");
        Ok(())
    }
}

/// A subscription to the messages of releases.
pub(crate) struct Bell(PubSub);

impl Bell {
    pub(crate) async fn hang(url: &str, key: &str) -> Result<Self> {
        let mut messages = Client::open(url)?.get_async_pubsub().await?;
        messages.subscribe(key).await?;
        Ok(Self(messages))
    }

    /// Waits for a message, for at most a second in case it was lost.
    async fn ring(&mut self) {
        use futures_util::StreamExt;
        let mut messages = self.0.on_message();
        tokio::select! {
            _ = messages.next() => {}
            () = pause(std::time::Duration::from_secs(1)) => {}
        }
    }
}

fn evalsha(hash: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(hash).arg(keys.len());
    keys.iter().chain(args).for_each(|word| {
        cmd.arg(*word);
    });
    cmd
}

/// 128 random bits as hex digits.
fn secret() -> String {
    let mut bytes = [0; 16];
    OsEntropy.fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}
