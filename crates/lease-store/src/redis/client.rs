//! Calls to the server: one shared connection, replaced when it breaks. The only place that retries.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use redis::{Cmd, Value};
use tenure_lease::{Clock, Error, Result, Tick};
use tokio::sync::Mutex;

use super::connection::{Connection, OpenError};
use super::fault::{ENGINE, Fault, Remedy, describe_error, remedy, unexpected_reply};
use super::options::Options;
use super::protocol::{ScriptCall, ServerIdentity};

/// The shortest and the longest pause between two attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(400));
/// The least time that one attempt gets.
const MIN_ATTEMPT: Duration = Duration::from_millis(50);

/// Whether a request may be sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retry {
    /// It has the same effect however often it is sent.
    Idempotent,
    /// After a lost reply its effect is unknown.
    Never,
}

/// A request: a call of a script, or a plain command.
pub(super) enum Request {
    Script(ScriptCall),
    Command(Cmd),
}

/// The shared connection to the server.
pub(super) struct Client {
    /// How the engine was opened.
    pub(super) options: Options,
    /// The clock of this process.
    pub(super) clock: Arc<dyn Clock>,
    current: RwLock<Option<Arc<Connection>>>,
    /// What the last look at the server's settings found: why it is refused, or what its operator should know.
    review: RwLock<Result<Vec<String>, String>>,
    dialer: Mutex<Dialer>,
}

#[derive(Default)]
struct Dialer {
    /// The last server process, and since when it had replaced another.
    previous: Option<(String, Option<Tick>)>,
    failures: u32,
    not_before: Tick,
}

impl Client {
    pub(super) fn new(options: Options, clock: Arc<dyn Clock>) -> Self {
        let (current, review) = (RwLock::new(None), RwLock::new(Ok(Vec::new())));
        Self { options, clock, current, review, dialer: Mutex::new(Dialer::default()) }
    }

