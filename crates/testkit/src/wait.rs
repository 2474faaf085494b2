//! Polls for conditions in other processes, with a timeout.

use std::future::Future;
use std::time::Duration;

pub(crate) use crate::clock::WaitLimit;

use anyhow::{Result, bail};

/// The poll interval: short compared with the timeouts of tests, long enough not to load a CI machine with two cores.
const INTERVAL: Duration = Duration::from_millis(5);

/// Polls `condition` until it holds; fails, naming `what`, once `limit` has passed.
///
/// The condition is checked once more after the timeout, so that a stalled machine does not fail a test whose condition
/// became true meanwhile.
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let deadline = WaitLimit::after(limit);
    loop {
        let last_look = deadline.remaining().is_none();
        if condition() {
            return Ok(());
        }
        if last_look {
            bail!("timed out after {limit:?} waiting until {what}");
        }
        nap();
    }
}

/// [`until`] for an asynchronous condition. A condition that hangs counts as false.
///
/// Needs a runtime with real time: with `start_paused`, time runs ahead of the other process.
pub async fn until_async(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let deadline = WaitLimit::after(limit);
    loop {
        let left = deadline.remaining();
        // The last check also gets some time, because the condition may need a round trip.
        if within(left.unwrap_or(INTERVAL), condition()).await {
            return Ok(());
        }
        if left.is_none() {
            bail!("timed out after {limit:?} waiting until {what}");
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
