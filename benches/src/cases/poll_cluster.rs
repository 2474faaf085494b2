//! Coordination cost of ten nodes that share ten thousand targets over one Redis, and the moves caused by a join.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tenure_lease::{Store, Verb, Watched};
use tenure_poller::{Node, Settings};
use tenure_store::Metered;
use tenure_testkit::{RedisServer, RespClient};

use super::Bench;
use crate::clock::{Moment, cpu, pause};
use crate::machine::{Others, TICKS, of_process};
use crate::report::{self, Goal};

const TARGETS: usize = 10_000;
const NODES: usize = 10;
/// Timeout of a step.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("poll-cluster: 10,000 targets on 10 nodes over one Redis");
    let others = Others::watch();
    let recorder =
        PrometheusBuilder::new().install_recorder().context("cannot install the metrics recorder")?;
    let server = RedisServer::start()?;
    write_targets(&mut server.client()?)?;
    let seconds = (bench.seconds * bench.rounds as u64).max(30);
    bench.runtime.block_on(measure(&server, &recorder, seconds))?;
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[server.pid()])));
    Ok(())
}

/// Targets that are due once a day, so that polls do not count.
fn write_targets(client: &mut RespClient) -> Result<()> {
    for i in 0..TARGETS {
        let record = "{\"address\":\"http://127.0.0.1:9/\",\"intervalMs\":86400000}";
        client.command(&["SET", &format!("session:target-{i}"), record])?;
    }
    Ok(())
}

async fn measure(server: &RedisServer, recorder: &PrometheusHandle, seconds: u64) -> Result<()> {
    let start = Moment::now();
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(node(server).await?);
    }
    until("all targets are assigned", &nodes, &[TARGETS / NODES; NODES]).await?;
    let shared = start.passed();
    // Wait for the first polls, which fail, and for the last moves.
    pause(Duration::from_secs(25)).await;
    let settings = Settings::default();
    let before = (cpu(), ticks(server), renews(recorder), Moment::now());
    pause(Duration::from_secs(seconds)).await;
    let passed = before.3.passed().as_secs_f64();
    let ours = (cpu() - before.0).as_secs_f64() / passed;
    let redis = (ticks(server) - before.1) as f64 / TICKS / passed;
    let intervals = passed / settings.renew_interval.as_secs_f64() * NODES as f64;
    let trips = (renews(recorder) - before.2) / intervals;
    let joined = join(server, nodes, &settings).await?;
    let rows = [
        ("from the first start to an even distribution", format!("{:.1} s", shared.as_secs_f64())),
        ("CPU of the ten nodes", format!("{:.2} % of a core", ours * 100.0)),
        ("CPU of Redis", format!("{:.2} % of a core", redis * 100.0)),
        ("renewal calls per node and interval, 1,000 leases each", format!("{trips:.2}")),
        ("moves after the join of an eleventh node", joined.moves.to_string()),
        ("from its start to an even distribution", format!("{:.1} s", joined.took.as_secs_f64())),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(what, found)| vec![what.to_owned(), found]).collect();
    report::table(&["what", "found"], &rows);
    let share = TARGETS as f64 / (NODES + 1) as f64;
    report::goals(&[
        Goal::at_most("renewal calls per node, interval and 1,000 leases", 1.0, trips),
        Goal::at_most("coordination, nodes and Redis together, % of a core", 5.0, (ours + redis) * 100.0),
        Goal::at_most("moves of a join ÷ K/N", 1.3, joined.moves as f64 / share),
        Goal::at_most(
            "discovery intervals until the join is balanced",
            2.0,
            joined.took.as_secs_f64() / settings.discovery_interval.as_secs_f64(),
        ),
    ]);
    for node in joined.nodes {
        node.stop().await;
    }
    Ok(())
}

struct Joined {
    nodes: Vec<Node>,
    moves: usize,
    took: Duration,
}

/// Starts one more node and counts the moves until it owns its share.
async fn join(server: &RedisServer, mut nodes: Vec<Node>, settings: &Settings) -> Result<Joined> {
    let store = tenure_store::Store::open(&super::store_url(server)).await?;
    let mut watch = store.watch(&tenure_lease::Prefix::new("poll:lease:")?, None).await?;
    let start = Moment::now();
    nodes.push(node(server).await?);
    let (low, more) = (TARGETS / (NODES + 1), TARGETS % (NODES + 1));
    let mut loads = vec![low; NODES + 1 - more];
    loads.extend(vec![low + 1; more]);
    until("the new node owns its share", &nodes, &loads).await?;
    let took = start.passed();
    pause(settings.discovery_interval).await;
    let mut moves = 0;
    while let Ok(Ok(watched)) = soon(watch.next()).await {
        match watched {
            Watched::Event(event) => moves += usize::from(event.verb == Verb::Granted),
            Watched::Lagged => bail!("the watch lagged"),
        }
    }
    Ok(Joined { nodes, moves, took })
}

/// The next event within a second.
async fn soon<T>(work: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = pause(Duration::from_secs(1)) => bail!("no event"),
    }
}

async fn node(server: &RedisServer) -> Result<Node> {
    let store = tenure_store::Store::open(&super::store_url(server)).await?;
    let store: Arc<dyn Store> = Arc::new(Metered::new(store));
    Ok(Node::start(store, Settings::default())?)
}

/// Waits until the first node sees these loads.
async fn until(what: &str, nodes: &[Node], loads: &[usize]) -> Result<()> {
    let start = Moment::now();
    loop {
        let snapshot = nodes[0].snapshot();
        let mut found: Vec<usize> = snapshot.nodes.iter().map(|node| node.targets.len()).collect();
        found.sort_unstable();
        if found == loads {
            return Ok(());
        }
        if start.passed() > PATIENCE {
            let names: BTreeMap<_, _> =
                snapshot.nodes.iter().map(|n| (&n.instance, n.targets.len())).collect();
            bail!("timed out before {what}: {names:?}");
        }
        pause(Duration::from_millis(200)).await;
    }
}

fn ticks(server: &RedisServer) -> u64 {
    of_process(server.pid()).unwrap_or_default()
}

/// Renewal calls of all nodes so far.
fn renews(recorder: &PrometheusHandle) -> f64 {
    let text = recorder.render();
    let counts = text.lines().filter(|line| line.starts_with("tenure_store_ops_total{verb=\"renew\""));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
