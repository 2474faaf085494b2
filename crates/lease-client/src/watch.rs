//! A watch that resumes after its connection broke.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_lease::{Prefix, Result, Revision, Watch, Watched};
use tenure_lease_wire::proto::leases_client::LeasesClient;
use tenure_lease_wire::proto::watch_response::What;
use tenure_lease_wire::proto::{WatchRequest, WatchResponse};
use tonic::Streaming;

use crate::ClientState;
use crate::call::{Retry, jittered};
use crate::channel_pool::PooledChannel;
use crate::error::CallError;

/// The pause before a watch is reopened, so that a server that ends every watch at once is not called in a tight loop.
const REOPEN_PAUSE: Duration = Duration::from_millis(50);

/// The changes that a server streams.
pub(crate) struct RemoteWatch {
    state: Arc<ClientState>,
    prefix: Prefix,
    /// The revision to resume from.
    resume_from: Option<Revision>,
    stream: Option<OpenStream>,
}

struct OpenStream {
    messages: Streaming<WatchResponse>,
    _channel: PooledChannel,
}

impl RemoteWatch {
    /// Opens a watch. It misses no change after this returned.
    pub(crate) async fn open(
        state: Arc<ClientState>,
        prefix: Prefix,
        from: Option<Revision>,
    ) -> Result<Self> {
        let mut watch = Self { state, prefix, resume_from: from, stream: None };
        watch.reopen().await?;
        Ok(watch)
    }

    async fn reopen(&mut self) -> Result<()> {
        let send = || open_stream(&self.state, &self.prefix, self.resume_from);
        let (stream, start) = self.state.call(Retry::IfLost, send).await?;
        self.resume_from = self.resume_from.or(Some(start));
        self.stream = Some(stream);
        Ok(())
    }
}

/// Opens a stream and waits until the server has confirmed it.
async fn open_stream(
    state: &ClientState,
    prefix: &Prefix,
    from: Option<Revision>,
) -> Result<(OpenStream, Revision), CallError> {
    let channel = state.waiting_channels.take();
    let request = WatchRequest { prefix: prefix.as_str().into(), from: from.map(Revision::get) };
    let mut messages =
        LeasesClient::new(channel.channel()).watch(state.headers.request(request)).await?.into_inner();
    match messages.message().await?.and_then(|message| message.what) {
        Some(What::Opened(start)) => {
            Ok((OpenStream { messages, _channel: channel }, Revision::new(start.revision)))
        }
        _ => Err(CallError::lost("the watch was closed before it was confirmed")),
    }
}

#[async_trait]
impl Watch for RemoteWatch {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            let Some(stream) = &mut self.stream else {
                let clock = &self.state.clock;
                clock.sleep_until(clock.now() + jittered(REOPEN_PAUSE)).await;
                self.reopen().await?;
                continue;
            };
            match stream.messages.message().await.map(|message| message.and_then(|message| message.what)) {
                Ok(Some(What::Event(event))) => {
                    let event = tenure_lease::Event::try_from(event)?;
                    self.resume_from = Some(event.revision);
                    return Ok(Watched::Event(event));
                }
                Ok(Some(What::Lagged(_))) => return Ok(Watched::Lagged),
                Ok(Some(What::Opened(_))) => {}
                Ok(None) => self.stream = None,
                Err(status) => {
                    tracing::debug!(%status, prefix = %self.prefix, "watch broke, reopening it");
                    self.stream = None;
                }
            }
        }
    }
}
