//! Posts results to webhooks: in order for each origin, and independently of other origins.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};
use tenure_lease::Clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::result::PollResult;
use crate::{AddressFilter, events, limits};

/// Maximum number of calls for one result, and the timeout of each.
const ATTEMPTS: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the first failed call; it doubles.
const PAUSE: Duration = Duration::from_millis(200);

/// A result and the webhook that receives it.
pub(crate) struct WebhookPost {
    pub(crate) url: Url,
    pub(crate) result: Arc<PollResult>,
}

/// Calls webhooks, one call at a time per origin.
pub(crate) struct WebhookCaller {
    posts: mpsc::Receiver<WebhookPost>,
    poster: Poster,
    /// What waits for a call in flight to the same origin. An origin with a call in flight has an entry.
    waiting: HashMap<String, VecDeque<WebhookPost>>,
    /// Origins without a call in flight, because too many calls are.
    ready: VecDeque<String>,
    calls: JoinSet<String>,
}

#[derive(Clone)]
struct Poster {
    client: Client,
    addresses: AddressFilter,
    clock: Arc<dyn Clock>,
}

impl WebhookCaller {
    pub(crate) fn new(
        posts: mpsc::Receiver<WebhookPost>,
        client: Client,
        addresses: AddressFilter,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            posts,
            poster: Poster { client, addresses, clock },
            waiting: HashMap::new(),
            ready: VecDeque::new(),
            calls: JoinSet::new(),
        }
    }

    /// Runs until the sender of posts is dropped and all calls are done. A slow webhook delays only its own origin.
    pub(crate) async fn run(mut self) {
        let mut open = true;
        while open || !self.calls.is_empty() {
            tokio::select! {
                biased;
                Some(done) = self.calls.join_next(), if !self.calls.is_empty() => self.on_done(done.ok()),
                post = self.posts.recv(), if open => match post {
                    Some(post) => self.enqueue(post),
                    None => open = false,
                },
            }
        }
    }

    fn enqueue(&mut self, post: WebhookPost) {
        let origin = post.url.origin().ascii_serialization();
        let known = self.waiting.len();
        match self.waiting.get_mut(&origin) {
            Some(queue) if queue.len() < limits::WEBHOOK_QUEUE => queue.push_back(post),
            None if known < limits::WEBHOOK_ORIGINS => {
                self.waiting.insert(origin.clone(), VecDeque::from([post]));
                self.ready.push_back(origin);
                self.start_calls();
            }
            _ => events::record_webhook("dropped"),
        }
    }

    fn on_done(&mut self, origin: Option<String>) {
        if let Some(origin) = origin {
            match self.waiting.get(&origin).is_some_and(|queue| !queue.is_empty()) {
                true => self.ready.push_back(origin),
                false => drop(self.waiting.remove(&origin)),
            }
        }
        self.start_calls();
    }

    fn start_calls(&mut self) {
        while self.calls.len() < limits::WEBHOOK_CALLS
            && let Some(origin) = self.ready.pop_front()
        {
            let Some(post) = self.waiting.get_mut(&origin).and_then(VecDeque::pop_front) else { continue };
            let poster = self.poster.clone();
            self.calls.spawn(async move {
                poster.deliver(&post).await;
                origin
            });
        }
    }
}

impl Poster {
    /// Posts a result and retries failed calls.
    async fn deliver(&self, post: &WebhookPost) {
        if let Err(denied) = self.addresses.check_url(&post.url) {
            events::record_webhook("denied");
            tracing::warn!(target: "tenure::poll", endpoint = post.result.id, %denied, "webhook not called");
            return;
        }
        let mut wait = PAUSE;
        for attempt in 1..=ATTEMPTS {
            if self.call(post).await {
                events::record_webhook("called");
                return;
            }
            if attempt < ATTEMPTS {
                self.clock.sleep_until(self.clock.now() + wait).await;
                wait *= 2;
            }
        }
        events::record_webhook("failed");
    }

    async fn call(&self, post: &WebhookPost) -> bool {
        let request = self.client.post(post.url.clone()).json(&*post.result).send();
        tokio::select! {
            biased;
            answer = request => answer.is_ok_and(|answer| answer.status().is_success()),
            () = self.clock.sleep_until(self.clock.now() + TIMEOUT) => false,
        }
    }
}

#[cfg(test)]
mod tests;
