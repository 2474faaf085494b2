//! A million live leases in the embedded engine: memory, delay of expiry, renewals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tenure_lease::{
    Acquired, Claim, End, Generation, Holder, Key, Prefix, Renewal, Token, Ttl, Verb, Watched,
};
use tenure_store::{Local, Options, OsEntropy, Store};
use tokio::task::JoinSet;

use super::Bench;
use crate::callers::{Batches, renewal, renewals, shuffled};
use crate::clock::{Moment, Until, cpu, nap, pause};
use crate::contest::{Side, contest};
use crate::machine::{Others, resident};
use crate::numbers::{Lags, plain, short};
use crate::peers::map::Map;
use crate::report::{self, Goal};

const LEASES: usize = 1_000_000;
const FEW: usize = 1_000;
const BATCH: usize = 1_000;
const SLICE: Duration = Duration::from_millis(20);
/// Leases whose expiry is watched. Their TTLs are spread over this many milliseconds, from two seconds on.
const SAMPLE: usize = 10_000;
const SPREAD_MS: u64 = 5_000;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("embedded-million: {LEASES} live leases"));
    let others = Others::watch();
    let (folder, small) = (bench.folder("million")?, bench.folder("thousand")?);
    let (store, few) = bench.runtime.block_on(async {
        let store = Store::new(Local::open(folder.path(), Options::default()).await?);
        let few = Store::new(Local::open(small.path(), Options::default()).await?);
        anyhow::Ok((store, few))
    })?;

    let (generations, bytes) = fill(bench, &store)?;
    let held = many(generations)?;
    let in_order = held.clone();
    let held = shuffled(held);

    let quiet = expiry(bench, &store, &[])?;
    let busy = expiry(bench, &store, &held)?;
    let lag = |name: &str, lags: &Lags| {
        let at = |percent| short(lags.at(percent));
        vec![name.into(), lags.count().to_string(), at(50.0), at(99.0), at(100.0)]
    };
    report::table(
        &["delay from expiry to its event", "leases", "p50", "p99", "max"],
        &[lag("idle", &quiet), lag("while one caller renews", &busy)],
    );

    let handful = shuffled(bench.runtime.block_on(handful(&few))?);
    let work = |store, held| {
        let batch = Batches::of(BATCH);
        move |slice| bench.runtime.block_on(renewals(store, held, &batch, Until::after(slice)))
    };
    let (large, little) = (Map::holding(&in_order), Map::holding(&handful));
    let peer = |map, held| {
        let batch = Batches::of(BATCH);
        move |slice| Map::renewals(map, held, &batch, Until::after(slice))
    };
    let plan = bench.plan(SLICE, false);
    let mut sides = [
        Side::new("1,000,000 leases, in order", work(&store, &in_order)),
        Side::new("1,000,000 leases, random order", work(&store, &held)),
        Side::new("1,000 leases, random order", work(&few, &handful)),
        Side::new("locked map of 1,000,000, in order", peer(&large, &in_order)),
        Side::new("locked map of 1,000,000, random order", peer(&large, &held)),
        Side::new("locked map of 1,000, random order", peer(&little, &handful)),
    ];
    let batched = contest(plan, &mut sides)?;
    report::outcome("renewals", &sides, &batched);
    let share =
        |of: usize, at_thousand: usize| plain(batched.rates[of].median / batched.rates[at_thousand].median);
    report::line(&format!(
        "Relative to 1,000 leases: {} in random order; the locked map {} in order and {} in random order.",
        share(1, 2),
        share(3, 5),
        share(4, 5),
    ));
    report::goals(&[
        Goal::at_most("resident bytes per lease", 400.0, bytes),
        Goal::at_most("expiry delay, idle, p99, ms", 50.0, quiet.at(99.0).as_secs_f64() * 1e3),
        Goal::at_most("expiry delay, renewing, p99, ms", 50.0, busy.at(99.0).as_secs_f64() * 1e3),
        Goal::at_least("renewal rate ÷ that of 1,000 leases, in order", 0.8, batched.ratios[2].median)
            .in_contest(&batched),
    ]);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[])));
    Ok(())
}

/// Acquires a million leases as a server does: every key, name and token is a separate allocation, and none is kept
/// here. Returns the generations and the bytes per lease.
fn fill(bench: &Bench<'_>, store: &Store) -> Result<(Vec<u64>, f64)> {
    let callers = 256;
    // Touched now, so that both readings include these bytes.
    let mut generations = vec![1; LEASES];
    let before = quiet_resident()?;
    let start = Moment::now();
    let filled = bench.runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for me in 0..callers {
            let store = store.clone();
            tasks.spawn(async move {
                let mut mine = Vec::with_capacity(LEASES / callers + 1);
                for i in (me..LEASES).step_by(callers) {
                    mine.push(acquire(&store, i).await?.get());
                }
                anyhow::Ok((me, mine))
            });
        }
        while let Some(ended) = tasks.join_next().await {
            let (me, mine) = ended??;
            for (i, generation) in (me..LEASES).step_by(callers).zip(mine) {
                generations[i] = generation;
            }
        }
        anyhow::Ok(())
    });
    filled?;
    let took = start.passed();
    let after = quiet_resident()?;
    let bytes = after.saturating_sub(before) as f64 / LEASES as f64;
    report::line(&format!(
        "Filled in {} ({} durable acquires/s); resident {} MB before, {} MB after: {bytes:.0} bytes per lease.\n",
        short(took),
        plain(LEASES as f64 / took.as_secs_f64()),
        before >> 20,
        after >> 20,
    ));
    Ok((generations, bytes))
}

