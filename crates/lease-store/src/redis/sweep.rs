//! Ends what time has ended, so that histories, watches and waiting claims learn of it within two seconds.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};

use super::client::{Client, Retry};
use super::prefix_cache::PrefixCache;
use super::protocol::server;

/// How often.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the settings of the server are read again, in intervals of the sweep.
const REVIEW_TURNS: u64 = 5;
/// Most keys per call: more would delay all other clients.
const SWEEP_BATCH: usize = 100;
/// Most calls in one run.
const MAX_CALLS: usize = 100;

/// Sweeps until it is dropped. Any number of engines may sweep one server: each key is brought up to date once.
pub(super) async fn run(client: Arc<Client>, cache: Arc<PrefixCache>) {
    for turn in 1_u64.. {
        client.clock.sleep_until(client.clock.now() + INTERVAL).await;
        cache.drop_unused(client.clock.now());
        if turn % REVIEW_TURNS == 0 {
            client.review_server().await;
        }
        if broken(Break::NoSweeper) {
            continue;
        }
        for _ in 0..MAX_CALLS {
            match sweep_batch(&client).await {
                Ok(count) if count == SWEEP_BATCH => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "sweep failed");
                    break;
                }
            }
        }
    }
}

async fn sweep_batch(client: &Client) -> tenure_lease::Result<usize> {
    let value = client.call(Retry::Idempotent, |server| server::encode_sweep(server, SWEEP_BATCH)).await?;
    server::decode_sweep(&value)
}
