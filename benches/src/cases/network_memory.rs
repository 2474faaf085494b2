//! Server memory per held lease.

use std::time::Duration;

use anyhow::{Result, bail};
use tenure_lease::{Acquired, Claim, Holder, Key, Token, Ttl};
use tenure_store::{OsEntropy, Store};
use tenure_testkit::RedisServer;

use super::Bench;
use crate::callers::together;
use crate::clock::nap;
use crate::machine::{of_process, resident_of};
use crate::peers::recipe::{Hand, Recipe};
use crate::peers::tenure::Up;
use crate::report::{self, Goal};

const LEASES: usize = 100_000;
const CALLERS: usize = 64;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("network-memory: {LEASES} held leases"));
    let disk = bench.folder("tenure")?;
    let up = Up::start(disk.path(), None)?;
    let store = bench.runtime.block_on(up.client())?;
    let ours = measured(up.pid(), |from| {
        together(bench.runtime, CALLERS, Duration::ZERO, |me, _| fill(store.clone(), from + me)).map(drop)
    })?;
    let mut found = vec![("Tenure, durable", ours)];
    for (name, recipe) in
        [("Redis, SET NX PX", Recipe::Bare), ("Redis, SET NX PX and a generation", Recipe::Minting)]
    {
        let server = RedisServer::start()?;
        let hand = bench.runtime.block_on(Hand::connect(&server.url(), 1))?;
        let fill = |from| bench.runtime.block_on(hand.fill(recipe, from..from + LEASES));
        found.push((name, measured(server.pid(), fill)?));
    }
    let row = |name: &str, bytes: Bytes| {
        let ratio = |of: f64, to: f64| format!("{:.2}", of / to);
        vec![
            name.to_owned(),
            format!("{:.0}", bytes.first),
            ratio(ours.first, bytes.first),
            format!("{:.0}", bytes.second),
            ratio(ours.second, bytes.second),
        ]
    };
    let rows: Vec<_> = found.iter().map(|(name, bytes)| row(name, *bytes)).collect();
    let head =
        ["server", "bytes per lease, first 100,000", "Tenure ÷ this", "second 100,000", "Tenure ÷ this"];
    report::table(&head, &rows);
    let goal = |what: &str, ours: f64, theirs: f64| {
        Goal::at_most(format!("{what}: bytes per lease ÷ Redis"), 1.5, ours / theirs)
    };
    report::goals(&[
        goal("first 100,000, no generation", ours.first, found[1].1.first),
        goal("first 100,000, with a generation", ours.first, found[2].1.first),
        goal("stricter: second 100,000, no generation", ours.second, found[1].1.second),
        goal("stricter: second 100,000, with a generation", ours.second, found[2].1.second),
    ]);
    Ok(())
}

/// Bytes per lease, with one-time allocations such as the buffer of events for watchers (first), and without (second).
#[derive(Clone, Copy)]
struct Bytes {
    first: f64,
    second: f64,
}

/// Growth of a process per lease, measured once it is idle again.
fn measured(pid: u32, mut work: impl FnMut(usize) -> Result<()>) -> Result<Bytes> {
    let start = quiet(pid)?;
    work(0)?;
    let middle = quiet(pid)?;
    work(LEASES)?;
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / LEASES as f64;
    Ok(Bytes { first: each(start, middle), second: each(middle, quiet(pid)?) })
}

/// Resident bytes once the process is idle.
fn quiet(pid: u32) -> Result<u64> {
    for _ in 0..100 {
        let before = of_process(pid);
        nap(Duration::from_millis(200));
        if of_process(pid) == before {
            break;
        }
    }
    resident_of(pid)
}

/// The same names in all servers.
pub(crate) fn name(i: usize) -> String {
    format!("fleet/{:03}/unit/{i:07}", i % 1_000)
}

async fn fill(store: Store, first: usize) -> Result<u64> {
    let holder = Holder::new(format!("worker-{:05}", first % LEASES))?;
    let end = (first / LEASES + 1) * LEASES;
    for i in (first..end).step_by(CALLERS) {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(Key::new(name(i))?, holder.clone(), token, Ttl::from_secs(3_600)?);
        if let Acquired::Busy(busy) = store.acquire(claim).await? {
            bail!("{} is busy: {busy:?}", name(i));
        }
    }
    Ok(0)
}
