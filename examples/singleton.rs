//! One process of many does the work; the next takes over when it stops. Start it twice on one Redis to see it.
#![expect(clippy::print_stdout, reason = "examples talk")]

use std::time::Duration;

use lease::{Holder, Key, Ttl};
use lease_keeper::{Ended, Keeper, OsEntropy, Terms};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let keeper = Keeper::new(store, Holder::unique("singleton", &OsEntropy)?);
    println!("{} waits for its turn", keeper.holder());
    let terms = Terms::new(Ttl::from_secs(5)?);
    let guard = keeper.acquire(Key::new("singleton")?, terms, Duration::from_secs(60)).await?;

    // The work is dropped at the deadline if the lease could not be renewed, and the key is given back only
    // after the work has returned.
    let ended = guard
        .run(async |held| {
            let mut done = 0;
            while done < 3 && held.permit(Duration::from_millis(50)).is_ok() {
                done += 1;
                println!("step {done} as the only one, generation {}", held.generation());
            }
            done
        })
        .await;
    match ended {
        Ended::Returned(done) => println!("did {done} steps and let the next one in"),
        Ended::Cut(why) => println!("stopped: {why:?}"),
    }
    Ok(())
}
