//! Only one of several processes works; the next one takes over when it stops. Start it twice on one Redis to see that.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::time::Duration;

use tenure_keeper::{Keeper, OsEntropy, RunOutcome, Terms};
use tenure_lease::{Holder, Key, Ttl};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let keeper = Keeper::new(store, Holder::unique("singleton", &OsEntropy)?);
    println!("{} waits for the key", keeper.holder());
    let terms = Terms::new(Ttl::from_secs(5)?);
    let guard = keeper.acquire(Key::new("singleton")?, terms, Duration::from_secs(60)).await?;

    // The work is dropped at the deadline if the lease could not be renewed. The key is released only after the work has
    // returned.
    let outcome = guard
        .run(async |lease| {
            let mut done = 0;
            while done < 3 && lease.permit(Duration::from_millis(50)).is_ok() {
                done += 1;
                println!("step {done} as the only owner, generation {}", lease.generation());
            }
            done
        })
        .await;
    match outcome {
        RunOutcome::Returned(done) => println!("did {done} steps and released the key"),
        RunOutcome::Interrupted(why) => println!("stopped: {why:?}"),
    }
    Ok(())
}
