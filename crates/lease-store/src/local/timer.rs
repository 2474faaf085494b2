//! The task that ends what has expired.

use std::sync::Weak;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};

use super::engine::Engine;

/// How many keys one batch settles before it gives up the lock.
const BATCH: usize = 128;

/// The journal bytes that ending one reign may take: its row, the grant to its successor, tokens that are forgotten.
const BYTES_PER_KEY: u64 = 5 * 1_024;

/// How long the timer waits for journal room.
const ROOM_RETRY: Duration = Duration::from_millis(5);

/// How long the timer sleeps when nothing expires.
const IDLE: Duration = Duration::from_secs(3_600);

/// Runs until the store is gone.
pub(crate) async fn run(engine: Weak<Engine>) {
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let Some(next) = settle_due(&strong) else { return };
        let (earlier, sleep) = (strong.earlier.notified(), strong.clock.sleep_until(next));
        tokio::select! {
            biased;
            () = earlier => {}
            () = sleep => {}
        }
        drop(strong);
        tokio::task::yield_now().await;
    }
}

/// Settles what is due and returns when to run again; `None` when the store is closed.
fn settle_due(engine: &Engine) -> Option<tenure_lease::Tick> {
    let (mut state, now) = engine.enter();
    if state.closed {
        return None;
    }
    if broken(Break::NoSweeper) {
        return Some(now.tick + IDLE);
    }
    let most = engine.room_for_each(&state, BYTES_PER_KEY).map_or(BATCH, |most| most.min(BATCH));
    if most == 0 {
        return Some(now.tick + ROOM_RETRY);
    }
    let next = match state.table.expire(now, most) {
        Ok(ended) if ended == most => now.tick,
        Ok(_) => state.table.next_due().unwrap_or(now.tick + IDLE),
        Err(error) => {
            tracing::error!(%error, "expiry failed");
            now.tick + Duration::from_secs(1)
        }
    };
    state.alarm = Some(next);
    drop(engine.finish(&mut state, now));
    Some(next)
}
