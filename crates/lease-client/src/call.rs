//! One call: limited in time, and retried only where that is harmless.

use std::future::Future;
use std::time::Duration;

use tenure_host::OsEntropy;
use tenure_lease::{Clock, Entropy, Result};

use crate::ClientState;
use crate::error::CallError;

/// The pause before the first retry; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// When a failed call is retried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Only if it was not sent: its effect would come twice.
    IfNotSent,
    /// Also if it was lost on the way: repeating it is harmless.
    IfLost,
}

/// One attempt within `limit`.
pub(crate) async fn once<T>(
    clock: &dyn Clock,
    limit: Duration,
    attempt: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let timeout = clock.sleep_until(clock.now() + limit);
    tokio::select! {
        biased;
        response = attempt => response,
        () = timeout => Err(CallError::timeout()),
    }
}

impl ClientState {
    /// A call within the default time limit.
    pub(crate) async fn call<T, F>(&self, retry: Retry, send: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        self.call_within(self.call_timeout, retry, send).await
    }

    /// A call within `limit`, reconnects included.
    pub(crate) async fn call_within<T, F>(
        &self,
        limit: Duration,
        retry: Retry,
        mut send: impl FnMut() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let end = self.clock.now() + limit;
        let mut timeout = self.clock.sleep_until(end);
        let mut pause = FIRST_PAUSE;
        loop {
            let error = tokio::select! {
                biased;
                response = send() => match response {
                    Ok(response) => return Ok(response),
                    Err(error) => error,
                },
                () = &mut timeout => CallError::timeout(),
            };
            let harmless = match error {
                CallError::NotSent(_) => true,
                CallError::Lost(_) => retry == Retry::IfLost,
                CallError::Rejected(_) => false,
            };
            let resume = self.clock.now() + jittered(pause);
            if !harmless || resume >= end {
                return Err(error.into());
            }
            self.clock.sleep_until(resume).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Between half and all of `pause`, so that the clients of a failed server do not reconnect all at once.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    OsEntropy.fill(&mut byte);
    pause / 2 + pause / 2 * byte[0].into() / 255
}
