//! Answers that wait for the disk.

use std::future::poll_fn;
use std::task::Poll;

use lease::{Error, Result};

use super::engine::{Durable, Shared};
use crate::sync::{Bystanders, oneshot};

/// Where an answer waits for the disk; none when there is nothing to wait for.
pub(crate) type Pending<'a> = Option<Answer<'a>>;

/// An answer that waits for the disk.
pub(crate) struct Answer<'a> {
    told: oneshot::Receiver<Result<()>>,
    /// Set while nobody was called to write it: the one who waits may do it himself.
    uncalled: Option<&'a Durable>,
}

impl<'a> Answer<'a> {
    pub(crate) const fn new(told: oneshot::Receiver<Result<()>>, uncalled: Option<&'a Durable>) -> Self {
        Self { told, uncalled }
    }

    /// Calls the writer, unless somebody did.
    pub(crate) fn call(&mut self) {
        if let Some(durable) = self.uncalled.take() {
            durable.wake.notify_one();
        }
    }
}

/// Whoever does not wait leaves it to the writer's thread.
impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.call();
    }
}

impl Shared {
    /// Waits for the disk.
    pub(crate) async fn wait(&self, pending: Pending<'_>) -> Result<()> {
        let Some(mut answer) = pending else { return Ok(()) };
        if answer.uncalled.is_some() && Bystanders::any() {
            // Whoever asks in the same breath is written along.
            breath().await;
            if let Some(durable) = answer.uncalled.take() {
                self.lead(durable, Bystanders::here());
            }
        }
        answer.call();
        let told = (&mut answer.told).await;
        told.unwrap_or_else(|_| {
            Err(Error::unknown(self.capabilities.engine, "the store was closed before the answer"))
        })
    }
}

/// Lets others who are ready go first.
async fn breath() {
    let mut taken = false;
    poll_fn(|context| {
        if std::mem::replace(&mut taken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
