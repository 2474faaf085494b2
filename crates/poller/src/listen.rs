//! Hearing of changes as they happen. Events wake; what is looked up decides.

use std::sync::Arc;

use lease::{End, Revision, Store, Verb, Watched};
use tokio::sync::mpsc;

use crate::keys;

/// The wait before a watch that failed or fell behind is opened again.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(500);

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A target has an owner.
    Granted { id: String, holder: String },
    /// A target's owner is no more.
    Ended { id: String, holder: String, end: End },
    /// A node lives.
    Beat(String),
    /// A node left.
    Left(String),
    /// A target's record changed.
    Target(String),
    /// The surveyor has looked.
    Survey,
    /// Changes may have been missed: look at everything.
    Lost,
}

/// Follows the store's changes after `from`. Where one may have been missed it says so and ends: whoever listens
/// looks at everything, and listens anew from the revision of that look. Otherwise a look that is older than what
/// was heard since would overwrite it.
pub(crate) async fn listen(store: Arc<dyn Store>, from: Revision, signals: mpsc::Sender<Signal>) {
    if let Ok(heard) = keys::heard()
        && let Ok(mut watch) = store.watch_any(&heard, Some(from)).await
    {
        while let Ok(Watched::Event(event)) = watch.next().await {
            if let Some(signal) = read(event)
                && signals.send(signal).await.is_err()
            {
                return;
            }
        }
    }
    let clock = store.clock();
    clock.sleep_until(clock.now() + AGAIN).await;
    // Nobody listening is no failure.
    let _ = signals.send(Signal::Lost).await;
}

fn read(event: lease::Event) -> Option<Signal> {
    let key = event.key.as_str();
    if let Some(id) = key.strip_prefix(keys::LEASE) {
        let (id, holder) = (id.to_owned(), event.holder?.as_str().to_owned());
        return match event.verb {
            Verb::Granted => Some(Signal::Granted { id, holder }),
            Verb::Ended(end) => Some(Signal::Ended { id, holder, end }),
            Verb::Written | Verb::Deleted => None,
        };
    }
    if let Some(node) = key.strip_prefix(keys::NODE) {
        return match event.verb {
            Verb::Written => Some(Signal::Beat(node.to_owned())),
            Verb::Deleted => Some(Signal::Left(node.to_owned())),
            Verb::Granted | Verb::Ended(_) => None,
        };
    }
    if key == keys::SURVEY {
        return (event.verb == Verb::Written).then_some(Signal::Survey);
    }
    key.strip_prefix(keys::TARGET).map(|id| Signal::Target(id.to_owned()))
}
