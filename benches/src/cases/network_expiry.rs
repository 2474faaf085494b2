//! A dead holder: the delay between the end of its TTL and the grant to the next waiter.

use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::future::try_join_all;
use tenure_lease::{Acquired, Claim, Holder, Key, Token, Ttl};
use tenure_store::{OsEntropy, Store};

use super::Bench;
use crate::clock::{Moment, pause};
use crate::machine::Others;
use crate::numbers::{Lags, short};
use crate::peers::tenure::Up;
use crate::report::{self, Goal};

/// Keys per round, each with a dead holder and a waiter.
const KEYS: usize = 200;
const TTL: Duration = Duration::from_millis(1_000);
/// The interval between their expiries.
const APART: Duration = Duration::from_millis(5);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("network-expiry: from the end of a dead holder's TTL to the next grant");
    let others = Others::watch();
    let folder = bench.folder("tenure")?;
    let tenure = Up::start(folder.path(), None)?;
    let (dead, waiting) =
        bench.runtime.block_on(async { anyhow::Ok((tenure.client().await?, tenure.client().await?)) })?;
    let mut lags = Vec::new();
    for round in 0..bench.rounds {
        let one = |i| one(&dead, &waiting, round, i);
        lags.extend(bench.runtime.block_on(try_join_all((0..KEYS).map(one)))?);
    }
    let lags = Lags::new(lags);
    let at = |percent| short(lags.at(percent));
    report::table(
        &["dead holders", "p50", "p99", "max"],
        &[vec![lags.count().to_string(), at(50.0), at(99.0), at(100.0)]],
    );
    let ms = |percent| lags.at(percent).as_secs_f64() * 1e3;
    report::goals(&[
        Goal::at_most("grant after the TTL, p50, ms", 10.0, ms(50.0)),
        Goal::at_most("grant after the TTL, max, ms", 50.0, ms(100.0)),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[tenure.pid()])));
    Ok(())
}

/// The TTL counts from before the claim of the dead holder was sent, so the delay is never underestimated.
async fn one(dead: &Store, waiting: &Store, round: usize, i: usize) -> Result<Duration> {
    pause(APART * i as u32).await;
    let key = Key::new(format!("expiry/{round}/{i}"))?;
    let claim = |who: &str, ttl| {
        anyhow::Ok(Claim::new(key.clone(), Holder::new(who)?, Token::random(&OsEntropy), ttl))
    };
    let start = Moment::now();
    if let Acquired::Busy(busy) =
        dead.acquire(claim("dead", Ttl::from_millis(TTL.as_millis() as u64)?)?).await?
    {
        bail!("{key} is busy: {busy:?}");
    }
    let next = claim("next", Ttl::from_secs(30)?)?.waiting(Duration::from_secs(30));
    match waiting.acquire(next).await? {
        Acquired::Granted(_) => Ok(Moment::now().since(start.plus(TTL))),
        Acquired::Busy(busy) => bail!("{key} was not granted: {busy:?}"),
    }
}
