//! Where results go: the store (last value, last few, channel), this process (a broadcast), a webhook.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lease::{Announcement, Clock, Fence, Store};
use reqwest::{Client, Url};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::result::PollResult;
use crate::{Settings, events, keys, limits};

/// How long the store may take to take results.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a webhook is called for one result, and how long each call may take.
const CALLS: u32 = 3;
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// One result on its way, with the proof that it may be told.
pub(crate) struct News {
    pub(crate) result: Arc<PollResult>,
    pub(crate) fence: Fence,
    /// Whether it goes to the store, or only to listeners in this process.
    pub(crate) keep: bool,
    pub(crate) webhook: Option<Url>,
}

/// Takes results. Clones share the way.
#[derive(Clone)]
pub(crate) struct Sink {
    news: mpsc::Sender<News>,
    stream: broadcast::Sender<Arc<PollResult>>,
}

/// The side that carries them.
pub(crate) struct Carrier {
    news: mpsc::Receiver<News>,
    stream: broadcast::Sender<Arc<PollResult>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    hooks: mpsc::Sender<(Url, Arc<PollResult>)>,
}

/// The side that calls webhooks.
pub(crate) struct Caller {
    hooks: mpsc::Receiver<(Url, Arc<PollResult>)>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Sink {
    pub(crate) fn open(
        store: Arc<dyn Store>,
        settings: Arc<Settings>,
        client: Client,
    ) -> (Self, Carrier, Caller) {
        let (sender, news) = mpsc::channel(limits::WAITING);
        let (stream, _) = broadcast::channel(limits::STREAM);
        let (hooks, called) = mpsc::channel(limits::WAITING);
        let clock = store.clock();
        let sink = Self { news: sender, stream: stream.clone() };
        let caller = Caller { hooks: called, client, clock: clock.clone() };
        (sink, Carrier { news, stream, store, clock, settings, hooks }, caller)
    }

    /// Hands a result over; waits while too many are waiting.
    pub(crate) async fn tell(&self, news: News) {
        if self.news.send(news).await.is_err() {
            events::results("dropped", 1);
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<PollResult>> {
        self.stream.subscribe()
    }
}

impl Carrier {
    /// Carries until told to end and nothing is left.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let mut batch = Vec::with_capacity(limits::TOLD);
        // Engines in this process answer each write after its own sync: many at once share one.
        let lanes = if self.store.capabilities().engine == "redis" { 1 } else { limits::TOLD };
        loop {
            let count = tokio::select! {
                biased;
                count = self.news.recv_many(&mut batch, limits::TOLD) => count,
                () = end.cancelled(), if !self.news.is_closed() => {
                    self.news.close();
                    continue;
                }
            };
            if count == 0 {
                return;
            }
            let mut piles: Vec<Vec<News>> = (0..lanes).map(|_| Vec::new()).collect();
            for news in batch.drain(..) {
                // Results of one target stay in their order.
                let lane =
                    news.result.id.bytes().fold(0_usize, |sum, b| sum.wrapping_mul(31) + usize::from(b))
                        % lanes;
                piles[lane].push(news);
            }
            let piles = piles.into_iter().filter(|pile| !pile.is_empty());
            join_all(piles.map(|pile| self.carry(pile))).await;
        }
    }

    async fn carry(&self, pile: Vec<News>) {
        let (kept, passing): (Vec<News>, Vec<News>) = pile.into_iter().partition(|news| news.keep);
        passing.iter().for_each(|news| self.pass_on(news));
        let items: Vec<Announcement> =
            kept.iter().filter_map(|news| announcement(news, &self.settings).ok()).collect();
        if items.is_empty() {
            return;
        }
        let answer = tokio::select! {
            biased;
            answer = self.store.announce(&items) => answer,
            () = self.clock.sleep_until(self.clock.now() + PATIENCE) => {
                Err(lease::Error::unknown(self.store.capabilities().engine, "no answer in time"))
            }
        };
        match answer {
            Ok(told) => {
                for (news, told) in kept.iter().zip(told) {
                    if told {
                        self.pass_on(news);
                    } else {
                        events::results("refused", 1);
                        tracing::debug!(target: "tenure::poll", endpoint = news.result.id,
                            generation = news.result.generation, "a result of an older owner was refused");
                    }
                }
            }
            Err(error) => {
                events::results("failed", kept.len() as u64);
                tracing::debug!(target: "tenure::poll", %error, results = kept.len(), "results were not told");
            }
        }
    }

    /// What the store took is for everybody.
    fn pass_on(&self, news: &News) {
        events::results("told", 1);
        // Nobody listening is no failure.
        let _ = self.stream.send(news.result.clone());
        let global = self.settings.webhook.as_deref().and_then(|url| Url::parse(url).ok());
        if let Some(url) = news.webhook.clone().or(global)
            && self.hooks.try_send((url, news.result.clone())).is_err()
        {
            events::webhook("dropped");
        }
    }
}

fn announcement(news: &News, settings: &Settings) -> lease::Result<Announcement> {
    let id = &news.result.id;
    Ok(Announcement {
        fence: news.fence.clone(),
        channel: keys::results(id)?,
        message: news.result.to_bytes().into(),
        latest: keys::latest(id)?,
        ttl: settings.keep_results,
        log: keys::log(id)?,
        max_len: settings.history,
    })
}

impl Caller {
    /// Posts results one after the other, each a few times if need be. A slow hook delays hooks, not polls. Ends
    /// with the carrier.
    pub(crate) async fn run(mut self) {
        while let Some((url, result)) = self.hooks.recv().await {
            let mut wait = Duration::from_millis(200);
            for call in 1..=CALLS {
                if self.call(&url, &result).await {
                    events::webhook("called");
                    break;
                }
                if call == CALLS {
                    events::webhook("failed");
                    break;
                }
                self.clock.sleep_until(self.clock.now() + wait).await;
                wait *= 2;
            }
        }
    }

    async fn call(&self, url: &Url, result: &PollResult) -> bool {
        let request = self.client.post(url.clone()).json(result).send();
        tokio::select! {
            biased;
            answer = request => answer.is_ok_and(|answer| answer.status().is_success()),
            () = self.clock.sleep_until(self.clock.now() + CALL_LIMIT) => false,
        }
    }
}
