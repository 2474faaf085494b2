//! One watcher: a bounded queue between the store's watch and a client that may not read.

use std::sync::Arc;

use lease::{Prefix, Refusal, Result, Revision, Verb, Watch, Watched};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;

use crate::reserved;
use crate::site::Site;

/// Events waiting for a client. Behind it, the store's own memory of events is what a slow client lags in.
const QUEUE: usize = 64;

/// Changes on their way to one client. Ends when the client does not take them, when the store fails, and
/// when the server shuts down. Dropping it ends the watch.
pub(crate) struct Feed {
    events: mpsc::Receiver<Watched>,
    _pump: JoinSet<()>,
}

/// Which changes a client may see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All.
    Everything,
    /// All but records of Tenure's own services.
    Public,
}

impl Site {
    /// Opens a watch, if there are not too many.
    pub(crate) async fn watch(
        self: &Arc<Self>,
        prefix: &Prefix,
        from: Option<Revision>,
        sight: Sight,
    ) -> Result<Feed> {
        let options = &self.options;
        let permit = options
            .watchers
            .clone()
            .try_acquire_owned()
            .map_err(|_| Refusal::TooMany { what: "watchers", limit: options.most_watchers })?;
        let watch = self.store.watch(prefix, from).await?;
        let (sender, events) = mpsc::channel(QUEUE);
        let mut pump = JoinSet::new();
        pump.spawn(run(self.clone(), watch, sender, sight, permit));
        Ok(Feed { events, _pump: pump })
    }
}

impl Feed {
    /// What comes next; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Watched> {
        self.events.recv().await
    }
}

async fn run(
    site: Arc<Site>,
    mut watch: Box<dyn Watch>,
    sender: mpsc::Sender<Watched>,
    sight: Sight,
    _permit: OwnedSemaphorePermit,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            () = site.options.shutdown.wait() => return,
            next = watch.next() => next,
        };
        match next {
            Ok(watched) if sight == Sight::Public && is_secret(&watched) => {}
            Ok(watched) => {
                if !pass(&site, &sender, watched).await {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a watch ended");
                return;
            }
        }
    }
}

/// Hands an event to the client. False when it does not take it in time, or is gone.
async fn pass(site: &Site, sender: &mpsc::Sender<Watched>, watched: Watched) -> bool {
    let watched = match sender.try_send(watched) {
        Ok(()) => return true,
        Err(mpsc::error::TrySendError::Closed(_)) => return false,
        Err(mpsc::error::TrySendError::Full(watched)) => watched,
    };
    let clock = site.store.clock();
    tokio::select! {
        biased;
        sent = sender.send(watched) => sent.is_ok(),
        () = clock.sleep_until(clock.now() + site.options.stall) => {
            tracing::debug!("a watcher that does not read was closed");
            false
        }
    }
}

/// Whether an event tells of a record that only its service may read.
fn is_secret(watched: &Watched) -> bool {
    match watched {
        Watched::Event(event) => {
            matches!(event.verb, Verb::Written | Verb::Deleted) && reserved::is_reserved(&event.key)
        }
        Watched::Lagged => false,
    }
}
