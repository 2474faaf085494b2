//! The way to the server: one shared connection, renewed when it breaks, and the only place that repeats.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Error, Result, Tick};
use parking_lot::RwLock;
use redis::{Cmd, Value};
use tokio::sync::Mutex;

use super::beat::Beat;
use super::fault::{ENGINE, Fault, Remedy, remedy, words};
use super::link::Link;
use super::options::Options;
use super::script::Script;

/// The shortest and the longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(400));

/// Whether a request may be sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// It has the same effect however often it is sent.
    Freely,
    /// A lost answer leaves it unknown.
    Never,
}

/// The shared way to the server.
pub(super) struct Wire {
    /// How the engine was opened.
    pub(super) options: Options,
    /// The clock of this process.
    pub(super) clock: Arc<dyn Clock>,
    /// When those who wait for an answer look at the clock.
    beat: Beat,
    current: RwLock<Option<Arc<Link>>>,
    dial: Mutex<Dial>,
}

#[derive(Default)]
struct Dial {
    /// The last server process, and whether it already was another than the first.
    seen: Option<(String, bool)>,
    failures: u32,
    not_before: Tick,
}

impl Wire {
    pub(super) fn new(options: Options, clock: Arc<dyn Clock>) -> Self {
        let beat = Beat::new(options.op_timeout);
        Self { options, clock, beat, current: RwLock::new(None), dial: Mutex::new(Dial::default()) }
    }

    /// Ends calls that are not answered in time. Without it they wait for ever.
    pub(super) async fn beat(self: Arc<Self>) {
        self.beat.run(&*self.clock).await;
    }

    /// When a verb that starts now must be answered.
    pub(super) fn budget(&self) -> Tick {
        self.clock.now() + self.options.op_timeout
    }

