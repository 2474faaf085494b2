//! Holds a key, writes under its fence while permitted, and reports each step. The pause tests start, stop and resume it.
//!
//! Usage: `holder URL KEY RECORD TTL_MS`. Prints `held GENERATION`, then for each turn N one of `wrote N ASKED`,
//! `fenced N ASKED`, `failed N ASKED WHY` and `refused N ASKED WHY`, and `lost WHY` at the end. ASKED is the time right
//! before the permit was asked for, in nanoseconds of the store's clock. What it writes is `holder N`.
#![expect(clippy::print_stdout, reason = "it reports to the test that started it")]

use std::time::Duration;

use anyhow::Context;
use tenure_keeper::{Keeper, Terms};
use tenure_lease::{Committed, Holder, Key, Mode, Op, Ttl};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, record, ttl] = &args[..] else { anyhow::bail!("usage: holder URL KEY RECORD TTL_MS") };
    let store = tenure_store::Store::open(url).await?;
    let keeper = Keeper::new(store.clone(), Holder::new("holder")?);
    let terms = Terms::new(Ttl::from_millis(ttl.parse().context("TTL_MS")?)?);
    let guard = keeper.try_acquire(Key::new(key)?, terms).await?;
    println!("held {}", guard.generation());
    let record = Key::new(record)?;
    for n in 0u64.. {
        let asked = keeper.clock().now().as_nanos();
        let fence = match guard.permit(Duration::ZERO) {
            Ok(permit) => permit.fence(Mode::Strict),
            Err(why) => {
                println!("refused {n} {asked} {why}");
                if let Some(lost) = guard.state().lost() {
                    println!("lost {}", lost.as_str());
                    return Ok(());
                }
                tokio::task::yield_now().await;
                continue;
            }
        };
        let value = format!("holder {n}").into_bytes().into();
        let written = store.write_fenced(&fence, &[Op::Put { key: record.clone(), value, ttl: None }]).await;
        match written {
            Ok(Committed::Written { .. }) => println!("wrote {n} {asked}"),
            Ok(Committed::FencedOut { .. }) => println!("fenced {n} {asked}"),
            Ok(Committed::Conflict { .. }) => anyhow::bail!("an unconditional write met a condition"),
            Err(error) => println!("failed {n} {asked} {error}"),
        }
    }
    Ok(())
}
