//! Cycles over Redis against hand-written recipes.

use std::time::Duration;

use anyhow::Result;
use tenure_store::Store;
use tenure_testkit::RedisServer;

use super::Bench;
use super::served::Served;
use crate::callers::{CALLERS, cycles, together};
use crate::contest::{Side, contest};
use crate::machine::Others;
use crate::peers::recipe::{Hand, Recipe};
use crate::report::{self, Goal};

const SLICE: Duration = Duration::from_millis(50);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("redis-cycle: acquire + release over Redis, {CALLERS} callers"));
    let others = Others::watch();
    let server = RedisServer::start()?;
    let (store, own, one, four) = bench.runtime.block_on(async {
        let store = Store::open(&super::store_url(&server)).await?;
        let url = server.url();
        let own = Hand::connect(&url, CALLERS).await?;
        anyhow::Ok((store, own, Hand::connect(&url, 1).await?, Hand::connect(&url, 4).await?))
    })?;
    let hand = |hand: &Hand, recipe| {
        let (hand, runtime) = (hand.clone(), bench.runtime);
        move |slice| together(runtime, CALLERS, slice, |me, until| hand.clone().cycles(recipe, me, until))
    };
    let ours = |slice| together(bench.runtime, CALLERS, slice, |me, until| cycles(store.clone(), me, until));
    report::table(
        &Served::HEAD,
        &[
            Served::by(&server, ours)?.row("Tenure"),
            Served::by(&server, hand(&own, Recipe::Bare))?.row("bare recipe, one connection per caller"),
            Served::by(&server, hand(&one, Recipe::Bare))?.row("bare recipe, 1 connection"),
            Served::by(&server, hand(&own, Recipe::Minting))?
                .row("minting recipe, one connection per caller"),
            Served::by(&server, hand(&one, Recipe::Minting))?.row("minting recipe, 1 connection"),
        ],
    );
    let mut sides = [
        Side::new("Tenure", ours),
        Side::new("bare recipe, one connection per caller", hand(&own, Recipe::Bare)),
        Side::new("bare recipe, 1 connection", hand(&one, Recipe::Bare)),
        Side::new("bare recipe, 4 connections", hand(&four, Recipe::Bare)),
        Side::new("minting recipe, one connection per caller", hand(&own, Recipe::Minting)),
        Side::new("minting recipe, 1 connection", hand(&one, Recipe::Minting)),
        Side::new("minting recipe, 4 connections", hand(&four, Recipe::Minting)),
    ];
    let outcome = contest(bench.plan(SLICE, false), &mut sides)?;
    report::outcome("cycles", &sides, &outcome);
    let against = |side: usize| outcome.ratios[side].median;
    report::goals(&[
        Goal::at_least("cycles ÷ the bare recipe, one connection per caller", 0.6, against(1))
            .in_contest(&outcome),
        Goal::at_least("cycles ÷ the minting recipe, one connection per caller", 0.8, against(4))
            .in_contest(&outcome),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[server.pid()])));
    Ok(())
}
