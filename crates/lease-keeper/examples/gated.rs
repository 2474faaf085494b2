//! Works behind a gate while it is held, and reports each step. The gate tests start it and take its store away.
//!
//! Usage: `gated URL KEY TTL_MS`. Prints `open GENERATION`, then for each act `worked ASKED DEADLINE` or
//! `refused ASKED WHY`. ASKED is the time right before the permit was asked for and DEADLINE that of the permit, both
//! in nanoseconds of the store's clock.
#![expect(clippy::print_stdout, reason = "it reports to the test that started it")]

use std::time::Duration;

use anyhow::Context;
use tenure_keeper::{Gate, Keeper, Terms};
use tenure_lease::{Holder, Key, Ttl};

/// The pace of its acts: it reports, it does not flood.
const PACE: Duration = Duration::from_millis(2);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, ttl] = &args[..] else { anyhow::bail!("usage: gated URL KEY TTL_MS") };
    let keeper = Keeper::new(tenure_store::Store::open(url).await?, Holder::new("gated")?);
    let terms = Terms::new(Ttl::from_millis(ttl.parse().context("TTL_MS")?)?);
    let gate = Gate::open(&keeper, Key::new(key)?, terms).await?;
    println!("open {}", gate.generation());
    loop {
        let asked = keeper.clock().now();
        match gate.permit(Duration::ZERO) {
            Ok(permit) => {
                println!("worked {} {}", asked.as_nanos(), permit.deadline().tick().as_nanos());
            }
            Err(why) => println!("refused {} {why}", asked.as_nanos()),
        }
        keeper.clock().sleep_until(asked + PACE).await;
    }
}
