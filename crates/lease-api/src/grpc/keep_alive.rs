//! The stream on which a client keeps all its leases alive.

use std::future::ready;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tonic::{Status, Streaming};

use super::leases::renew;
use super::rights::Rights;
use crate::site::Site;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::{KeepAliveRequest, KeepAliveResponse};

/// Batches of one stream that the store works on at once; more wait in the connection.
const AT_ONCE: usize = 32;

/// Answers batches until the client ends the stream or the server shuts down.
pub(super) fn answers(
    site: Arc<Site>,
    rights: Rights,
    batches: Streaming<KeepAliveRequest>,
) -> impl Stream<Item = Result<KeepAliveResponse, Status>> + Send {
    let end = site.options.shutdown.token().cancelled_owned();
    batches
        .take_until(end)
        .take_while(|batch| ready(batch.is_ok()))
        .filter_map(|batch| ready(batch.ok()))
        .map(move |batch| answer(site.clone(), rights, batch))
        .buffer_unordered(AT_ONCE)
}

async fn answer(
    site: Arc<Site>,
    rights: Rights,
    batch: KeepAliveRequest,
) -> Result<KeepAliveResponse, Status> {
    let outcome = match renew(&site, rights, batch.items).await {
        Ok(renewed) => Outcome::Renewed(renewed),
        Err(trouble) => Outcome::Problem((&trouble).into()),
    };
    Ok(KeepAliveResponse { id: batch.id, outcome: Some(outcome) })
}
