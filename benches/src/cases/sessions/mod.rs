//! Wishes of many clients at the door over the embedded store, the way from a wish to its tuner, and a thousand sessions
//! that just go on.

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
/// Starts whose way to a tuner is timed.
const STARTS: usize = 300;
/// Sessions that just go on.
const SESSIONS: usize = 1_000;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(
        "sessions: wishes at the door, the way to a tuner, and sessions that go on (embedded store, durable)",
    );
    let others = Others::watch();
    let clients = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(THREADS).build()?;
    let time = Duration::from_secs(bench.seconds * bench.rounds as u64);
    let replays = rate(bench, &clients, time, |_, _| 1)?;
    let fresh = rate(bench, &clients, time, |client, turn| 1 + (client * 10_000_000 + turn) as u64)?;
    let rows =
        [("replays of one session", &replays), ("fresh sessions", &fresh)].map(|(name, rate)| rate.row(name));
    report::table(
        &["64 clients", "wishes/s", "CPU of the server per wish", "wishes/s of one core", "p50", "p99"],
        &rows,
    );
    let starts = clients.block_on(starts(&BenchServer::start(bench.folder("sessions")?, true)?))?;
    report::line(&format!(
        "From the wish to the tuner's lease, one after the other: p50 {}, p99 {} ({} starts).\n",
        short(starts.at(50.0)),
        short(starts.at(99.0)),
        starts.count()
    ));
    let idle = clients.block_on(idle(&BenchServer::start(bench.folder("sessions")?, true)?, time))?;
    report::goals(&[
        Goal::at_least("replays per second of one core", 5_000.0, replays.of_one_core()),
        Goal::at_least("fresh sessions per second of one core", 1_500.0, fresh.of_one_core()),
        Goal::at_most("p99 of a replay at 64 clients, ms", 20.0, replays.lags.at(99.0).as_secs_f64() * 1e3),
        Goal::at_most(
            "p99 of a fresh session at 64 clients, ms",
            20.0,
            fresh.lags.at(99.0).as_secs_f64() * 1e3,
        ),
        Goal::at_most("p50 from the wish to the lease, ms", 10.0, starts.at(50.0).as_secs_f64() * 1e3),
        Goal::at_most("1,000 sessions that go on, % of a core", 10.0, idle * 100.0),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}

/// What many clients got done.
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

    /// As many as one core would do that does nothing else.
    fn of_one_core(&self) -> f64 {
        self.done as f64 / self.spent.as_secs_f64()
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            plain(self.per_second()),
            short(self.spent.div_f64(self.done.max(1) as f64)),
            plain(self.of_one_core()),
            short(self.lags.at(50.0)),
            short(self.lags.at(99.0)),
        ]
    }
}

/// Lets the clients send intents for `time`; `which` chooses the channel. No worker takes them.
fn rate(
    bench: &Bench<'_>,
    clients: &Runtime,
    time: Duration,
    which: impl Fn(usize, usize) -> u64 + Copy + Send + 'static,
) -> Result<Rate> {
    let site = BenchServer::start(bench.folder("sessions")?, false)?;
    let address = site.address;
    let work = async {
        let mut ready = try_join_all((0..CLIENTS).map(|_| Client::connect(address))).await?;
        ready[0].wish(1).await?;
        let (begun, used, theirs) = (Moment::now(), cpu(), threads(THREADS)?);
        let until = Until::after(time);
        let mut tasks = tokio::task::JoinSet::new();
        for (me, mut client) in ready.into_iter().enumerate() {
            tasks.spawn(async move {
                let mut lags = Vec::new();
                while !until.over() {
                    let sent = Moment::now();
                    client.wish(which(me, lags.len())).await?;
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

/// How long it takes from a wish until its tuner is held, one after the other.
async fn starts(site: &BenchServer) -> Result<Lags> {
    let mut client = Client::connect(site.address).await?;
    let mut watch = site.store().watch(&Prefix::new("lease:tuner:")?, None).await?;
    let mut lags = Vec::new();
    for number in 0..STARTS {
        let sent = Moment::now();
        client.wish(1 + number as u64).await?;
        loop {
            match watch.next().await? {
                Watched::Event(event) if event.verb == Verb::Granted => break,
                Watched::Event(_) => {}
                Watched::Lagged => bail!("the watch fell behind"),
            }
        }
        lags.push(sent.passed());
    }
    Ok(Lags::new(lags))
}

/// The share of a core that idle sessions use.
async fn idle(site: &BenchServer, time: Duration) -> Result<f64> {
    let mut client = Client::connect(site.address).await?;
    for number in 0..SESSIONS {
        client.wish(1 + number as u64).await?;
    }
    let begun = Moment::now();
    while site.ready().await? < SESSIONS {
        ensure!(begun.passed() < Duration::from_secs(120), "only {} sessions got ready", site.ready().await?);
        pause(Duration::from_millis(500)).await;
    }
    let (used, begun) = (cpu(), Moment::now());
    pause(time.max(Duration::from_secs(20))).await;
    Ok((cpu() - used).as_secs_f64() / begun.passed().as_secs_f64())
}
