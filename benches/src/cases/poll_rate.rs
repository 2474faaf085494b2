//! Polls per second of one node on one core.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_lease::{Key, Op, Store};
use tenure_poller::{Node, Settings};
use tenure_store::Local;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::Bench;
use crate::clock::{Moment, pause, thread_cpu};
use crate::machine::Others;
use crate::report::{self, Goal};

const TARGETS: usize = 10_000;
/// Twice the wanted rate is due, so that the node is the limit and not the schedule.
const INTERVAL_MS: u64 = 500;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"value\":1}";

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("poll-rate: polls of one node on one core");
    let others = Others::watch();
    let (addr, _server) = bench.runtime.block_on(serve())?;
    // The runtime of the node has one thread, whose CPU time is the CPU time of the node.
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot build a runtime")?;
    let time = Duration::from_secs(bench.seconds.max(4) * bench.rounds as u64);
    let mut rows = Vec::new();
    let mut best = (0.0, 0.0);
    for (name, only_changes) in [("only changes stored", true), ("every result stored", false)] {
        let (rate, cpu) = runtime.block_on(measure(addr, only_changes, time))?;
        if only_changes {
            best = (rate, cpu);
        }
        rows.push(vec![
            name.into(),
            format!("{rate:.0}"),
            format!("{:.0} %", cpu * 100.0),
            format!("{:.0}", rate / cpu),
            format!("{:.1} µs", cpu / rate * 1e6),
        ]);
    }
    report::line(&format!(
        "{TARGETS} targets, due every {INTERVAL_MS} ms; memory engine, persistent HTTP/1.1 connections, responses of 11 bytes.\n"
    ));
    report::table(
        &["results", "polls/s", "share of a core", "polls per second of CPU", "CPU per poll"],
        &rows,
    );
    report::goals(&[
        Goal::at_least("polls per second of one thread", 10_000.0, best.0),
        Goal::at_least("polls per second of one core's CPU", 10_000.0, best.0 / best.1),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}

async fn measure(addr: std::net::SocketAddr, only_changes: bool, time: Duration) -> Result<(f64, f64)> {
    let store: Arc<dyn Store> = Arc::new(Local::memory());
    for part in 0..TARGETS / 50 {
        let ops: Vec<Op> = (0..50).map(|i| target(addr, part * 50 + i)).collect::<Result<_>>()?;
        store.commit(&ops).await?;
    }
    let refresh = Duration::from_secs(3_600);
    let settings = Settings { only_changes, refresh, max_in_flight: 1_024, ..Settings::default() };
    let node = Node::start(store, settings)?;
    // Wait for discovery, acquisition, the first polls and their connections.
    pause(Duration::from_secs(12)).await;
    let (before, cpu, start) = (polls(&node), thread_cpu(), Moment::now());
    pause(time).await;
    let (passed, polls) = (start.passed().as_secs_f64(), polls(&node) - before);
    let cpu = (thread_cpu() - cpu).as_secs_f64();
    node.stop().await;
    Ok((polls as f64 / passed, cpu / passed))
}

fn target(addr: std::net::SocketAddr, i: usize) -> Result<Op> {
    let value = format!("{{\"address\":\"http://{addr}/{i}\",\"intervalMs\":{INTERVAL_MS}}}");
    Ok(Op::Put { key: Key::new(format!("session:t{i}"))?, value: value.into_bytes().into(), ttl: None })
}

fn polls(node: &Node) -> u64 {
    node.snapshot().nodes.iter().flat_map(|node| &node.targets).filter_map(|target| target.polls).sum()
}

/// A minimal HTTP server: it reads request heads and writes a fixed response to each.
async fn serve() -> Result<(std::net::SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut buffer = Vec::with_capacity(2_048);
                while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if buffer.ends_with(b"\r\n\r\n") {
                        buffer.clear();
                        if stream.write_all(ANSWER).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    Ok((addr, tasks))
}
