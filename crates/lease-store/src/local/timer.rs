//! The task that does what time asks for, so that nobody has to look for an expiry to be noticed.

use std::sync::Weak;
use std::time::Duration;

use super::engine::Shared;

/// How many keys one turn settles before others get the lock.
const TURN: usize = 256;

/// What ending one reign may take in a journal.
const KEY: u64 = 1_024;

/// How long the timer waits for room in the journal.
const CROWDED: Duration = Duration::from_millis(5);

/// How long the timer sleeps when there is nothing to wait for.
const IDLE: Duration = Duration::from_secs(3_600);

/// Runs until the store is gone.
pub(crate) async fn run(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let Some(next) = turn(&strong) else { return };
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

/// Settles what is due and says when to look again.
fn turn(shared: &Shared) -> Option<lease::Tick> {
    let (mut inner, now) = shared.enter();
    if inner.closed {
        return None;
    }
    if !shared.has_room(&inner, TURN as u64 * KEY) {
        return Some(now.tick + CROWDED);
    }
    let next = match inner.table.expire(now, TURN) {
        Ok(TURN) => now.tick,
        Ok(_) => inner.table.next_due().unwrap_or(now.tick + IDLE),
        Err(error) => {
            tracing::error!(%error, "expiry failed");
            now.tick + Duration::from_secs(1)
        }
    };
    inner.alarm = Some(next);
    drop(shared.finish(&mut inner, now));
    Some(next)
}
