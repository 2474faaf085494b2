//! The stream on which a client keeps all its leases alive.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use lease::{Error, Refusal};
use service::Caller;
use tonic::{Status, Streaming};

use super::leases::{acquire, release, renew};
use super::rights::Rights;
use crate::site::{PARKED as ALL_PARKED, Site};
use crate::trouble::Trouble;
use crate::wire::keep_alive_request::Ask;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::{KeepAliveRequest, KeepAliveResponse};

/// Questions of one stream that the store works on at once; more wait in the connection.
const AT_ONCE: usize = 128;
/// Claims that wait in line through one stream; more are refused.
const PARKED: usize = 1_024;

/// Who is at the other end of a stream.
pub(super) struct Client {
    site: Arc<Site>,
    rights: Rights,
    caller: Option<Caller>,
}

/// Answers questions until the client ends the stream or the server shuts down. Claims that still wait when the
/// client goes leave their lines.
pub(super) struct Answers {
    client: Arc<Client>,
    questions: Streaming<KeepAliveRequest>,
    shutdown: BoxFuture<'static, ()>,
    quick: FuturesUnordered<BoxFuture<'static, KeepAliveResponse>>,
    parked: FuturesUnordered<Parked>,
    /// How each parked claim is taken back.
    ways_out: HashMap<u64, AbortHandle>,
    state: State,
}

/// The number of a claim that waits, and its answer unless it was taken back.
type Parked = BoxFuture<'static, (u64, Option<KeepAliveResponse>)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The server shuts down: what is under way is still answered.
    Closing,
    /// The client asks nothing more.
    Left,
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
                Ok(Outcome::Acquired(acquire(site, rights, asked).await?.into()))
            }
            Some(Ask::Release(asked)) => {
                self.count()?;
                Ok(Outcome::Released(release(site, rights, asked).await?.into()))
            }
            Some(Ask::Cancel(_)) | None => Err(Error::invalid("ask", "is missing").into()),
        }
    }

    async fn answer(self: Arc<Self>, question: KeepAliveRequest) -> KeepAliveResponse {
        let answer = self.perform(question.ask).await;
        let outcome = answer.unwrap_or_else(|trouble| Outcome::Problem((&trouble).into()));
        KeepAliveResponse { id: question.id, outcome: Some(outcome) }
    }

    /// Takes one request out of the caller's allowance: here it is not seen by who counts calls.
    fn count(&self) -> Result<(), Trouble> {
        match (&self.site.options.meter, &self.caller) {
            (Some(meter), Some(caller)) => Ok(meter.count(caller)?),
            _ => Ok(()),
        }
    }
}

impl Answers {
    pub(super) fn new(client: Arc<Client>, questions: Streaming<KeepAliveRequest>) -> Self {
        let shutdown = client.site.options.shutdown.token().cancelled_owned().boxed();
        Self {
            client,
            questions,
            shutdown,
            quick: FuturesUnordered::new(),
            parked: FuturesUnordered::new(),
            ways_out: HashMap::new(),
            state: State::Open,
        }
    }

    /// Begins to answer a question; gives the answer if there is one at once.
    fn take(&mut self, question: KeepAliveRequest) -> Option<KeepAliveResponse> {
        let id = question.id;
        match &question.ask {
            Some(Ask::Cancel(cancel)) => {
                // A claim that was answered meanwhile is not to be taken back; the client knows its token.
                if let Some(way_out) = self.ways_out.remove(&cancel.id) {
                    way_out.abort();
                }
                None
            }
            Some(Ask::Acquire(asked)) if asked.wait_ms > 0 => self.park(id, question),
            _ => {
                self.quick.push(self.client.clone().answer(question).boxed());
                None
            }
        }
    }

    fn park(&mut self, id: u64, question: KeepAliveRequest) -> Option<KeepAliveResponse> {
        let refused = |error: Error| {
            let problem = Outcome::Problem((&Trouble::from(error)).into());
            Some(KeepAliveResponse { id, outcome: Some(problem) })
        };
        if self.parked.len() >= PARKED {
            return refused(Refusal::TooMany { what: "claims waiting on one stream", limit: PARKED }.into());
        }
        let Ok(place) = self.client.site.parked.clone().try_acquire_owned() else {
            return refused(Refusal::TooMany { what: "claims waiting on streams", limit: ALL_PARKED }.into());
        };
        if self.ways_out.contains_key(&id) {
            return refused(Error::invalid("id", "is that of a claim that still waits on this stream"));
        }
        let (way_out, registration) = AbortHandle::new_pair();
        self.ways_out.insert(id, way_out);
        let waiting = Abortable::new(self.client.clone().answer(question), registration);
        let parked = async move {
            let answer = waiting.await.ok();
            drop(place);
            (id, answer)
        };
        self.parked.push(parked.boxed());
        None
    }

    /// Takes what has arrived, as far as there is room for it.
    fn listen(&mut self, context: &mut Context<'_>) -> Option<KeepAliveResponse> {
        // Once per look, and not for every question: it takes a lock that all streams share.
        if self.state == State::Open && self.shutdown.poll_unpin(context).is_ready() {
            self.state = State::Closing;
        }
        while self.state == State::Open && self.quick.len() < AT_ONCE {
            match self.questions.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(question))) => {
                    let answer = self.take(question);
                    if answer.is_some() {
                        return answer;
                    }
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    self.state = State::Left;
                    self.parked.clear();
                }
                Poll::Pending => break,
            }
        }
        None
    }
}

impl Stream for Answers {
    type Item = Result<KeepAliveResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(answer) = this.listen(context) {
            return Poll::Ready(Some(Ok(answer)));
        }
        if let Poll::Ready(Some(answer)) = this.quick.poll_next_unpin(context) {
            return Poll::Ready(Some(Ok(answer)));
        }
        while let Poll::Ready(Some((id, answer))) = this.parked.poll_next_unpin(context) {
            this.ways_out.remove(&id);
            if let Some(answer) = answer {
                return Poll::Ready(Some(Ok(answer)));
            }
        }
        let over = this.state != State::Open && this.quick.is_empty() && this.parked.is_empty();
        if over { Poll::Ready(None) } else { Poll::Pending }
    }
}
