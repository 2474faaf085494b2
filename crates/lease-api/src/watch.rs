//! The changes for one client, through a bounded queue: a client may read slowly or not at all.

use std::sync::Arc;

use tenure_lease::{Prefix, Refusal, Result, Revision, Verb, Watch, Watched};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;

use crate::keyspace::Keyspace;
use crate::reserved;
use crate::service::LeaseService;

/// Events queued for a client. A client that falls further behind lags in the store's own event buffer.
const QUEUE: usize = 64;

/// The changes for one client. Ends when the client stops reading, when the store fails and when the server shuts down.
/// Dropping it ends the watch.
pub(crate) struct WatchStream {
    events: mpsc::Receiver<Watched>,
    _forwarder: JoinSet<()>,
}

/// Which changes a client may read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// All changes.
    All,
    /// All except records of Tenure's own services.
    Public,
}

impl LeaseService {
    /// Opens a watch, within the limit of watchers.
    pub(crate) async fn watch(
        self: &Arc<Self>,
        prefix: &Prefix,
        from: Option<Revision>,
        visibility: Visibility,
    ) -> Result<WatchStream> {
        let options = &self.options;
        let permit = options
            .watchers
            .clone()
            .try_acquire_owned()
            .map_err(|_| Refusal::TooMany { what: "watchers", limit: options.max_watchers })?;
        let filter = EventFilter {
            visibility,
            keyspace: self.keyspace(visibility == Visibility::All),
            prefix: prefix.clone(),
        };
        let watch = match filter.keyspace {
            Keyspace::Whole => self.store.watch(prefix, from).await?,
            own => self.store.watch_any(&[prefix.clone(), own.stored_prefix(prefix)?], from).await?,
        };
        let (sender, events) = mpsc::channel(QUEUE);
        let mut forwarder = JoinSet::new();
        forwarder.spawn(forward(self.clone(), watch, sender, filter, permit));
        Ok(WatchStream { events, _forwarder: forwarder })
    }
}

impl WatchStream {
    /// The next change; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Watched> {
        self.events.recv().await
    }
}

async fn forward(
    service: Arc<LeaseService>,
    mut watch: Box<dyn Watch>,
    sender: mpsc::Sender<Watched>,
    filter: EventFilter,
    _permit: OwnedSemaphorePermit,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            () = service.options.shutdown.wait() => return,
            next = watch.next() => next,
        };
        match next {
            Ok(watched) => {
                if let Some(watched) = filter.apply(watched)
                    && !send(&service, &sender, watched).await
                {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "watch ended");
                return;
            }
        }
    }
}

/// Queues an event for the client. Returns false if the client has stalled or left.
async fn send(service: &LeaseService, sender: &mpsc::Sender<Watched>, watched: Watched) -> bool {
    let watched = match sender.try_send(watched) {
        Ok(()) => return true,
        Err(mpsc::error::TrySendError::Closed(_)) => return false,
        Err(mpsc::error::TrySendError::Full(watched)) => watched,
    };
    let clock = service.store.clock();
    tokio::select! {
        biased;
        sent = sender.send(watched) => sent.is_ok(),
        () = clock.sleep_until(clock.now() + service.options.stall_timeout) => {
            tracing::debug!("closed a stalled watcher");
            false
        }
    }
}

/// What a client sees of the changes in the store.
struct EventFilter {
    visibility: Visibility,
    keyspace: Keyspace,
    prefix: Prefix,
}

impl EventFilter {
    /// The change as the client names it; `None` if it is not for this client.
    fn apply(&self, watched: Watched) -> Option<Watched> {
        let mut event = match watched {
            Watched::Event(event) => event,
            Watched::Lagged => return Some(watched),
        };
        if matches!(event.verb, Verb::Written | Verb::Deleted) {
            event.key = self.keyspace.named(&event.key)?;
            if self.visibility == Visibility::Public && reserved::is_reserved(&event.key) {
                return None;
            }
        }
        event.key.starts_with(&self.prefix).then_some(Watched::Event(event))
    }
}
