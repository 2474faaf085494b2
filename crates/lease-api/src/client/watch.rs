//! A watch that goes on where it was when its connection broke.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Prefix, Result, Revision, Watch, Watched};
use tonic::Streaming;

use super::Inner;
use super::call::{Again, jittered};
use super::fault::Fault;
use super::lanes::Seat;
use crate::wire::leases_client::LeasesClient;
use crate::wire::watch_response::What;
use crate::wire::{WatchRequest, WatchResponse};

/// The pause before a watch that broke is opened again, so that a server that ends every watch at once is
/// not asked in a tight loop.
const PAUSE: Duration = Duration::from_millis(50);

/// Changes as a server streams them.
pub(super) struct RemoteWatch {
    inner: Arc<Inner>,
    prefix: Prefix,
    /// Everything up to here was seen, or was before the watch.
    seen: Option<Revision>,
    open: Option<Open>,
}

struct Open {
    messages: Streaming<WatchResponse>,
    _seat: Seat,
}

impl RemoteWatch {
    /// Opens a watch. What changes after this returned is not missed.
    pub(super) async fn open(inner: Arc<Inner>, prefix: Prefix, from: Option<Revision>) -> Result<Self> {
        let mut watch = Self { inner, prefix, seen: from, open: None };
        watch.reopen().await?;
        Ok(watch)
    }

    async fn reopen(&mut self) -> Result<()> {
        let send = || opened(&self.inner, &self.prefix, self.seen);
        let (open, start) = self.inner.call(Again::Yes, send).await?;
        self.seen = self.seen.or(Some(start));
        self.open = Some(open);
        Ok(())
    }
}

/// Asks for a watch and waits until the server has opened it.
async fn opened(inner: &Inner, prefix: &Prefix, from: Option<Revision>) -> Result<(Open, Revision), Fault> {
    let seat = inner.lanes.seat();
    let asked = WatchRequest { prefix: prefix.as_str().into(), from: from.map(Revision::get) };
    let mut messages = LeasesClient::new(seat.channel()).watch(inner.bearer.on(asked)).await?.into_inner();
    match messages.message().await?.and_then(|message| message.what) {
        Some(What::Opened(start)) => Ok((Open { messages, _seat: seat }, Revision::new(start.revision))),
        _ => Err(Fault::broken("the watch was closed before it was open")),
    }
}

#[async_trait]
impl Watch for RemoteWatch {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            let Some(open) = &mut self.open else {
                let clock = &self.inner.clock;
                clock.sleep_until(clock.now() + jittered(PAUSE)).await;
                self.reopen().await?;
                continue;
            };
            match open.messages.message().await.map(|message| message.and_then(|message| message.what)) {
                Ok(Some(What::Event(event))) => {
                    let event = lease::Event::try_from(event)?;
                    self.seen = Some(event.revision);
                    return Ok(Watched::Event(event));
                }
                Ok(Some(What::Lagged(_))) => return Ok(Watched::Lagged),
                Ok(Some(What::Opened(_))) => {}
                Ok(None) => self.open = None,
                Err(status) => {
                    tracing::debug!(%status, prefix = %self.prefix, "a watch broke and is opened again");
                    self.open = None;
                }
            }
        }
    }
}
