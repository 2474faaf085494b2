//! Renewals over Redis against a pipeline of scripts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tenure_lease::{Renewal, Ttl};
use tenure_store::Store;
use tenure_testkit::RedisServer;

use super::Bench;
use super::served::Served;
use crate::callers::{Batches, acquire_all, renewals, together};
use crate::contest::{Side, contest};
use crate::machine::Others;
use crate::peers::recipe::Hand;
use crate::report::{self, Goal};

const LEASES: usize = 10_000;
const BATCH: usize = 1_000;
const DEPTH: usize = 100;
const SLICE: Duration = Duration::from_millis(100);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("redis-renew: {LEASES} leases over Redis"));
    let others = Others::watch();
    let server = RedisServer::start()?;
    let (store, held, hand, theirs) = bench.runtime.block_on(async {
        let store = Store::open(&super::store_url(&server)).await?;
        let held: Arc<[Renewal]> = acquire_all(&store, "renew", LEASES, Ttl::from_secs(30)?).await?.into();
        let hand = Arc::new(Hand::connect(&server.url(), 4).await?);
        let theirs: Arc<[_]> = hand.acquire_all(LEASES).await?.into();
        anyhow::Ok((store, held, hand, theirs))
    })?;
    let ours = |callers: usize| {
        let (store, held) = (store.clone(), held.clone());
        let batches: Arc<[_]> = (0..callers).map(|_| Batches::of(BATCH)).collect();
        move |slice| {
            together(bench.runtime, callers, slice, |me, until| {
                let (store, held, batches) = (store.clone(), held.clone(), batches.clone());
                async move { renewals(&store, &held[part(me, callers)], &batches[me], until).await }
            })
        }
    };
    let pipes = |callers: usize| {
        let (hand, theirs) = (hand.clone(), theirs.clone());
        let batches: Arc<[_]> = (0..callers).map(|_| Batches::of(DEPTH)).collect();
        move |slice| {
            together(bench.runtime, callers, slice, |me, until| {
                let (hand, theirs, batches) = (hand.clone(), theirs.clone(), batches.clone());
                async move { hand.renewals(&theirs[part(me, callers)], &batches[me], me, until).await }
            })
        }
    };
    let (our_part, their_part) = (Served::by(&server, ours(1))?, Served::by(&server, pipes(1))?);
    let rows = [our_part.row("Tenure, 1 caller"), their_part.row("pipelines of 100, 1 connection")];
    report::table(&Served::HEAD, &rows);
    let mut sides = [
        Side::new("Tenure, 4 callers", ours(4)),
        Side::new("Tenure, 1 caller", ours(1)),
        Side::new("pipelines of 100, 1 connection", pipes(1)),
        Side::new("pipelines of 100, 4 connections", pipes(4)),
    ];
    let outcome = contest(bench.plan(SLICE, false), &mut sides)?;
    report::outcome("renewals", &sides, &outcome);
    report::goals(&[
        Goal::at_least(
            "renewals ÷ the best pipeline",
            0.8,
            outcome.ratios[2].median.min(outcome.ratios[3].median),
        )
        .in_contest(&outcome),
        Goal::at_least(
            "commands of the pipeline ÷ commands of Tenure",
            50.0,
            their_part.sent / our_part.sent,
        ),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[server.pid()])));
    Ok(())
}

/// The share of one caller among several.
fn part(me: usize, callers: usize) -> std::ops::Range<usize> {
    me * LEASES / callers..(me + 1) * LEASES / callers
}
