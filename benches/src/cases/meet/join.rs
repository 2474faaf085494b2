//! Joins: handshake, CONNECT, JoinRequest to JoinResponse, with the seat persisted before the response.

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

/// Joins in one round.
const JOINS: usize = 600;
/// Seats of one meeting.
const SEATS: usize = 10;
/// Concurrent joins.
const AT_ONCE: usize = 32;

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("meet-join: {JOINS} joins, {AT_ONCE} concurrent, meetings of {SEATS}"));
    let others = Others::watch();
    let server = BenchServer::start(bench)?;
    let prosody = Prosody::start(bench)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        ours.push(bench.runtime.block_on(meetings(&server, round))?);
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
        &["server", "joins/s, median [min–max]", "p50", "p99", "server CPU per join"],
        &[row("Tenure, QUIC, persisted in Redis", &ours), row("prosody MUC, TLS + SASL, in memory", &theirs)],
    );
    report::line(&format!(
        "Other work used {:.0} % of the cores.",
        others.share(&[server.pid(), server.redis.pid(), prosody.pid()])
    ));
    let rate = Spread::of(&ours.iter().map(|round| round.rate).collect::<Vec<_>>()).median;
    let p99 = Lags::new(ours.iter().flat_map(|round| round.lags.iter().copied()).collect()).at(99.0);
    let cpu = |rounds: &[Round]| Spread::of(&rounds.iter().map(|round| round.cpu).collect::<Vec<_>>()).median;
    report::goals(&[
        Goal::at_least("joins/s, required", 200.0, rate),
        Goal::at_least("joins/s", 500.0, rate),
        Goal::at_most("join, p99, ms", 500.0, p99.as_secs_f64() * 1_000.0),
        Goal::at_most("CPU per join ÷ prosody's", 1.0, cpu(&ours) / cpu(&theirs)),
    ]);
    Ok(())
}

/// The result of one round.
pub(super) struct Round {
    rate: f64,
    /// CPU time of the server per join, in milliseconds.
    cpu: f64,
    lags: Vec<Duration>,
}

impl Round {
    /// Measures `JOINS` joins, `AT_ONCE` at a time. Participants stay until all have joined.
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

async fn meetings(server: &BenchServer, round: usize) -> Result<Round> {
    let meetings: Vec<Meeting> = server.meetings(JOINS / SEATS).await?;
    let joins: Vec<_> =
        (0..JOINS).map(|n| server.seat(&meetings[n / SEATS], round * JOINS + n)).collect::<Result<_>>()?;
    let dialer = Arc::new(dialer()?);
    let measured = Round::measure(server.pid(), |n| enter(joins[n].clone(), dialer.clone(), 0)).await?;
    // The participants of a round have left before the next begins.
    crate::clock::pause(Duration::from_secs(1)).await;
    Ok(measured)
}

async fn rooms(prosody: &Prosody, round: usize) -> Result<Round> {
    let measured = Round::measure(prosody.pid(), |n| prosody.join(round, n, n / SEATS)).await?;
    crate::clock::pause(Duration::from_secs(1)).await;
    Ok(measured)
}
