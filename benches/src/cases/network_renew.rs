//! Renewals over one keep-alive stream against etcd's and against pipelines of Redis scripts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tenure_lease::{Renewal, Ttl};
use tenure_testkit::{EtcdServer, RedisServer};

use super::Bench;
use crate::callers::{Batches, acquire_all, renewals, together};
use crate::clock::Until;
use crate::contest::{Outcome, Side, contest};
use crate::machine::Others;
use crate::peers::etcd;
use crate::peers::recipe::Hand;
use crate::peers::tenure::Up;
use crate::report::{self, Goal};

const LEASES: usize = 10_000;
const BATCH: usize = 1_000;
const DEPTH: usize = 100;
const SLICE: Duration = Duration::from_millis(400);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("network-renew: {LEASES} leases over the network"));
    let others = Others::watch();
    let (ours, theirs) = (bench.folder("tenure")?, bench.folder("etcd")?);
    let tenure = Up::start(ours.path(), None)?;
    let server = EtcdServer::builder().dir(theirs.path()).start()?;
    let redis = RedisServer::start()?;
    let (store, held, streams, ids, hand, recipes) = bench.runtime.block_on(async {
        let store = tenure.client().await?;
        let held: Arc<[Renewal]> = acquire_all(&store, "renew", LEASES, Ttl::from_secs(3_600)?).await?.into();
        let streams = etcd::clients(&server.endpoint(), 4, 4).await?;
        let ids: Arc<[i64]> = streams[0].grant_all(LEASES).await?.into();
        let hand = Arc::new(Hand::connect(&redis.url(), 4).await?);
        let recipes: Arc<[_]> = hand.acquire_all(LEASES).await?.into();
        anyhow::Ok((store, held, streams, ids, hand, recipes))
    })?;
    let batch = |size| {
        let (store, held) = (store.clone(), held.clone());
        let batches = Batches::of(size);
        move |slice| bench.runtime.block_on(renewals(&store, &held, &batches, Until::after(slice)))
    };
    // Two batches in flight: the server processes one while the other is written or read.
    let pair = || {
        let batches: Arc<[_]> = (0..2).map(|_| Batches::of(BATCH)).collect();
        let (store, held) = (store.clone(), held.clone());
        move |slice| {
            together(bench.runtime, 2, slice, |me, until| {
                let (store, held, batches) = (store.clone(), held.clone(), batches.clone());
                async move { renewals(&store, &held[part(me, 2)], &batches[me], until).await }
            })
        }
    };
    let keep = |count: usize| {
        let (streams, ids) = (streams.clone(), ids.clone());
        let places: Arc<[_]> = (0..count).map(|_| Batches::of(1)).collect();
        move |slice| {
            together(bench.runtime, count, slice, |me, until| {
                let (stream, ids, places) = (streams[me].clone(), ids.clone(), places.clone());
                async move { stream.keep_alive(&ids[part(me, count)], &places[me], until).await }
            })
        }
    };
    let pipes = |count: usize| {
        let (hand, recipes) = (hand.clone(), recipes.clone());
        let batches: Arc<[_]> = (0..count).map(|_| Batches::of(DEPTH)).collect();
        move |slice| {
            together(bench.runtime, count, slice, |me, until| {
                let (hand, recipes, batches) = (hand.clone(), recipes.clone(), batches.clone());
                async move { hand.renewals(&recipes[part(me, count)], &batches[me], me, until).await }
            })
        }
    };
    let mut sides = [
        Side::new("Tenure, one stream, 2 batches of 1,000", pair()),
        Side::new("Tenure, one stream, a batch of 1,000", batch(BATCH)),
        Side::new("Tenure, one stream, a batch of 100", batch(DEPTH)),
        Side::new("etcd keep-alive, 1 stream", keep(1)),
        Side::new("etcd keep-alive, 4 streams", keep(4)),
        Side::new("Redis, pipelines of 100, 1 connection", pipes(1)),
        Side::new("Redis, pipelines of 100, 4 connections", pipes(4)),
    ];
    let outcome = contest(bench.plan(SLICE, false), &mut sides)?;
    report::outcome("renewals", &sides, &outcome);
    report::goals(&goals(&outcome));
    let pids = [tenure.pid(), server.pid(), redis.pid()];
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&pids)));
    Ok(())
}

/// The sides after Tenure are two of etcd and two of Redis.
fn goals(outcome: &Outcome) -> [Goal; 2] {
    let best = |of: [usize; 2]| outcome.ratios[of[0]].median.min(outcome.ratios[of[1]].median);
    [
        Goal::at_least("renewals ÷ etcd's best", 10.0, best([3, 4])).in_contest(outcome),
        Goal::at_least("renewals ÷ the best Redis pipeline", 1.0, best([5, 6])).in_contest(outcome),
    ]
}

/// The share of one caller among several.
fn part(me: usize, callers: usize) -> std::ops::Range<usize> {
    me * LEASES / callers..(me + 1) * LEASES / callers
}
