//! Renewals of the embedded engine, in process, by one caller.

use std::time::Duration;

use anyhow::Result;
use tenure_lease::Ttl;
use tenure_store::{Local, Options, Store};

use super::Bench;
use crate::callers::{Batches, acquire_all, renewals, shuffled};
use crate::clock::Until;
use crate::contest::{Side, contest};
use crate::machine::Others;
use crate::peers::map::Map;
use crate::report::{self, Goal};

const LEASES: usize = 10_000;
const BATCH: usize = 1_000;
const SLICE: Duration = Duration::from_millis(20);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("embedded-renew: {LEASES} leases, one caller in process"));
    let others = Others::watch();
    let folder = bench.folder("renew")?;
    let (store, held) = bench.runtime.block_on(async {
        let store = Store::new(Local::open(folder.path(), Options::default()).await?);
        let held = acquire_all(&store, "renew", LEASES, Ttl::from_secs(3_600)?).await?;
        anyhow::Ok((store, shuffled(held)))
    })?;
    let map = Map::holding(&held);
    let ours = |batch| {
        let (store, held) = (&store, &held);
        let batch = Batches::of(batch);
        move |slice| bench.runtime.block_on(renewals(store, held, &batch, Until::after(slice)))
    };
    let peer = |batch| {
        let (map, held) = (&map, &held);
        let batch = Batches::of(batch);
        move |slice| map.renewals(held, &batch, Until::after(slice))
    };
    let plan = bench.plan(SLICE, false);
    let mut sides =
        [Side::new("embedded, batches of 1,000", ours(BATCH)), Side::new("locked map, one by one", peer(1))];
    let batched = contest(plan, &mut sides)?;
    report::outcome("renewals", &sides, &batched);
    let mut sides =
        [Side::new("embedded, one by one", ours(1)), Side::new("locked map, one by one", peer(1))];
    let single = contest(plan, &mut sides)?;
    report::outcome("renewals", &sides, &single);
    report::goals(&[
        Goal::at_least("renewals/s on one core, batches of 1,000", 2e6, batched.rates[0].median),
        Goal::at_least("renewals/s on one core, one by one", 2e6, single.rates[0].median),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}
