//! The session API over the embedded store: the rate of intents, the time from an intent to its tuner lease, and the
//! CPU use of a thousand idle sessions.

mod client;
mod server;

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures_util::future::try_join_all;
use tenure_lease::{Prefix, Verb, Watched};
use tokio::runtime::Runtime;

use super::Bench;
use crate::clock::{Moment, Until, cpu, pause};
use crate::machine::{Others, threads};
use crate::numbers::{Lags, plain, short};
use crate::report::{self, Goal};

use client::Client;
use server::BenchServer;

/// Clients at once.
const CLIENTS: usize = 64;
/// The name of the clients' threads.
const THREADS: &str = "bench-client";
/// Starts whose time to a tuner lease is measured.
const STARTS: usize = 300;
/// Idle sessions.
const SESSIONS: usize = 1_000;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("sessions: intents, time to a tuner lease, and idle sessions (embedded store, durable)");
    let others = Others::watch();
    let clients = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(THREADS).build()?;
    let time = Duration::from_secs(bench.seconds * bench.rounds as u64);
    let replays = rate(bench, &clients, time, |_, _| 1)?;
    let new = rate(bench, &clients, time, |client, turn| 1 + (client * 10_000_000 + turn) as u64)?;
    let rows =
        [("replays of one session", &replays), ("new sessions", &new)].map(|(name, rate)| rate.row(name));
    report::table(
        &["64 clients", "intents/s", "server CPU per intent", "intents/s per core", "p50", "p99"],
        &rows,
    );
    let starts = clients.block_on(starts(&BenchServer::start(bench.folder("sessions")?, true)?))?;
    report::line(&format!(
        "From an intent to its tuner lease, one at a time: p50 {}, p99 {} ({} starts).\n",
        short(starts.at(50.0)),
        short(starts.at(99.0)),
        starts.count()
    ));
    let idle = clients.block_on(idle(&BenchServer::start(bench.folder("sessions")?, true)?, time))?;
    report::goals(&[
        Goal::at_least("replays per second and core", 5_000.0, replays.per_core()),
        Goal::at_least("new sessions per second and core", 1_500.0, new.per_core()),
        Goal::at_most("replay with 64 clients, p99, ms", 20.0, replays.lags.at(99.0).as_secs_f64() * 1e3),
        Goal::at_most("new session with 64 clients, p99, ms", 20.0, new.lags.at(99.0).as_secs_f64() * 1e3),
        Goal::at_most("intent to tuner lease, p50, ms", 10.0, starts.at(50.0).as_secs_f64() * 1e3),
        Goal::at_most("1,000 idle sessions, % of a core", 10.0, idle * 100.0),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}

/// The throughput of all clients.
struct Rate {
    done: u64,
    took: Duration,
    /// CPU of everything but the clients.
    spent: Duration,
    lags: Lags,
}

impl Rate {
    fn per_second(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }

    /// Operations per second of server CPU time.
    fn per_core(&self) -> f64 {
        self.done as f64 / self.spent.as_secs_f64()
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            plain(self.per_second()),
            short(self.spent.div_f64(self.done.max(1) as f64)),
            plain(self.per_core()),
            short(self.lags.at(50.0)),
            short(self.lags.at(99.0)),
        ]
    }
}

/// Lets the clients send intents for `time`; `which` chooses the channel. No worker is running.
fn rate(
    bench: &Bench<'_>,
    clients: &Runtime,
    time: Duration,
    which: impl Fn(usize, usize) -> u64 + Copy + Send + 'static,
) -> Result<Rate> {
    let server = BenchServer::start(bench.folder("sessions")?, false)?;
    let address = server.address;
    let work = async {
        let mut ready = try_join_all((0..CLIENTS).map(|_| Client::connect(address))).await?;
        ready[0].send_intent(1).await?;
        let (begun, used, theirs) = (Moment::now(), cpu(), threads(THREADS)?);
        let until = Until::after(time);
        let mut tasks = tokio::task::JoinSet::new();
        for (me, mut client) in ready.into_iter().enumerate() {
            tasks.spawn(async move {
                let mut lags = Vec::new();
                while !until.over() {
                    let sent = Moment::now();
                    client.send_intent(which(me, lags.len())).await?;
                    lags.push(sent.passed());
                }
                anyhow::Ok(lags)
            });
        }
        let mut lags = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            lags.extend(ended??);
        }
        let (took, used, theirs) = (begun.passed(), cpu() - used, threads(THREADS)?.saturating_sub(theirs));
        Ok(Rate { done: lags.len() as u64, took, spent: used.saturating_sub(theirs), lags: Lags::new(lags) })
    };
    clients.block_on(work)
}

/// The time from an intent until its tuner is held, one session at a time.
async fn starts(server: &BenchServer) -> Result<Lags> {
    let mut client = Client::connect(server.address).await?;
    let mut watch = server.store().watch(&Prefix::new("lease:tuner:")?, None).await?;
    let mut lags = Vec::new();
    for number in 0..STARTS {
        let sent = Moment::now();
        client.send_intent(1 + number as u64).await?;
        loop {
            match watch.next().await? {
                Watched::Event(event) if event.verb == Verb::Granted => break,
                Watched::Event(_) => {}
                Watched::Lagged => bail!("the watch lagged"),
            }
        }
        lags.push(sent.passed());
    }
    Ok(Lags::new(lags))
}

/// The share of a core that idle sessions use.
async fn idle(server: &BenchServer, time: Duration) -> Result<f64> {
    let mut client = Client::connect(server.address).await?;
    for number in 0..SESSIONS {
        client.send_intent(1 + number as u64).await?;
    }
    let begun = Moment::now();
    while server.ready().await? < SESSIONS {
        ensure!(
            begun.passed() < Duration::from_secs(120),
            "only {} sessions became ready",
            server.ready().await?
        );
        pause(Duration::from_millis(500)).await;
    }
    let (used, begun) = (cpu(), Moment::now());
    pause(time.max(Duration::from_secs(20))).await;
    Ok((cpu() - used).as_secs_f64() / begun.passed().as_secs_f64())
}
