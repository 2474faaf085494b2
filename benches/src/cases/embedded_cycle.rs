//! Durable cycles of the embedded engine against etcd and against redb's group commit.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tenure_store::{Directory, Local, Options, Store};
use tenure_testkit::EtcdServer;

use super::Bench;
use crate::callers::{CALLERS, cycles, together};
use crate::clock::{Moment, Until, cpu};
use crate::contest::{Side, contest};
use crate::counting::Counting;
use crate::machine::Others;
use crate::numbers::{plain, short};
use crate::peers::etcd;
use crate::peers::group::Group;
use crate::report::{self, Goal};

/// Longer slices, because two servers alternate, and so that each contains a checkpoint.
const SLICE: Duration = Duration::from_millis(400);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("embedded-cycle: durable acquire + release, {CALLERS} callers"));
    let others = Others::watch();
    let (ours, theirs, rows) = (bench.folder("cycle")?, bench.folder("etcd")?, bench.folder("redb")?);
    let server = EtcdServer::builder().dir(theirs.path()).start()?;
    let disk = Counting::new(Directory::new(ours.path()));
    let counts = disk.counts.clone();
    let (store, shared, owned) = bench.runtime.block_on(async {
        let store = Store::new(Local::open_on(Arc::new(disk), Options::default(), None).await?);
        let shared = etcd::clients(&server.endpoint(), CALLERS, 1).await?;
        let owned = etcd::clients(&server.endpoint(), CALLERS, CALLERS).await?;
        anyhow::Ok((store, shared, owned))
    })?;
    let embedded =
        |slice| together(bench.runtime, CALLERS, slice, |me, until| cycles(store.clone(), me, until));
    let etcd = |clients: &Vec<etcd::Client>, slice| {
        together(bench.runtime, CALLERS, slice, |me, until| clients[me].clone().cycles(until))
    };

    let batch = steady(bench, &counts, embedded)?;

    let mut sides = [
        Side::new("embedded", embedded),
        Side::new("etcd, 1 connection", |slice| etcd(&shared, slice)),
        Side::new("etcd, 128 connections", |slice| etcd(&owned, slice)),
    ];
    let against_etcd = contest(bench.plan(SLICE, true), &mut sides)?;
    report::outcome("cycles", &sides, &against_etcd);

    let mut group = Group::create(rows.path())?;
    let mut sides = [
        Side::new("embedded, changes", |slice| embedded(slice).map(|cycles| cycles * 2)),
        Side::new(format!("redb, {batch} rows per commit"), |slice| group.rows(batch, Until::after(slice))),
    ];
    let against_redb = contest(bench.plan(SLICE, true), &mut sides)?;
    report::outcome("changes", &sides, &against_redb);

    let best = against_etcd.ratios[1].median.min(against_etcd.ratios[2].median);
    report::goals(&[
        Goal::at_least("cycles ÷ etcd's best", 15.0, best).in_contest(&against_etcd),
        Goal::at_least("changes ÷ redb's group commit", 0.5, against_redb.ratios[1].median)
            .in_contest(&against_redb),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[server.pid()])));
    Ok(())
}

/// Measures how many changes one sync carries, in one long run; prints and returns it.
fn steady(
    bench: &Bench<'_>,
    counts: &crate::counting::Counts,
    mut embedded: impl FnMut(Duration) -> Result<u64>,
) -> Result<u64> {
    embedded(Duration::from_millis(500))?;
    let (start, used, before) = (Moment::now(), cpu(), counts.counts());
    let done = embedded(Duration::from_secs(bench.seconds))?;
    let (passed, used, after) = (start.passed(), cpu() - used, counts.counts());
    let (syncs, bytes) = (after.0 - before.0, after.1 - before.1);
    let per_sync = (2 * done) as f64 / syncs.max(1) as f64;
    report::line(&format!(
        "Alone for {}: {} cycles/s, {per_sync:.0} changes and {} bytes per sync, {} syncs/s, {} bytes of \
         journal and {} of CPU per cycle.\n",
        short(passed),
        plain(done as f64 / passed.as_secs_f64()),
        plain(bytes as f64 / syncs.max(1) as f64),
        plain(syncs as f64 / passed.as_secs_f64()),
        bytes / done.max(1),
        short(used / done.max(1) as u32),
    ));
    Ok((per_sync.round() as u64).max(1))
}
