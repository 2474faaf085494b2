//! The stream on which a client keeps all its leases alive.

use std::future::ready;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use lease::Error;
use service::Caller;
use tonic::{Status, Streaming};

use super::leases::{acquire, release, renew};
use super::rights::Rights;
use crate::site::Site;
use crate::trouble::Trouble;
use crate::wire::keep_alive_request::Ask;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::{AcquireRequest, KeepAliveRequest, KeepAliveResponse};

/// Questions of one stream that the store works on at once; more wait in the connection.
const AT_ONCE: usize = 128;

/// Who is at the other end of a stream.
pub(super) struct Client {
    site: Arc<Site>,
    rights: Rights,
    caller: Option<Caller>,
}

/// Answers questions until the client ends the stream or the server shuts down.
pub(super) fn answers(
    client: Arc<Client>,
    questions: Streaming<KeepAliveRequest>,
) -> impl Stream<Item = Result<KeepAliveResponse, Status>> + Send {
    let end = client.site.options.shutdown.token().cancelled_owned();
    questions
        .take_until(end)
        .take_while(|question| ready(question.is_ok()))
        .filter_map(|question| ready(question.ok()))
        .map(move |question| answer(client.clone(), question))
        .buffer_unordered(AT_ONCE)
}

async fn answer(client: Arc<Client>, question: KeepAliveRequest) -> Result<KeepAliveResponse, Status> {
    let outcome =
        client.perform(question.ask).await.unwrap_or_else(|trouble| Outcome::Problem((&trouble).into()));
    Ok(KeepAliveResponse { id: question.id, outcome: Some(outcome) })
}

impl Client {
    pub(super) fn new(site: Arc<Site>, rights: Rights, caller: Option<Caller>) -> Arc<Self> {
        Arc::new(Self { site, rights, caller })
    }

    async fn perform(&self, ask: Option<Ask>) -> Result<Outcome, Trouble> {
        let (site, rights) = (&*self.site, self.rights);
        match ask {
            Some(Ask::Renew(asked)) => Ok(Outcome::Renewed(renew(site, rights, asked.items).await?.into())),
            Some(Ask::Acquire(asked)) => {
                self.count()?;
                Ok(Outcome::Acquired(acquire(site, rights, at_once(asked)?).await?.into()))
            }
            Some(Ask::Release(asked)) => {
                self.count()?;
                Ok(Outcome::Released(release(site, rights, asked).await?.into()))
            }
            None => Err(Error::invalid("ask", "is missing").into()),
        }
    }

    /// Takes one request out of the caller's allowance: here it is not seen by who counts calls.
    fn count(&self) -> Result<(), Trouble> {
        match (&self.site.options.meter, &self.caller) {
            (Some(meter), Some(caller)) => Ok(meter.count(caller)?),
            _ => Ok(()),
        }
    }
}

/// Refuses a claim that waits: it would hold up the stream and could not be cancelled.
fn at_once(asked: AcquireRequest) -> Result<AcquireRequest, Error> {
    match asked.wait_ms {
        0 => Ok(asked),
        _ => Err(Error::invalid(
            "wait_ms",
            "must be zero on a stream; a claim that waits is a call of its own",
        )),
    }
}
