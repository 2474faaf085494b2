//! Joins: handshake, CONNECT, JoinRequest to JoinResponse, with the seat written down before the answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::prosody::Prosody;
use super::server::{BenchServer, Meeting, dialer, enter};
use crate::cases::Bench;
use crate::clock::Moment;
use crate::machine::{Others, TICKS, of_process};
use crate::numbers::{Lags, Spread, plain, short};
use crate::report::{self, Goal};

/// People who join in one round.
const JOINS: usize = 600;
/// In one meeting.
const SEATS: usize = 10;
/// At the same time.
const AT_ONCE: usize = 32;

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("meet-join: {JOINS} joins, {AT_ONCE} at once, meetings of {SEATS}"));
    let others = Others::watch();
    let site = BenchServer::start(bench)?;
    let prosody = Prosody::start(bench)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        ours.push(bench.runtime.block_on(meetings(&site, round))?);
        theirs.push(bench.runtime.block_on(rooms(&prosody, round))?);
    }
    let row = |name: &str, rounds: &[Round]| {
        let of = |what: fn(&Round) -> f64| Spread::of(&rounds.iter().map(what).collect::<Vec<_>>());
        let (rate, cpu) = (of(|round| round.rate), of(|round| round.cpu));
        let all: Vec<_> = rounds.iter().flat_map(|round| round.lags.iter().copied()).collect();
        let lags = Lags::new(all);
        vec![
            name.to_owned(),
            format!("{} [{}–{}]", plain(rate.median), plain(rate.min), plain(rate.max)),
            short(lags.at(50.0)),
            short(lags.at(99.0)),
            format!("{:.2} ms [{:.2}–{:.2}]", cpu.median, cpu.min, cpu.max),
        ]
    };
    report::table(
        &["server", "joins/s, median [min–max]", "p50", "p99", "CPU of the server per join"],
        &[row("Tenure, QUIC, written to Redis", &ours), row("prosody MUC, TLS + SASL, in memory", &theirs)],
    );
    report::line(&format!(
        "Other work used {:.0} % of the cores.",
        others.share(&[site.pid(), site.redis.pid(), prosody.pid()])
    ));
    let rate = Spread::of(&ours.iter().map(|round| round.rate).collect::<Vec<_>>()).median;
    let p99 = Lags::new(ours.iter().flat_map(|round| round.lags.iter().copied()).collect()).at(99.0);
    let cpu = |rounds: &[Round]| Spread::of(&rounds.iter().map(|round| round.cpu).collect::<Vec<_>>()).median;
    report::goals(&[
        Goal::at_least("joins/s, required", 200.0, rate),
        Goal::at_least("joins/s, the goal", 500.0, rate),
        Goal::at_most("ms of a join, p99", 500.0, p99.as_secs_f64() * 1_000.0),
        Goal::at_most("CPU per join ÷ prosody's", 1.0, cpu(&ours) / cpu(&theirs)),
    ]);
    Ok(())
}

/// What was found in one round.
pub(super) struct Round {
    rate: f64,
    /// Milliseconds of the server's time per join.
    cpu: f64,
    lags: Vec<Duration>,
}

impl Round {
    /// Measures `JOINS` joins, `AT_ONCE` of them at the same time; they stay until all are there.
    async fn measure<F, T>(pid: u32, join: impl Fn(usize) -> F) -> Result<Self>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (used, start) = (of_process(pid).unwrap_or(0), Moment::now());
        let lags = Arc::new(Mutex::new(Vec::with_capacity(JOINS)));
        let (mut under_way, mut stay, mut next) = (JoinSet::new(), Vec::with_capacity(JOINS), 0);
        while stay.len() < JOINS {
            while next < JOINS && under_way.len() < AT_ONCE {
                let (joining, lags) = (join(next), lags.clone());
                next += 1;
                under_way.spawn(async move {
                    let began = Moment::now();
                    let joined = joining.await?;
                    lags.lock().push(began.passed());
                    anyhow::Ok(joined)
                });
            }
            if let Some(joined) = under_way.join_next().await {
                stay.push(joined??);
            }
        }
        let took = start.passed().as_secs_f64();
        let ticks = of_process(pid).unwrap_or(0).saturating_sub(used);
        let lags = std::mem::take(&mut *lags.lock());
        Ok(Self { rate: JOINS as f64 / took, cpu: ticks as f64 / TICKS * 1_000.0 / JOINS as f64, lags })
    }
}

async fn meetings(site: &BenchServer, round: usize) -> Result<Round> {
    let meetings: Vec<Meeting> = site.meetings(JOINS / SEATS).await?;
    let doors: Vec<_> =
        (0..JOINS).map(|n| site.seat(&meetings[n / SEATS], round * JOINS + n)).collect::<Result<_>>()?;
    let dialer = Arc::new(dialer()?);
    let measured = Round::measure(site.pid(), |n| enter(doors[n].clone(), dialer.clone(), 0)).await?;
    // Those of the last round are away before the next begins.
    crate::clock::pause(Duration::from_secs(1)).await;
    Ok(measured)
}

async fn rooms(prosody: &Prosody, round: usize) -> Result<Round> {
    let measured = Round::measure(prosody.pid(), |n| prosody.join(round, n, n / SEATS)).await?;
    crate::clock::pause(Duration::from_secs(1)).await;
    Ok(measured)
}
