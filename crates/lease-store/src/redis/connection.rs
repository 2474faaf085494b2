//! One connection to one server process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisError};
use tenure_lease::{Clock, Tick};

use super::options::Options;
use super::protocol::{Script, ServerIdentity};

/// How long a connection may take to be established.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection, and the server process it ends in. A server's `run_id` lives as long as its process, so it is read
/// once per connection.
pub(super) struct Connection {
    conn: MultiplexedConnection,
    clock: Arc<dyn Clock>,
    identity: ServerIdentity,
    connected: Tick,
    broken: AtomicBool,
}

impl Connection {
    /// Connects and reads the server's identity; the caller bounds how long that may take. `previous` is the process
    /// of the connection before, and whether that was a replacement already.
    pub(super) async fn open(
        options: &Options,
        clock: Arc<dyn Clock>,
        previous: Option<(&str, bool)>,
    ) -> Result<Self, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // Every call has a deadline of its own.
            .set_response_timeout(None);
        let mut conn = options.client.get_multiplexed_async_connection_with_config(&config).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        // Read after the reply, so that the uptime is never overestimated.
        let connected = clock.now();
        let run_id = info_field(&info, "run_id").to_owned();
        let identity = ServerIdentity {
            replaced: previous.is_some_and(|(run, replaced)| replaced || run != run_id),
            run_id,
            uptime_ms: minimum_uptime(info_field(&info, "uptime_in_seconds").parse().unwrap_or(0)).as_millis()
                as u64,
            quarantine_ms: options.quarantine.as_millis() as u64,
        };
        Ok(Self { conn, clock, identity, connected, broken: AtomicBool::new(false) })
    }

    /// The server process.
    pub(super) fn run_id(&self) -> &str {
        &self.identity.run_id
    }

    /// Whether this engine was connected to another server process before.
    pub(super) fn is_replacement(&self) -> bool {
        self.identity.replaced
    }

    /// The server process, as scripts take it.
    pub(super) fn identity(&self) -> ServerIdentity {
        let since = self.clock.now().since(self.connected).as_millis() as u64;
        ServerIdentity { uptime_ms: self.identity.uptime_ms + since, ..self.identity.clone() }
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn send(&self, cmd: &Cmd) -> Result<redis::Value, RedisError> {
        self.conn.clone().send_packed_command(cmd).await?.extract_error()
    }

    /// Loads a script.
    pub(super) async fn load(&self, script: &Script) -> Result<(), RedisError> {
        self.send(redis::cmd("SCRIPT").arg("LOAD").arg(&script.text)).await.map(drop)
    }

    /// Marks the connection as broken: the next call opens another.
    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether it was marked as broken.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

/// How long a server has run at least. It reports the difference of two times in whole seconds, which may be one more.
const fn minimum_uptime(reported: u64) -> Duration {
    Duration::from_secs(reported.saturating_sub(1))
}

/// A field of `INFO`.
pub(super) fn info_field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uptime_of_a_server_is_never_overestimated() {
        // Started at 0.9 s and asked at 2.1 s, it reports 2 of the 1.2 seconds.
        assert_eq!(minimum_uptime(2), Duration::from_secs(1));
        assert_eq!((minimum_uptime(1), minimum_uptime(0)), (Duration::ZERO, Duration::ZERO));
    }
}
