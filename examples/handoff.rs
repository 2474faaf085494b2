//! Ownership moves on purpose: stop writing, hand over to a named heir, in one step and with a greater generation.
#![expect(clippy::print_stdout, reason = "examples talk")]

use std::time::Duration;

use anyhow::ensure;
use lease::{Holder, Key, Ttl};
use lease_keeper::{Handed, Handoff, Keeper, Terms};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let (old, new) = (Holder::new("old")?, Holder::new("new")?);
    let (from, to) = (Keeper::new(store.clone(), old), Keeper::new(store, new.clone()));
    let (key, terms) = (Key::new("meeting/42")?, Terms::new(Ttl::from_secs(10)?));

    let guard = from.try_acquire(key.clone(), terms.clone()).await?;
    let before = guard.generation();
    println!("{} leads under generation {before}", guard.holder());

    // The heir queues up; the owner drains and transfers.
    let (heir, handed) = tokio::join!(
        to.acquire(key, terms, Duration::from_secs(10)),
        Handoff::new(guard, new)
            .drain(async { println!("old: no new writes, the last one is done") })
            .within(Duration::from_secs(10)),
    );
    let (heir, handed) = (heir?, handed?);
    ensure!(matches!(handed, Handed::Transferred { .. }), "{handed:?}");
    println!("{} leads under generation {}", heir.holder(), heir.generation());
    ensure!(heir.generation() > before);
    heir.release().await?;
    Ok(())
}
