//! One connection to one server process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisError};
use tenure_lease::{Clock, Tick};

use super::fault::describe_error;
use super::options::Options;
use super::profile::ServerProfile;
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
    /// Since when this engine has not been connected to the process that it was connected to before.
    replaced: Option<Tick>,
    broken: AtomicBool,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The attempt failed.
    Failed(String),
    /// The server is run in a way in which it cannot keep leases.
    Refused(String),
}

impl From<RedisError> for OpenError {
    fn from(error: RedisError) -> Self {
        Self::Failed(describe_error(&error))
    }
}

impl Connection {
    /// Connects, reads the server's identity and checks how it is run; the caller bounds how long that may take.
    /// `previous` is the process of the connection before, and since when that had been a replacement. Returns the
    /// connection and what the server's operator should know.
    pub(super) async fn open(
        options: &Options,
        clock: Arc<dyn Clock>,
        previous: Option<(&str, Option<Tick>)>,
    ) -> Result<(Self, Vec<String>), OpenError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // Every call has a deadline of its own.
            .set_response_timeout(None);
        let mut conn = options.client.get_multiplexed_async_connection_with_config(&config).await?;
        let (info, profile) = read_profile(&mut conn).await?;
        let warnings = profile.check(options.allow_eviction).map_err(OpenError::Refused)?;
        // Read after the reply, so that the uptime is never overestimated.
        let connected = clock.now();
        let run_id = info_field(&info, "run_id").to_owned();
        let replaced = previous.and_then(|(run, since)| if run == run_id { since } else { Some(connected) });
        let reported = info_field(&info, "uptime_in_seconds").parse().unwrap_or(0);
        let uptime = if profile.uptime_counts() { minimum_uptime(reported) } else { Duration::ZERO };
        let identity = ServerIdentity {
            run_id,
            uptime_ms: uptime.as_millis() as u64,
            quarantine_ms: options.quarantine.as_millis() as u64,
            replaced_ms: None,
        };
        Ok((Self { conn, clock, identity, connected, replaced, broken: AtomicBool::new(false) }, warnings))
    }

    /// Reads how the server is run now.
    pub(super) async fn profile(&self) -> Result<ServerProfile, RedisError> {
        Ok(read_profile(&mut self.conn.clone()).await?.1)
    }

    /// The server process.
    pub(super) fn run_id(&self) -> &str {
        &self.identity.run_id
    }

    /// Since when this engine has not been connected to the process that it was connected to before.
    pub(super) fn replaced(&self) -> Option<Tick> {
        self.replaced
    }

    /// The server process, as scripts take it.
    pub(super) fn identity(&self) -> ServerIdentity {
        let now = self.clock.now();
        ServerIdentity {
            uptime_ms: self.identity.uptime_ms + now.since(self.connected).as_millis() as u64,
            replaced_ms: self.replaced.map(|since| now.since(since).as_millis() as u64),
            ..self.identity.clone()
        }
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

/// The reply to `INFO`, and what it says about how the server is run. Not every user may read settings.
async fn read_profile(conn: &mut MultiplexedConnection) -> Result<(String, ServerProfile), RedisError> {
    let info: String = redis::cmd("INFO").query_async(conn).await?;
    let save = conn.send_packed_command(redis::cmd("CONFIG").arg("GET").arg("save")).await?;
    let save = save.extract_error().and_then(|value| Ok(Vec::<String>::from_redis_value(value)?));
    let profile =
        ServerProfile::parse(&info, save.ok().as_ref().and_then(|pair| pair.get(1)).map(String::as_str));
    Ok((info, profile))
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