    /// The connection, made if there is none. An error is one failed attempt.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Fault> {
        if let Some(link) = self.working() {
            return Ok(link);
        }
        let mut dial = self.dial.lock().await;
        if let Some(link) = self.working() {
            return Ok(link);
        }
        self.clock.sleep_until(dial.not_before).await;
        let seen = dial.seen.as_ref().map(|(run, changed)| (run.as_str(), *changed));
        let opening = Link::open(&self.options, Arc::clone(&self.clock), seen);
        let opened = match self.before(self.budget(), opening).await {
            Some(opened) => opened.map_err(|error| words(&error)),
            None => Err("the server does not answer".to_owned()),
        };
        match opened {
            Ok(link) => {
                dial.failures = 0;
                if link.changed && dial.seen.as_ref().is_some_and(|(run, _)| *run != link.run_id) {
                    tracing::warn!(run_id = %link.run_id, "redis is another server process than before");
                }
                dial.seen = Some((link.run_id.clone(), link.changed));
                let link = Arc::new(link);
                *self.current.write() = Some(Arc::clone(&link));
                Ok(link)
            }
            Err(error) => {
                dial.failures = dial.failures.saturating_add(1);
                dial.not_before = self.clock.now() + pause(dial.failures);
                Err(Fault::unsent(error))
            }
        }
    }

    fn working(&self) -> Option<Arc<Link>> {
        self.current.read().as_ref().filter(|link| !link.is_broken()).cloned()
    }

    /// Calls a script until it answers, at most until `deadline`. `build` is told whether an earlier attempt
    /// may have been applied.
    pub(super) async fn run(
        &self,
        script: Option<&Script>,
        deadline: Tick,
        repeat: Repeat,
        build: impl Fn(&Link, bool) -> Cmd,
    ) -> Result<Value, Fault> {
        self.run_over(script, deadline, repeat, build).await.map(|(value, _)| value)
    }

    /// The same, and says over which connection it was.
    pub(super) async fn run_over(
        &self,
        script: Option<&Script>,
        deadline: Tick,
        repeat: Repeat,
        build: impl Fn(&Link, bool) -> Cmd,
    ) -> Result<(Value, Arc<Link>), Fault> {
        let mut fault = Fault::unsent("no connection to the server");
        let mut sent = false;
        for attempt in 1_u32.. {
            let link = match self.working() {
                Some(link) => Some(Ok(link)),
                // Rare and large: kept apart, so that every other call is small.
                None => self.before(deadline, Box::pin(self.link())).await,
            };
            let link = match link {
                Some(Ok(link)) => link,
                Some(Err(why)) => {
                    fault.why = why.why;
                    if self.clock.now() >= deadline {
                        break;
                    }
                    continue;
                }
                None => break,
            };
            match self.attempt(script, &link, || build(&link, sent), deadline).await {
                Ok(value) => return Ok((value, link)),
                Err((Remedy::Hopeless, why)) => return Err(Fault { sent, why }),
                Err((Remedy::Strange, why)) => {
                    return Err(Fault::sent(match script {
                        Some(script) => format!("{}: {why}", script.name),
                        None => why,
                    }));
                }
                Err((Remedy::Again | Remedy::Load, why)) => fault.why = why,
                Err((Remedy::Reconnect, why)) => {
                    link.give_up();
                    fault.why = why;
                }
                Err((Remedy::Broken, why)) => {
                    link.give_up();
                    sent = true;
                    fault.why = why;
                    if repeat == Repeat::Never {
                        break;
                    }
                }
            }
            let again = self.clock.now() + pause(attempt);
            if again >= deadline {
                break;
            }
            self.clock.sleep_until(again).await;
        }
        Err(Fault { sent, ..fault })
    }

    /// One attempt, and another right away when the script had to be loaded first. It gets half of what is
    /// left, so that a silent connection leaves time for a second one.
    async fn attempt(
        &self,
        script: Option<&Script>,
        link: &Link,
        build: impl Fn() -> Cmd,
        deadline: Tick,
    ) -> Result<Value, (Remedy, String)> {
        let now = self.clock.now();
        let until = now + (deadline.since(now) / 2).max(Duration::from_millis(50));
        let work = pin!(async {
            let Some(script) = script else { return link.send(&build()).await };
            match link.call(script, build()).await {
                Err(error) if remedy(&error) == Remedy::Load => {
                    Box::pin(link.load(script)).await?;
                    Box::pin(link.call(script, build())).await
                }
                answer => answer,
            }
        });
        match self.beat.before(&*self.clock, until, work).await {
            Some(answer) => answer.map_err(|error| (remedy(&error), words(&error))),
            None => Err((Remedy::Broken, "the server does not answer".to_owned())),
        }
    }

    /// What `work` gives, unless `deadline` comes first.
    pub(super) async fn before<T>(&self, deadline: Tick, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.clock.sleep_until(deadline) => None,
        }
    }

    /// Calls a script within the usual budget.
    pub(super) async fn call(
        &self,
        script: &Script,
        repeat: Repeat,
        build: impl Fn(&Link, bool) -> Cmd,
    ) -> Result<Value> {
        Ok(self.run(Some(script), self.budget(), repeat, build).await?)
    }

    /// Waits until as many replicas as are asked for have what was written over this connection. What they are
    /// not known to have may be lost by a failover.
    pub(super) async fn copied(&self, link: &Link, deadline: Tick) -> Result<()> {
        let wanted = self.options.replicas;
        let left = deadline.since(self.clock.now()).as_millis().max(1) as u64;
        let mut wait = redis::cmd("WAIT");
        wait.arg(wanted).arg(left);
        // The server says by itself when its time is over; a silent connection is left a little later.
        let late = deadline + PAUSE.1;
        let have = match self.before(late, link.send(&wait)).await {
            Some(Ok(Value::Int(have))) => have.max(0) as u64,
            Some(Ok(_)) => return Err(super::fault::strange("not a number of replicas")),
            Some(Err(error)) => return Err(Error::unknown(ENGINE, words(&error))),
            None => {
                link.give_up();
                return Err(Error::unknown(ENGINE, "the server does not say which replicas have a change"));
            }
        };
        if have < wanted {
            metrics::counter!("tenure_redis_uncopied_total").increment(1);
            let why = format!("written, but only {have} of {wanted} replicas are known to have it");
            return Err(Error::unknown(ENGINE, why));
        }
        Ok(())
    }

    /// Sends a command that reads, within the usual budget.
    pub(super) async fn plain(&self, build: impl Fn() -> Cmd) -> Result<Value> {
        Ok(self.run(None, self.budget(), Repeat::Freely, |_, _| build()).await?)
    }
}

/// A pause that doubles, up to a bound.
pub(super) fn pause(failures: u32) -> Duration {
    (PAUSE.0 * 2_u32.saturating_pow(failures.saturating_sub(1).min(10))).min(PAUSE.1)
}
