//! Takes one of several slots again and again, and reports each reign. The tests start several of it at once.
//!
//! Usage: `slot_user URL NAME SIZE ROUNDS`. Prints `held INDEX GENERATION FROM UNTIL` after each reign: times are in
//! nanoseconds of the machine's clock, FROM right after the first permit, UNTIL right after the last one.
#![expect(clippy::print_stdout, reason = "it reports to the test that started it")]

use std::time::Duration;

use anyhow::Context;
use tenure_keeper::{Keeper, Slots, Terms};
use tenure_lease::{Holder, Key, Ttl};

const WAIT: Duration = Duration::from_secs(60);
const HOLD: Duration = Duration::from_millis(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, size, rounds] = &args[..] else { anyhow::bail!("usage: slot_user URL NAME SIZE ROUNDS") };
    let store = tenure_store::Store::open(url).await?;
    let keeper = Keeper::new(store, Holder::new(format!("process-{}", std::process::id()))?);
    let slots = Slots::new(&keeper, Key::new(name)?, size.parse().context("SIZE")?)?;
    let clock = keeper.clock().clone();
    for _ in 0..rounds.parse().context("ROUNDS")? {
        let slot = slots.take(Terms::new(Ttl::from_secs(10)?), WAIT).await?;
        slot.permit(Duration::ZERO)?;
        let from = clock.now();
        clock.sleep_until(from + HOLD).await;
        slot.permit(Duration::ZERO)?;
        let until = clock.now();
        println!("held {} {} {} {}", slot.index(), slot.generation(), from.as_nanos(), until.as_nanos());
        slot.into_guard().release().await?;
    }
    Ok(())
}
