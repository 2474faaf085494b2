//! The control service: round trips, broadcasts, a render stream and the gate layer, compared with a bare server that
//! does the same I/O.

mod clients;
mod gate;
mod server;

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::machine::{Others, threads};
use crate::numbers::{Lags, short};
use crate::report::{self, Goal};
use clients::Crowd;
use server::{BenchServer, Kind};

/// Observers of commands, and of heartbeats.
const FEW: usize = 100;
const MANY: usize = 1_000;
/// Clients that send commands, each within the rate limit of a connection.
const CALLERS: usize = 8;
const HEARTBEATS: usize = 60;
const FPS: u32 = 240;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("control: commands, broadcasts and frames of the control service");
    let others = Others::watch();
    let mut goals = commands(bench)?;
    crowd(bench)?;
    goals.extend(heartbeats(bench)?);
    goals.extend(stream(bench)?);
    goals.extend(gate::run(bench)?);
    report::goals(&goals);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}

/// The latencies of the clients and the CPU time of the server.
struct Seen {
    lags: Lags,
    server: Duration,
}

impl Seen {
    fn row(&self, name: &str) -> Vec<String> {
        let per = self.server.div_f64(self.lags.count().max(1) as f64);
        let times = [50.0, 99.0, 100.0].map(|percent| short(self.lags.at(percent)));
        [vec![name.to_owned()], times.to_vec(), vec![short(per)]].concat()
    }
}

fn watch(work: impl FnOnce() -> Result<Lags>) -> Result<Seen> {
    let before = threads(server::THREADS)?;
    let lags = work()?;
    Ok(Seen { lags, server: threads(server::THREADS)?.saturating_sub(before) })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Latency of the owner's commands while a hundred observers are connected.
fn commands(bench: &Bench<'_>) -> Result<Vec<Goal>> {
    let seconds = bench.seconds * bench.rounds as u64;
    let seen = |kind| {
        let (server, mut received) = (BenchServer::start(kind, &[])?, 0.0);
        let seen = watch(|| {
            let (lags, rate) = bench.runtime.block_on(Crowd::owner(server.address, FEW, seconds))?;
            received = rate;
            Ok(lags)
        })?;
        anyhow::Ok((seen, received))
    };
    let ((ours, received), (bare, received_bare)) = (seen(Kind::Tenure)?, seen(Kind::Bare)?);
    report::line(&format!(
        "Command and response of the owner, 40/s for {seconds} s, {FEW} observers that receive {received:.1} messages/s each \
         (from the bare server {received_bare:.1}):\n"
    ));
    two_rows(&ours, &bare, "command");
    let ratio = |percent| ms(ours.lags.at(percent)) / ms(bare.lags.at(percent));
    Ok(vec![
        Goal::at_most("command of the owner, p99, ms", 2.0, ms(ours.lags.at(99.0))),
        Goal::at_most("command of the owner, p50 ÷ bare tokio's", 2.0, ratio(50.0)),
        Goal::at_most("command of the owner, p99 ÷ bare tokio's", 2.0, ratio(99.0)),
    ])
}

/// Many clients send commands while the lease is free.
fn crowd(bench: &Bench<'_>) -> Result<()> {
    let seen = |kind| {
        let server = BenchServer::start(kind, &[])?;
        watch(|| bench.runtime.block_on(Crowd::commands(server.address, CALLERS, FEW, bench.seconds)))
    };
    let (ours, bare) = (seen(Kind::Tenure)?, seen(Kind::Bare)?);
    report::line(&format!("The same, {CALLERS} clients at 40/s each while the lease is free:\n"));
    two_rows(&ours, &bare, "command");
    Ok(())
}

fn two_rows(ours: &Seen, bare: &Seen, unit: &str) {
    let spent = format!("server CPU per {unit}");
    report::table(&["side", "p50", "p99", "max", &spent], &[ours.row("Tenure"), bare.row("bare tokio")]);
}

fn heartbeats(bench: &Bench<'_>) -> Result<Vec<Goal>> {
    let seen = |kind| {
        let server = BenchServer::start(kind, &[])?;
        watch(|| bench.runtime.block_on(Crowd::heartbeats(server.address, MANY, HEARTBEATS)))
    };
    let (ours, bare) = (seen(Kind::Tenure)?, seen(Kind::Bare)?);
    report::line(&format!(
        "A heartbeat until the last of {MANY} observers has heard of it, {HEARTBEATS} times:\n"
    ));
    two_rows(&ours, &bare, "heartbeat");
    Ok(vec![
        Goal::at_most("heartbeat to 1,000 observers, p50, ms", 10.0, ms(ours.lags.at(50.0))),
        Goal::at_most(
            "heartbeat to 1,000 observers, p50 ÷ bare tokio's",
            2.0,
            ms(ours.lags.at(50.0)) / ms(bare.lags.at(50.0)),
        ),
    ])
}

fn stream(bench: &Bench<'_>) -> Result<Vec<Goal>> {
    let strip = std::net::UdpSocket::bind("127.0.0.1:0")?;
    strip.set_nonblocking(true)?;
    let server = BenchServer::start(Kind::Tenure, &[strip.local_addr()?])?;
    let seconds = bench.seconds.max(2) * 2;
    let before = threads(server::THREADS)?;
    let status = bench.runtime.block_on(Crowd::stream(server.address, FPS, seconds, &strip))?;
    let spent = threads(server::THREADS)?.saturating_sub(before);
    let share = spent.as_secs_f64() / seconds as f64 * 100.0;
    report::line(&format!(
        "{FPS} frames/s in and {} out over DDP for {seconds} s: {share:.1} % of a core; {}.\n",
        status.packets, status.counters
    ));
    Ok(vec![Goal::at_most("240 fps in and DDP out, % of a core", 5.0, share)])
}
