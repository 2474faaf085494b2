//! Changes as a stream.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use lease::{Prefix, Revision};
use tonic::Status;

use super::rights::Rights;
use crate::feed::Feed;
use crate::site::Site;
use crate::trouble::Trouble;
use crate::wire::watch_response::What;
use crate::wire::{Opened, WatchResponse};

/// Opens a watch; its first message says so, and from where to resume if the stream breaks before an event.
pub(super) async fn changes(
    site: &Arc<Site>,
    prefix: &Prefix,
    from: Option<Revision>,
    rights: Rights,
) -> Result<impl Stream<Item = Result<WatchResponse, Status>> + Send + use<>, Trouble> {
    // Read before the watch is open: a client that resumes from here may see an event twice, and misses none.
    let start = match from {
        Some(from) => from,
        None => site.revision().await?,
    };
    let feed = site.watch(prefix, from, rights.sight()).await?;
    let opened = stream::once(std::future::ready(What::Opened(Opened { revision: start.get() })));
    let events = stream::unfold(feed, |mut feed: Feed| async {
        let watched = feed.next().await?;
        Some((What::from(watched), feed))
    });
    Ok(opened.chain(events).map(|what| Ok(WatchResponse { what: Some(what) })))
}
