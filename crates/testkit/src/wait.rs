//! Bounded waiting for conditions in other processes, which no channel of ours can announce.

use std::future::Future;
use std::time::Duration;

pub(crate) use crate::clock::WaitLimit;

use anyhow::{Result, bail};

/// Short against every time a test asserts, long enough not to load the two cores a CI machine has.
const INTERVAL: Duration = Duration::from_millis(5);

/// Polls `condition` until it holds; fails, naming `what`, once `limit` has passed.
///
/// The condition is looked at once more when time is up, so a machine that stalls does not fail a test whose
/// condition came true meanwhile.
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let deadline = WaitLimit::after(limit);
    loop {
        let last_look = deadline.remaining().is_none();
        if condition() {
            return Ok(());
        }
        if last_look {
            bail!("gave up after {limit:?} waiting until {what}");
        }
        nap();
    }
}

/// [`until`] for a condition that has to be awaited; a condition that hangs counts as one that does not hold.
///
/// Needs a runtime with a running clock: under `start_paused` time races ahead of the other process.
pub async fn until_async(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let deadline = WaitLimit::after(limit);
    loop {
        let left = deadline.remaining();
        // The last look still gets a moment, or a condition that needs one round trip could never hold in it.
        if within(left.unwrap_or(INTERVAL), condition()).await {
            return Ok(());
        }
        if left.is_none() {
            bail!("gave up after {limit:?} waiting until {what}");
        }
        nap_async().await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the poll interval; callers in async code use the async variant"
)]
fn nap() {
    std::thread::sleep(INTERVAL);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the poll interval, in real time because the condition is outside"
)]
async fn nap_async() {
    tokio::time::sleep(INTERVAL).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds a wait for another process, which no simulated clock moves"
)]
async fn within(limit: Duration, condition: impl Future<Output = bool>) -> bool {
    tokio::time::timeout(limit, condition).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        until("three looks", Duration::from_secs(10), || {
            looks += 1;
            looks == 3
        })
        .unwrap();
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_never_holds_is_named_in_the_error() {
        let error = until("pigs fly", Duration::from_millis(20), || false).unwrap_err();
        assert!(error.to_string().contains("pigs fly"), "{error}");
    }

    #[test]
    fn no_time_at_all_still_looks_once() {
        until("now", Duration::ZERO, || true).unwrap();
    }

    #[tokio::test]
    async fn an_awaited_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        until_async("three looks", Duration::from_secs(10), async || {
            looks += 1;
            looks == 3
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn an_awaited_condition_that_hangs_is_named_in_the_error() {
        let error =
            until_async("pigs fly", Duration::from_millis(20), std::future::pending).await.unwrap_err();
        assert!(error.to_string().contains("pigs fly"), "{error}");
    }
}