/// Resident bytes once background work such as checkpoints has finished.
fn quiet_resident() -> Result<u64> {
    const LOOK: Duration = Duration::from_millis(100);
    for _ in 0..100 {
        let before = cpu();
        nap(LOOK);
        if cpu() - before < LOOK / 50 {
            break;
        }
    }
    resident()
}

fn key(i: usize) -> Result<Key> {
    Ok(Key::new(format!("fleet/{:03}/unit/{i:07}", i % 1_000))?)
}

/// The token for a number; always the same.
fn token(i: usize) -> Result<Token> {
    Ok(Token::parse(&format!("million-{i:024}"))?)
}

async fn acquire(store: &Store, i: usize) -> Result<Generation> {
    let holder = Holder::new(format!("worker-{:05}", i % 10_000))?;
    let claim = Claim::new(key(i)?, holder, token(i)?, Ttl::from_secs(3_600)?);
    match store.acquire(claim).await? {
        Acquired::Granted(grant) => Ok(grant.lease.generation),
        Acquired::Busy(busy) => bail!("{} is busy: {busy:?}", key(i)?),
    }
}

/// The first thousand of the same leases.
async fn handful(store: &Store) -> Result<Vec<Renewal>> {
    let mut generations = Vec::with_capacity(FEW);
    for i in 0..FEW {
        generations.push(acquire(store, i).await?.get());
    }
    many(generations)
}

fn many(generations: Vec<u64>) -> Result<Vec<Renewal>> {
    let item = |(i, generation)| anyhow::Ok(renewal(key(i)?, token(i)?, Generation::new(generation)?));
    generations.into_iter().enumerate().map(item).collect()
}

/// The delay between the expiry of each lease of a sample and its event, while `load` is renewed.
fn expiry(bench: &Bench<'_>, store: &Store, load: &[Renewal]) -> Result<Lags> {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let renewing = scope.spawn({
            let (store, stop) = (store.clone(), stop.clone());
            move || {
                let batch = Batches::of(BATCH);
                while !load.is_empty() && !stop.load(Ordering::Relaxed) {
                    let until = Until::after(Duration::from_millis(100));
                    bench.runtime.block_on(renewals(&store, load, &batch, until))?;
                }
                anyhow::Ok(())
            }
        });
        let lags = bench.runtime.block_on(sample(store));
        stop.store(true, Ordering::Relaxed);
        renewing.join().map_err(|_| anyhow::anyhow!("the renewing thread panicked"))??;
        lags
    })
}

async fn sample(store: &Store) -> Result<Lags> {
    let mut watch = store.watch(&Prefix::new("sample/")?, None).await?;
    let (due, lags) = (Mutex::new(HashMap::new()), Mutex::new(Vec::new()));
    let holder = Holder::new("sample")?;
    let acquire = |i: usize| {
        let (due, holder) = (&due, holder.clone());
        async move {
            let ttl = Duration::from_millis(2_000 + i as u64 * 7_919 % SPREAD_MS);
            let (key, token) = (Key::new(format!("sample/{i}"))?, Token::random(&OsEntropy));
            let claim = Claim::new(key.clone(), holder, token, Ttl::from_millis(ttl.as_millis() as u64)?);
            // Read before the call, so that the delay is never underestimated.
            due.lock().insert(key, Moment::now().plus(ttl));
            match store.acquire(claim).await? {
                Acquired::Granted(_) => Ok(()),
                Acquired::Busy(busy) => bail!("the sample is busy: {busy:?}"),
            }
        }
    };
    let acquiring = async {
        for start in (0..SAMPLE).step_by(100) {
            futures_util::future::try_join_all((start..start + 100).map(acquire)).await?;
        }
        anyhow::Ok(())
    };
    let watching = async {
        while lags.lock().len() < SAMPLE {
            match watch.next().await? {
                Watched::Event(event) if event.verb == Verb::Ended(End::Expired) => {
                    let now = Moment::now();
                    let moment = due.lock().remove(&event.key).context("unexpected expiry")?;
                    lags.lock().push(now.since(moment));
                }
                Watched::Event(_) => {}
                Watched::Lagged => bail!("the watch lagged"),
            }
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = futures_util::future::try_join(acquiring, watching) => done.map(drop)?,
        () = pause(Duration::from_millis(SPREAD_MS + 30_000)) => {
            bail!("only {} of {SAMPLE} leases expired in time", lags.lock().len())
        }
    }
    Ok(Lags::new(lags.into_inner()))
}
