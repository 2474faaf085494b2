//! A planned handoff: stop writing, then transfer to a named successor in one step and with a greater generation.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::time::Duration;

use anyhow::ensure;
use tenure_keeper::{Handoff, HandoffOutcome, Keeper, Terms};
use tenure_lease::{Holder, Key, Ttl};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let (old, new) = (Holder::new("old")?, Holder::new("new")?);
    let (from, to) = (Keeper::new(store.clone(), old), Keeper::new(store, new.clone()));
    let (key, terms) = (Key::new("meeting/42")?, Terms::new(Ttl::from_secs(10)?));

    let guard = from.try_acquire(key.clone(), terms.clone()).await?;
    let before = guard.generation();
    println!("{} leads under generation {before}", guard.holder());

    // The successor waits in the queue; the owner drains and transfers.
    let (successor, handoff) = tokio::join!(
        to.acquire(key, terms, Duration::from_secs(10)),
        Handoff::new(guard, new)
            .drain(async { println!("old: no new writes, the last one is done") })
            .within(Duration::from_secs(10)),
    );
    let (successor, handoff) = (successor?, handoff?);
    ensure!(matches!(handoff, HandoffOutcome::Transferred { .. }), "{handoff:?}");
    println!("{} leads under generation {}", successor.holder(), successor.generation());
    ensure!(successor.generation() > before);
    successor.release().await?;
    Ok(())
}
