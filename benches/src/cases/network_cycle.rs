//! Durable cycles over the network against etcd and ZooKeeper.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tenure_store::Store;
use tenure_testkit::EtcdServer;
use tokio::sync::Mutex;

use super::Bench;
use crate::callers::{cycles, together};
use crate::contest::{Outcome, Side, contest};
use crate::machine::{Others, TICKS, of_process};
use crate::numbers::short;
use crate::peers::tenure::Up;
use crate::peers::{etcd, zookeeper};
use crate::report::{self, Goal};

/// Longer slices, because three servers alternate.
const SLICE: Duration = Duration::from_millis(400);
/// Numbers of clients, each with its goal as a multiple of etcd's rate.
const LEVELS: [(usize, f64); 3] = [(1, 2.0), (16, 4.0), (128, 6.0)];

/// Warm-up of ZooKeeper before each number of clients.
const WARM_UP: Duration = Duration::from_secs(3);

/// The servers of one case.
struct Servers {
    tenure: Up,
    etcd: EtcdServer,
    zookeeper: zookeeper::Server,
}

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("network-cycle: durable acquire + release over the network");
    let others = Others::watch();
    let (ours, theirs, zoo) = (bench.folder("tenure")?, bench.folder("etcd")?, bench.folder("zookeeper")?);
    let servers = Servers {
        tenure: Up::start(ours.path(), None)?,
        etcd: EtcdServer::builder().dir(theirs.path()).start()?,
        zookeeper: zookeeper::Server::start(zoo.path())?,
    };
    let mut goals = Vec::new();
    for (clients, want) in LEVELS {
        goals.extend(level(bench, &servers, clients, want)?);
    }
    report::goals(&goals);
    let pids = [servers.tenure.pid(), servers.etcd.pid(), servers.zookeeper.pid()];
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&pids)));
    Ok(())
}

/// Compares the servers with one number of clients.
fn level(bench: &Bench<'_>, servers: &Servers, count: usize, want: f64) -> Result<Vec<Goal>> {
    let Servers { tenure, etcd: server, zookeeper } = servers;
    let (owned, shared, one, many, zoo) = bench.runtime.block_on(async {
        let owned = tenure.clients(count).await?;
        let shared = tenure.client().await?;
        let one = etcd::clients(&server.endpoint(), count, 1).await?;
        let many = etcd::clients(&server.endpoint(), count, count).await?;
        let zoo: Vec<_> =
            zookeeper.clients(count).await?.into_iter().map(|client| Arc::new(Mutex::new(client))).collect();
        anyhow::Ok((owned, vec![shared; count], one, many, zoo))
    })?;
    let work = |stores: &Vec<Store>, slice| {
        together(bench.runtime, count, slice, |me, until| cycles(stores[me].clone(), me, until))
    };
    let etcd = |clients: &Vec<etcd::Client>, slice| {
        together(bench.runtime, count, slice, |me, until| clients[me].clone().cycles(until))
    };
    let zookeeper = |slice| {
        together(bench.runtime, count, slice, |me, until| {
            let client = zoo[me].clone();
            async move { client.lock().await.cycles(until).await }
        })
    };
    // The JIT compiler of the JVM needs it.
    zookeeper(WARM_UP)?;
    report::line(&format!("{count} clients: {}.\n", cost(tenure, |slice| work(&owned, slice))?));
    let mut sides = vec![
        Side::new("Tenure, one connection per client", |slice| work(&owned, slice)),
        Side::new("etcd, 1 connection", |slice| etcd(&one, slice)),
        Side::new("ZooKeeper, one connection per client", zookeeper),
    ];
    if count > 1 {
        sides.push(Side::new("etcd, one connection per client", |slice| etcd(&many, slice)));
        sides.push(Side::new("Tenure, one shared client", |slice| work(&shared, slice)));
    }
    let outcome = contest(bench.plan(SLICE, true), &mut sides)?;
    report::outcome("cycles", &sides, &outcome);
    Ok(goals(&outcome, count, want))
}

/// The CPU time of the server per cycle.
fn cost(tenure: &Up, mut work: impl FnMut(Duration) -> Result<u64>) -> Result<String> {
    work(Duration::from_millis(200))?;
    let before = of_process(tenure.pid()).unwrap_or(0);
    let done = work(Duration::from_secs(1))?.max(1);
    let ticks = of_process(tenure.pid()).unwrap_or(0).saturating_sub(before);
    let each = Duration::from_secs_f64(ticks as f64 / TICKS / done as f64);
    Ok(format!("server CPU per cycle: {}", short(each)))
}

/// Compares the better of one connection per client and shared connections on both sides. A stricter goal compares
/// Tenure with one connection per client with the peer's best.
fn goals(outcome: &Outcome, count: usize, want: f64) -> Vec<Goal> {
    let ratio = |side: usize| outcome.ratios.get(side).map_or(f64::INFINITY, |ratio| ratio.median);
    let etcd = ratio(1).min(ratio(3));
    // The rate on shared connections relative to one connection per client.
    let shared = 1.0 / ratio(4).min(1.0);
    let mut goals = Vec::new();
    let mut goal = |peer: &str, want: f64, owned: f64| {
        let what = format!("cycles ÷ {peer}, {count} clients");
        goals.push(Goal::at_least(what.clone(), want, owned * shared).in_contest(outcome));
        if count > 1 {
            let what = format!("stricter: {what}, Tenure with one connection per client");
            goals.push(Goal::at_least(what, want, owned).in_contest(outcome));
        }
    };
    goal("etcd's best", want, etcd);
    if count == 128 {
        goal("ZooKeeper's", 2.0, ratio(2));
    }
    goals
}