    /// What the server's operator should know about how it is run.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.review.read().clone().unwrap_or_default()
    }

    /// Why the server cannot keep leases, if it was refused.
    pub(super) fn refusal(&self) -> Option<String> {
        self.review.read().clone().err()
    }

    fn set_review(&self, review: Result<Vec<String>, String>) {
        let mut last = self.review.write();
        if *last != review {
            match &review {
                Ok(warnings) => {
                    warnings.iter().for_each(|warning| tracing::warn!(engine = ENGINE, "{warning}"))
                }
                Err(why) => tracing::error!(engine = ENGINE, "{why}"),
            }
            *last = review;
        }
    }

    /// Reads again how the server is run: settings change while it runs. Where it cannot keep leases any more, no call is
    /// sent until that has changed.
    pub(super) async fn review_server(&self) {
        let Some(connection) = self.working_connection() else { return };
        if let Some(Ok(profile)) = self.before(self.deadline(), connection.profile()).await {
            let review = profile.check(self.options.allow_eviction);
            if review.is_err() {
                connection.mark_broken();
            }
            self.set_review(review);
        }
    }

    /// When a verb that starts now must be answered.
    pub(super) fn deadline(&self) -> Tick {
        self.clock.now() + self.options.op_timeout
    }

    /// The connection, opened if there is none. An error is one failed attempt.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, Fault> {
        if let Some(connection) = self.working_connection() {
            return Ok(connection);
        }
        let mut dialer = self.dialer.lock().await;
        if let Some(connection) = self.working_connection() {
            return Ok(connection);
        }
        self.clock.sleep_until(dialer.not_before).await;
        let previous = dialer.previous.as_ref().map(|(run, since)| (run.as_str(), *since));
        let opening = Connection::open(&self.options, Arc::clone(&self.clock), previous);
        let opened = match self.before(self.deadline(), opening).await {
            Some(opened) => opened,
            None => Err(OpenError::Failed("the server does not answer".to_owned())),
        };
        match opened {
            Ok((connection, warnings)) => {
                dialer.failures = 0;
                self.set_review(Ok(warnings));
                let run_id = connection.run_id();
                if dialer.previous.as_ref().is_some_and(|(previous, _)| previous != run_id) {
                    tracing::warn!(run_id, "connected to another Redis server process than before");
                }
                dialer.previous = Some((run_id.to_owned(), connection.replaced()));
                let connection = Arc::new(connection);
                *self.current.write() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                dialer.failures = dialer.failures.saturating_add(1);
                dialer.not_before = self.clock.now() + backoff(dialer.failures);
                Err(match error {
                    OpenError::Failed(why) => Fault::unsent(why),
                    OpenError::Refused(why) => {
                        self.set_review(Err(why.clone()));
                        Fault { refused: true, ..Fault::unsent(why) }
                    }
                })
            }
        }
    }

    fn working_connection(&self) -> Option<Arc<Connection>> {
        self.current.read().as_ref().filter(|connection| !connection.is_broken()).cloned()
    }

    /// Sends a request until it is answered, at most until `deadline`. `build` gets whether an earlier attempt may
    /// have been applied. Returns the reply and the connection it came over.
    pub(super) async fn send(
        &self,
        deadline: Tick,
        retry: Retry,
        build: impl Fn(&Connection, bool) -> Request,
    ) -> Result<(Value, Arc<Connection>), Fault> {
        let mut fault = Fault::unsent("no connection to the server");
        for attempt in 1_u32.. {
            let connection = match self.working_connection() {
                Some(connection) => Some(Ok(connection)),
                // Boxed: it is rarely needed, and its state would make every call larger.
                None => self.before(deadline, Box::pin(self.connection())).await,
            };
            let connection = match connection {
                Some(Ok(connection)) => connection,
                Some(Err(error)) => {
                    fault.why = error.why;
                    // A refused server stays refused until an operator has changed it.
                    if error.refused || self.clock.now() >= deadline {
                        break;
                    }
                    continue;
                }
                None => break,
            };
            let until = self.attempt_end(deadline, retry);
            match self.attempt(&connection, build(&connection, fault.sent), until).await {
                Ok(value) => return Ok((value, connection)),
                Err((Remedy::GiveUp, why)) => return Err(Fault { why, ..fault }),
                Err((Remedy::Unexpected, why)) => return Err(Fault::sent(why)),
                Err((Remedy::Retry | Remedy::LoadScript, why)) => fault.why = why,
                Err((Remedy::Reconnect, why)) => {
                    connection.mark_broken();
                    fault.why = why;
                }
                Err((Remedy::ConnectionLost, why)) => {
                    connection.mark_broken();
                    fault = Fault::sent(why);
                    if retry == Retry::Never {
                        break;
                    }
                }
            }
            let again = self.clock.now() + backoff(attempt);
            if again >= deadline {
                break;
            }
            self.clock.sleep_until(again).await;
        }
        Err(fault)
    }

    /// When an attempt that starts now ends. One that may be repeated gets half of the remaining time, so that a silent
    /// connection leaves time for another one.
    fn attempt_end(&self, deadline: Tick, retry: Retry) -> Tick {
        let now = self.clock.now();
        match retry {
            Retry::Idempotent => now + (deadline.since(now) / 2).max(MIN_ATTEMPT),
            Retry::Never => deadline.max(now + MIN_ATTEMPT),
        }
    }

    /// One attempt, and a second one at once if the script had to be loaded.
    async fn attempt(
        &self,
        connection: &Connection,
        request: Request,
        until: Tick,
    ) -> Result<Value, (Remedy, String)> {
        let reply = match &request {
            Request::Command(cmd) => self.before(until, connection.send(cmd)).await,
            Request::Script(call) => self.before(until, run_script(connection, call)).await,
        };
        match (reply, request) {
            (Some(Ok(value)), _) => Ok(value),
            (Some(Err(error)), Request::Script(call)) if remedy(&error) == Remedy::Unexpected => {
                Err((Remedy::Unexpected, format!("{}: {}", call.script().name, describe_error(&error))))
            }
            (Some(Err(error)), _) => Err((remedy(&error), describe_error(&error))),
            (None, _) => Err((Remedy::ConnectionLost, "the server does not answer".to_owned())),
        }
    }

    /// The result of `work`, unless `deadline` comes first.
    pub(super) async fn before<T>(&self, deadline: Tick, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// Calls a script within the usual deadline.
    pub(super) async fn call(
        &self,
        retry: Retry,
        encode: impl Fn(&ServerIdentity) -> ScriptCall,
    ) -> Result<Value> {
        let build = |connection: &Connection, _| Request::Script(encode(&connection.identity()));
        Ok(self.send(self.deadline(), retry, build).await?.0)
    }

    /// Sends a command that reads, within the usual deadline.
    pub(super) async fn read(&self, build: impl Fn() -> Cmd) -> Result<Value> {
        let build = |_: &Connection, _| Request::Command(build());
        Ok(self.send(self.deadline(), Retry::Idempotent, build).await?.0)
    }

    /// Waits until the configured number of replicas have what was written over this connection.
    pub(super) async fn wait_for_replicas(&self, connection: &Connection, deadline: Tick) -> Result<()> {
        let wanted = self.options.replicas;
        let left = deadline.since(self.clock.now()).as_millis().max(1) as u64;
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(left);
        // The server ends the wait by itself; a silent connection is given up a little later.
        let replicas = match self.before(deadline + BACKOFF.1, connection.send(&wait)).await {
            Some(Ok(Value::Int(replicas))) => replicas.max(0) as u64,
            Some(Ok(_)) => return Err(unexpected_reply("not a number of replicas")),
            Some(Err(error)) => return Err(Error::unknown(ENGINE, describe_error(&error))),
            None => {
                connection.mark_broken();
                return Err(Error::unknown(ENGINE, "the server does not report its replicas"));
            }
        };
        if replicas < wanted {
            metrics::counter!("tenure_store_redis_underreplicated_total").increment(1);
            let why = format!("written, but only {replicas} of {wanted} replicas have acknowledged it");
            return Err(Error::unknown(ENGINE, why));
        }
        Ok(())
    }
}

async fn run_script(connection: &Connection, call: &ScriptCall) -> Result<Value, redis::RedisError> {
    match connection.send(call.command()).await {
        Err(error) if remedy(&error) == Remedy::LoadScript => {
            Box::pin(connection.load(call.script())).await?;
            Box::pin(connection.send(call.command())).await
        }
        reply => reply,
    }
}

/// A pause that doubles with each failure, up to a bound.
pub(super) fn backoff(failures: u32) -> Duration {
    (BACKOFF.0 * 2_u32.saturating_pow(failures.saturating_sub(1).min(10))).min(BACKOFF.1)
}
