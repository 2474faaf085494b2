//! A write under a generation, and a late write of an older generation that the store refuses.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::time::Duration;

use anyhow::ensure;
use tenure_keeper::{Keeper, Terms};
use tenure_lease::{Committed, Holder, Key, Mode, Op, Ttl};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let (key, balance) = (Key::new("account/7/owner")?, Key::new("account/7/balance")?);
    let write = |amount: &str| [Op::Put { key: balance.clone(), value: amount.as_bytes().into(), ttl: None }];
    let terms = Terms::new(Ttl::from_secs(10)?);

    let first = Keeper::new(store.clone(), Holder::new("first")?);
    let guard = first.try_acquire(key.clone(), terms.clone()).await?;
    let stale = guard.permit(Duration::ZERO)?.fence(Mode::Strict);
    ensure!(matches!(store.write_fenced(&stale, &write("100")).await?, Committed::Written { .. }));
    println!("generation {} wrote 100", guard.generation());
    guard.release().await?;

    let second = Keeper::new(store.clone(), Holder::new("second")?);
    let guard = second.try_acquire(key, terms).await?;
    let fence = guard.permit(Duration::ZERO)?.fence(Mode::Strict);
    ensure!(matches!(store.write_fenced(&fence, &write("250")).await?, Committed::Written { .. }));
    println!("generation {} wrote 250", guard.generation());

    // The first owner was paused and writes too late.
    let refused = store.write_fenced(&stale, &write("0")).await?;
    let Committed::FencedOut { current } = refused else { anyhow::bail!("not refused: {refused:?}") };
    println!("the old generation is fenced out by {current:?}");
    let kept = store.get(&balance).await?.map(|record| record.value);
    ensure!(kept.is_some_and(|value| *value == *b"250"));
    guard.release().await?;
    Ok(())
}
