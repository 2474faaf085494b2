//! Watches the store for changes. An event triggers a read; the read decides.

use std::sync::Arc;

use tenure_lease::{End, Revision, Store, Verb, Watched};
use tokio::sync::mpsc;

use crate::keys;

/// Delay before a watch that failed or fell behind is reported as lost.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(500);

/// A change in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A target's lease was granted.
    Granted { id: String, holder: String },
    /// A target's lease ended.
    Ended { id: String, holder: String, end: End },
    /// A node wrote its heartbeat.
    Heartbeat(String),
    /// A node removed its heartbeat, or the heartbeat expired.
    NodeLeft(String),
    /// A target's record changed.
    Target(String),
    /// The surveyor wrote a new survey.
    Survey,
    /// Changes may have been missed: read everything again.
    WatchLost,
}

/// Follows the store's changes after `from`. When a change may have been missed it sends [`Change::WatchLost`] and
/// ends: the receiver reads everything again and starts a new watch at the revision of that read. A read that is
/// older than a change already received would otherwise overwrite it.
pub(crate) async fn watch_changes(store: Arc<dyn Store>, from: Revision, changes: mpsc::Sender<Change>) {
    if let Ok(prefixes) = keys::watched_prefixes()
        && let Ok(mut watch) = store.watch_any(&prefixes, Some(from)).await
    {
        while let Ok(Watched::Event(event)) = watch.next().await {
            if let Some(change) = parse_event(event)
                && changes.send(change).await.is_err()
            {
                return;
            }
        }
    }
    let clock = store.clock();
    clock.sleep_until(clock.now() + RETRY_DELAY).await;
    // The receiver may have stopped.
    let _ = changes.send(Change::WatchLost).await;
}

fn parse_event(event: tenure_lease::Event) -> Option<Change> {
    let key = event.key.as_str();
    if let Some(id) = key.strip_prefix(keys::LEASE) {
        let (id, holder) = (id.to_owned(), event.holder?.as_str().to_owned());
        return match event.verb {
            Verb::Granted => Some(Change::Granted { id, holder }),
            Verb::Ended(end) => Some(Change::Ended { id, holder, end }),
            Verb::Written | Verb::Deleted => None,
        };
    }
    if let Some(node) = key.strip_prefix(keys::NODE) {
        return match event.verb {
            Verb::Written => Some(Change::Heartbeat(node.to_owned())),
            Verb::Deleted => Some(Change::NodeLeft(node.to_owned())),
            Verb::Granted | Verb::Ended(_) => None,
        };
    }
    if key == keys::SURVEY {
        return (event.verb == Verb::Written).then_some(Change::Survey);
    }
    key.strip_prefix(keys::TARGET).map(|id| Change::Target(id.to_owned()))
}
