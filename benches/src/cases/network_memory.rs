//! What a held lease takes in a server's memory.

use std::time::Duration;

use anyhow::{Result, bail};
use lease::{Acquired, Claim, Holder, Key, Token, Ttl};
use lease_store::{OsEntropy, Store};
use testkit::RedisServer;

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
    let ours = measured(up.pid(), || {
        together(bench.runtime, CALLERS, Duration::ZERO, |me, _| fill(store.clone(), me)).map(drop)
    })?;
    let mut found = vec![("Tenure, durable", ours)];
    for (name, recipe) in [("Redis, SET NX PX", Recipe::Bare), ("Redis, and a generation", Recipe::Minting)] {
        let server = RedisServer::start()?;
        let hand = bench.runtime.block_on(Hand::connect(&server.url(), 1))?;
        let bytes = measured(server.pid(), || bench.runtime.block_on(hand.fill(recipe, LEASES)))?;
        found.push((name, bytes));
    }
    let rows: Vec<_> = found
        .iter()
        .map(|(name, bytes)| vec![(*name).to_owned(), format!("{bytes:.0}"), format!("{:.2}", ours / bytes)])
        .collect();
    report::table(&["server", "bytes resident per lease", "Tenure ÷ this"], &rows);
    report::goals(&[
        Goal::at_most("bytes per lease ÷ Redis', no generation", 1.5, ours / found[1].1),
        Goal::at_most("bytes per lease ÷ Redis', with a generation", 1.5, ours / found[2].1),
    ]);
    Ok(())
}

/// Bytes that a process grows by, per lease, until it is quiet again.
fn measured(pid: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = quiet(pid)?;
    work()?;
    Ok(quiet(pid)?.saturating_sub(before) as f64 / LEASES as f64)
}

/// Resident bytes once the process does nothing any more.
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

async fn fill(store: Store, me: usize) -> Result<u64> {
    let holder = Holder::new(format!("worker-{me:05}"))?;
    for i in (me..LEASES).step_by(CALLERS) {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(Key::new(name(i))?, holder.clone(), token, Ttl::from_secs(3_600)?);
        if let Acquired::Busy(busy) = store.acquire(claim).await? {
            bail!("{} is busy: {busy:?}", name(i));
        }
    }
    Ok(0)
}
