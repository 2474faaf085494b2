//! One connection to one server process.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lease::{Clock, Tick};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError};

use super::options::Options;
use super::script::Script;

/// How long a connection may take to be established.
pub(super) const CONNECT: Duration = Duration::from_secs(1);

/// A connection, and which server process it ends in. A server's `run_id` lives as long as its process, so
/// reading it once per connection is enough.
pub(super) struct Link {
    conn: MultiplexedConnection,
    clock: Arc<dyn Clock>,
    /// The server process.
    pub(super) run_id: String,
    /// The server's incarnation once it has run for longer than a quarantine lasts.
    settled: String,
    /// Whether this engine has talked to another server process before.
    pub(super) changed: bool,
    /// How long nothing is granted after the server was replaced.
    quarantine_ms: u64,
    connected: Tick,
    uptime: Duration,
    /// What its clock would have shown when the connection was made.
    server_ms: AtomicU64,
    broken: AtomicBool,
}

impl Link {
    /// Connects and asks the server who it is; the caller bounds how long that may take. `seen` is the process talked to before.
    pub(super) async fn open(
        options: &Options,
        clock: Arc<dyn Clock>,
        seen: Option<(&str, bool)>,
    ) -> Result<Self, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            // Every call has a deadline of its own; a second timer for each would cost a tenth of the rate.
            .set_response_timeout(None);
        let mut conn = options.client.get_multiplexed_async_connection_with_config(&config).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        // Not before the answer: it is taken to be as old as it can be, so that the server never seems older than it is.
        let connected = clock.now();
        let number = |name: &str| field(&info, name).parse().unwrap_or(0_u64);
        let run_id = field(&info, "run_id").to_owned();
        let changed = seen.is_some_and(|(run, changed)| changed || run != run_id);
        let quarantine_ms = options.quarantine.as_millis() as u64;
        let uptime = at_least_up(number("uptime_in_seconds"));
        let server_ms = AtomicU64::new(number("server_time_usec") / 1_000);
        let settled = incarnation(&run_id, quarantine_ms, quarantine_ms, changed);
        let broken = AtomicBool::new(false);
        Ok(Self {
            conn,
            clock,
            run_id,
            settled,
            changed,
            quarantine_ms,
            connected,
            uptime,
            server_ms,
            broken,
        })
    }

    /// Describes the server's incarnation to a script, as `head.lua` says.
    pub(super) fn incarnation(&self) -> Cow<'_, str> {
        let uptime_ms = (self.uptime + self.clock.now().since(self.connected)).as_millis() as u64;
        match uptime_ms < self.quarantine_ms {
            true => incarnation(&self.run_id, uptime_ms, self.quarantine_ms, self.changed).into(),
            false => self.settled.as_str().into(),
        }
    }

    /// What the server's clock shows, nearly.
    pub(super) fn server_ms(&self) -> u64 {
        self.server_ms.load(Ordering::Relaxed) + self.clock.now().since(self.connected).as_millis() as u64
    }

    /// Notes what the server's clock showed, to a question that was asked at `asked`.
    pub(super) fn set_time(&self, asked: Tick, ms: u64) {
        let before = asked.since(self.connected).as_millis() as u64;
        self.server_ms.store(ms.saturating_sub(before), Ordering::Relaxed);
    }

    /// Sends one command and waits for its answer.
    pub(super) async fn send(&self, cmd: &Cmd) -> Result<redis::Value, RedisError> {
        self.conn.clone().send_packed_command(cmd).await?.extract_error()
    }

    /// Calls a script. The server answers its clients in the opposite order in which it began to: one whose first
    /// answer is owed to a command before the call is answered after those to whom the call publishes. Otherwise they
    /// wait while this process deals with the answer.
    pub(super) async fn call(&self, script: &Script, cmd: Cmd) -> Result<redis::Value, RedisError> {
        if !script.tells {
            return self.send(&cmd).await;
        }
        let mut both = Pipeline::with_capacity(2);
        both.add_command(redis::cmd("PING")).add_command(cmd);
        let mut answers = self.conn.clone().send_packed_commands(&both, 1, 1).await?;
        answers.pop().unwrap_or(redis::Value::Nil).extract_error()
    }

    /// Loads a script.
    pub(super) async fn load(&self, script: &Script) -> Result<(), RedisError> {
        self.send(redis::cmd("SCRIPT").arg("LOAD").arg(&script.text)).await.map(drop)
    }

    /// Gives the connection up: the next caller gets another.
    pub(super) fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether it was given up.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

/// How long a server has run for certain. It tells the difference of two moments in whole seconds, which may be one more.
const fn at_least_up(told: u64) -> Duration {
    Duration::from_secs(told.saturating_sub(1))
}

fn incarnation(run_id: &str, uptime_ms: u64, quarantine_ms: u64, changed: bool) -> String {
    let (mark, changed) = if changed { ("!", 1) } else { ("", 0) };
    format!("{mark}{run_id}0000000000000 {uptime_ms} {quarantine_ms} {changed} ")
}

/// A field of what a server says about itself.
pub(super) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_never_seems_to_have_run_for_longer_than_it_has() {
        // Started at 0.9 s and asked at 2.1 s, it tells 2 of the 1.2 seconds.
        assert_eq!(at_least_up(2), Duration::from_secs(1));
        assert_eq!((at_least_up(1), at_least_up(0)), (Duration::ZERO, Duration::ZERO));
    }
}
