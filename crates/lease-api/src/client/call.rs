//! One call: bounded in time, sent again only where that is harmless.

use std::future::Future;
use std::time::Duration;

use lease::{Clock, Entropy, Result};
use lease_store::OsEntropy;

use super::Inner;
use super::fault::Fault;

/// The first pause before a call is sent again; it doubles up to the last.
const FIRST: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_millis(320);

/// Whether a call may be sent again after it was lost on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Its effect would come twice.
    No,
    /// The second one finds the effect of the first.
    Yes,
}

/// One attempt that ends in time.
pub(super) async fn once<T>(
    clock: &dyn Clock,
    limit: Duration,
    attempt: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = clock.sleep_until(clock.now() + limit);
    tokio::select! {
        biased;
        answer = attempt => answer,
        () = late => Err(Fault::late()),
    }
}

impl Inner {
    /// A call within the time that every call has.
    pub(super) async fn call<T, F>(&self, again: Again, send: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.call_within(self.call_timeout, again, send).await
    }

    /// A call within `limit`, reconnects included.
    pub(super) async fn call_within<T, F>(
        &self,
        limit: Duration,
        again: Again,
        mut send: impl FnMut() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let end = self.clock.now() + limit;
        let mut late = self.clock.sleep_until(end);
        let mut pause = FIRST;
        loop {
            let fault = tokio::select! {
                biased;
                answer = send() => match answer {
                    Ok(answer) => return Ok(answer),
                    Err(fault) => fault,
                },
                () = &mut late => Fault::late(),
            };
            let harmless = match fault {
                Fault::NotSent(_) => true,
                Fault::Lost(_) => again == Again::Yes,
                Fault::Answered(_) => false,
            };
            let resume = self.clock.now() + jittered(pause);
            if !harmless || resume >= end {
                return Err(fault.into());
            }
            self.clock.sleep_until(resume).await;
            pause = (pause * 2).min(LAST);
        }
    }
}

/// Between half and all of `pause`, so that clients that lost one server do not come back as one.
pub(super) fn jittered(pause: Duration) -> Duration {
    let mut byte = [0];
    OsEntropy.fill(&mut byte);
    pause / 2 + pause / 2 * byte[0].into() / 255
}
