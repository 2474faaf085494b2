//! Two tuners for four viewers: numbered slots, each with its own generations.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::time::Duration;

use anyhow::ensure;
use tenure_keeper::{Keeper, Slots, Terms};
use tenure_lease::{Holder, Key, Ttl};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let keeper = Keeper::new(examples::store().await?, Holder::new("household")?);
    let tuners = Slots::new(&keeper, Key::new("tuner")?, 2)?;
    let mut viewers = JoinSet::new();
    for viewer in 1..=4 {
        let tuners = tuners.clone();
        viewers.spawn(async move {
            let slot = tuners.take(Terms::new(Ttl::from_secs(10)?), Duration::from_secs(10)).await?;
            let in_use = tuners.in_use().await?.len();
            println!("viewer {viewer} watches on tuner {} ({in_use} in use)", slot.index());
            ensure!(in_use <= 2, "{in_use} of 2 tuners in use");
            slot.into_guard().release().await?;
            Ok(())
        });
    }
    while let Some(done) = viewers.join_next().await {
        done??;
    }
    ensure!(tuners.in_use().await?.is_empty());
    println!("all tuners are free");
    Ok(())
}
