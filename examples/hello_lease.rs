//! Acquire a key, act as its only owner, release it.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::time::Duration;

use tenure_keeper::{Keeper, Terms};
use tenure_lease::{Holder, Key, Ttl};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let keeper = Keeper::new(store, Holder::new("hello")?);
    let guard = keeper.try_acquire(Key::new("greeting")?, Terms::new(Ttl::from_secs(10)?)).await?;
    println!("{} owns {} under generation {}", guard.holder(), guard.key(), guard.generation());

    // Each act needs a permit, which reads the clock.
    let permit = guard.permit(Duration::from_millis(100))?;
    println!("hello, safely until {:?}", permit.deadline());
    drop(permit); // the act is over; a release waits for permits

    guard.release().await?;
    println!("released");
    Ok(())
}
