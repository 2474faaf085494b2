//! Changes as a stream.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tenure_lease::{Prefix, Revision};
use tonic::Status;

use super::access::Access;
use crate::error::ApiError;
use crate::service::LeaseService;
use crate::watch::WatchStream;
use tenure_lease_wire::proto::watch_response::What;
use tenure_lease_wire::proto::{Opened, WatchResponse};

/// Opens a watch. Its first message confirms that, with the revision to resume from if the stream breaks before an event.
pub(super) async fn watch_changes(
    service: &Arc<LeaseService>,
    prefix: &Prefix,
    from: Option<Revision>,
    access: Access,
) -> Result<impl Stream<Item = Result<WatchResponse, Status>> + Send + use<>, ApiError> {
    // Read before the watch is opened: a client that resumes from here may get an event twice, but misses none.
    let start = match from {
        Some(from) => from,
        None => service.latest_revision().await?,
    };
    let changes = service.watch(prefix, from, access.visibility()).await?;
    let opened = stream::once(std::future::ready(What::Opened(Opened { revision: start.get() })));
    let events = stream::unfold(changes, |mut changes: WatchStream| async {
        let watched = changes.next().await?;
        Some((What::from(watched), changes))
    });
    Ok(opened.chain(events).map(|what| Ok(WatchResponse { what: Some(what) })))
}
