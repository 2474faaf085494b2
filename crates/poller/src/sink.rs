//! Publishes results to the store (latest value, log, channel), to subscribers in this process, and to webhooks.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use tenure_lease::{Announcement, Clock, Fence, Store};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::result::PollResult;
use crate::webhook::{WebhookCaller, WebhookPost};
use crate::{Settings, events, keys, limits};

/// Timeout of one write to the store.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A result to publish, with the fence that proves ownership.
pub(crate) struct PendingResult {
    pub(crate) result: Arc<PollResult>,
    pub(crate) fence: Fence,
    /// Whether it is written to the store, or only sent to subscribers in this process.
    pub(crate) keep: bool,
    pub(crate) webhook: Option<Url>,
}

/// Accepts results. Clones share one queue.
#[derive(Clone)]
pub(crate) struct Sink {
    results: mpsc::Sender<PendingResult>,
    stream: broadcast::Sender<Arc<PollResult>>,
}

/// Writes queued results to the store in batches.
pub(crate) struct StoreWriter {
    results: mpsc::Receiver<PendingResult>,
    stream: broadcast::Sender<Arc<PollResult>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    webhooks: mpsc::Sender<WebhookPost>,
}

impl Sink {
    pub(crate) fn open(
        store: Arc<dyn Store>,
        settings: Arc<Settings>,
        client: Client,
    ) -> (Self, StoreWriter, WebhookCaller) {
        let (sender, results) = mpsc::channel(limits::PENDING_RESULTS);
        let (stream, _) = broadcast::channel(limits::STREAM);
        let (webhooks, posts) = mpsc::channel(limits::PENDING_RESULTS);
        let clock = store.clock();
        let sink = Self { results: sender, stream: stream.clone() };
        let caller = WebhookCaller::new(posts, client, settings.addresses.clone(), clock.clone());
        (sink, StoreWriter { results, stream, store, clock, settings, webhooks }, caller)
    }

    /// Queues a result; waits while the queue is full.
    pub(crate) async fn send(&self, pending: PendingResult) {
        if self.results.send(pending).await.is_err() {
            events::record_results("dropped", 1);
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<PollResult>> {
        self.stream.subscribe()
    }
}

impl StoreWriter {
    /// Runs until `end` is cancelled and the queue is empty.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let count = tokio::select! {
                biased;
                count = self.results.recv_many(&mut batch, limits::BATCH) => count,
                () = end.cancelled(), if !self.results.is_closed() => {
                    self.results.close();
                    continue;
                }
            };
            if count == 0 {
                return;
            }
            self.write_batch(std::mem::take(&mut batch)).await;
        }
    }

    async fn write_batch(&self, batch: Vec<PendingResult>) {
        let (kept, transient): (Vec<PendingResult>, Vec<PendingResult>) =
            batch.into_iter().partition(|pending| pending.keep);
        transient.iter().for_each(|pending| self.publish(pending));
        let items: Vec<Announcement> =
            kept.iter().filter_map(|pending| announcement(pending, &self.settings).ok()).collect();
        if items.is_empty() {
            return;
        }
        let answer = tokio::select! {
            biased;
            answer = self.store.announce(&items) => answer,
            () = self.clock.sleep_until(self.clock.now() + WRITE_TIMEOUT) => {
                Err(tenure_lease::Error::unknown(self.store.capabilities().engine, "timed out"))
            }
        };
        match answer {
            Ok(accepted) => {
                for (pending, accepted) in kept.iter().zip(accepted) {
                    if accepted {
                        self.publish(pending);
                    } else {
                        events::record_results("refused", 1);
                        tracing::debug!(target: "tenure::poll", endpoint = pending.result.id,
                            generation = pending.result.generation, "result of an older generation refused");
                    }
                }
            }
            Err(error) => {
                events::record_results("failed", kept.len() as u64);
                tracing::debug!(target: "tenure::poll", %error, results = kept.len(), "cannot publish results");
            }
        }
    }

    /// Sends a result to the subscribers in this process and to its webhook.
    fn publish(&self, pending: &PendingResult) {
        events::record_results("published", 1);
        // There may be no subscriber.
        let _ = self.stream.send(pending.result.clone());
        let global = self.settings.webhook.as_deref().and_then(|url| Url::parse(url).ok());
        if let Some(url) = pending.webhook.clone().or(global)
            && self.webhooks.try_send(WebhookPost { url, result: pending.result.clone() }).is_err()
        {
            events::record_webhook("dropped");
        }
    }
}

fn announcement(pending: &PendingResult, settings: &Settings) -> tenure_lease::Result<Announcement> {
    let id = &pending.result.id;
    Ok(Announcement {
        fence: pending.fence.clone(),
        channel: keys::results(id)?,
        message: pending.result.to_bytes().into(),
        latest: keys::latest(id)?,
        ttl: settings.keep_results,
        log: keys::log(id)?,
        max_len: settings.history,
    })
}
