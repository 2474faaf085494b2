//! Own a key, do something that only the owner may do, give it back.
#![expect(clippy::print_stdout, reason = "examples talk")]

use std::time::Duration;

use lease::{Holder, Key, Ttl};
use lease_keeper::{Keeper, Terms};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let keeper = Keeper::new(store, Holder::new("hello")?);
    let guard = keeper.try_acquire(Key::new("greeting")?, Terms::new(Ttl::from_secs(10)?)).await?;
    println!("{} owns {} under generation {}", guard.holder(), guard.key(), guard.generation());

    // Ask before each act: the permit reads the clock itself.
    let permit = guard.permit(Duration::from_millis(100))?;
    println!("hello, safely until {:?}", permit.deadline());

    guard.release().await?;
    println!("released");
    Ok(())
}
