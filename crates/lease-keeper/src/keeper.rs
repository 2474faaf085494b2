//! The one who renews.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Entropy, Generation, Holder, Key, Margins, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::acquire::{self, Want};
use crate::reaper::{self, Reaper};
use crate::roll::Roll;
use crate::{Guard, Observer, OsEntropy, Result, Terms, limits, renewer};

/// Holds the leases of a process: one task renews all of them, another gives back what was dropped.
///
/// Clones share everything. The tasks end when the last clone and the last guard are gone; releases that
/// are owed by then are still sent.
#[derive(Clone)]
pub struct Keeper {
    inner: Arc<Inner>,
}

/// What a keeper is made of.
pub struct Builder {
    store: Arc<dyn Store>,
    holder: Holder,
    margins: Margins,
    entropy: Arc<dyn Entropy>,
    window: Duration,
    watchdog: bool,
    observer: Option<Arc<dyn Observer>>,
}

/// What the tasks share with the handles.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) holder: Holder,
    pub(crate) margins: Margins,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) window: Duration,
    pub(crate) watchdog: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) roll: Roll,
    pub(crate) reaper: Reaper,
    pub(crate) closed: CancellationToken,
}

/// What only handles hold: with the last of them the tasks end.
struct Inner {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.close();
        self.shared.closed.cancel();
    }
}

impl Keeper {
    /// A keeper for `holder` with default margins. Must be called inside a tokio runtime.
    pub fn new(store: impl Into<Arc<dyn Store>>, holder: Holder) -> Self {
        Self::builder(store, holder).build()
    }

    /// A keeper with settings of its own.
    pub fn builder(store: impl Into<Arc<dyn Store>>, holder: Holder) -> Builder {
        Builder {
            store: store.into(),
            holder,
            margins: Margins::default(),
            entropy: Arc::new(OsEntropy),
            window: limits::WINDOW,
            watchdog: true,
            observer: None,
        }
    }

    /// Takes a key, waiting in its queue for up to `wait`.
    ///
    /// Cancel-safe: a dropped future leaves nothing held, at the latest when the TTL has run out. Outcomes
    /// that stay unknown are asked again with the same token for a while; nothing is assumed held.
    pub async fn acquire(&self, key: Key, terms: Terms, wait: Duration) -> Result<Guard> {
        acquire::acquire(self, key, terms, Want::waiting(wait)).await
    }

    /// Takes a key if it is free.
    pub async fn try_acquire(&self, key: Key, terms: Terms) -> Result<Guard> {
        acquire::acquire(self, key, terms, Want::waiting(Duration::ZERO)).await
    }

    /// Takes a key from exactly the generation `dead`, whose holder is proven dead.
    pub async fn replace(&self, key: Key, terms: Terms, dead: Generation) -> Result<Guard> {
        acquire::acquire(self, key, terms, Want::instead_of(dead)).await
    }

    /// Refuses terms that this keeper could not keep, as every acquire does: for checks at start.
    pub fn check(&self, terms: &Terms) -> Result<()> {
        Ok(terms.check(&self.shared().store.capabilities(), &self.shared().margins)?)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared().store
    }

    /// The store's clock, on which the deadlines are.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared().clock
    }

    /// The name under which this keeper holds.
    pub fn holder(&self) -> &Holder {
        &self.shared().holder
    }

    /// How many leases are being renewed.
    pub fn held(&self) -> usize {
        self.shared().roll.len()
    }

    /// Waits until every release that dropped guards and futures owe was sent or is past its bound.
    pub async fn settled(&self) {
        self.shared().reaper.settled().await;
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// A store call that takes at most `limit`; unanswered by then, its outcome is unknown.
    pub(crate) async fn bounded<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = lease::Result<T>>,
    ) -> lease::Result<T> {
        let give_up = self.clock().sleep_until(self.clock().now() + limit);
        tokio::select! {
            biased;
            answer = call => answer,
            () = give_up => {
                Err(lease::Error::unknown(self.store().capabilities().engine, "no answer in time"))
            }
        }
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.inner.tasks
    }
}

impl Builder {
    /// Other margins between the store's TTL and the holder's deadline.
    pub fn margins(mut self, margins: Margins) -> Self {
        self.margins = margins;
        self
    }

    /// Another source of tokens and jitter: for simulations.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Renewals due within this time of each other share a call.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Gates get no thread of their own that watches their deadline: for simulations, where a thread would
    /// bring real time in. In a real process the thread is what ends it when the runtime is stuck.
    pub fn without_watchdog(mut self) -> Self {
        self.watchdog = false;
        self
    }

    /// Somebody who is told of every renewal.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts the keeper. Must be called inside a tokio runtime.
    pub fn build(self) -> Keeper {
        let clock = self.store.clock();
        let (reaper, debts) = Reaper::new();
        let tasks = TaskTracker::new();
        tasks.spawn(reaper::run(debts, self.store.clone(), clock.clone()));
        let shared = Arc::new(Shared {
            store: self.store,
            clock,
            holder: self.holder,
            margins: self.margins,
            entropy: self.entropy,
            window: self.window,
            watchdog: self.watchdog,
            observer: self.observer,
            roll: Roll::default(),
            reaper,
            closed: CancellationToken::new(),
        });
        tasks.spawn(renewer::run(shared.clone()));
        Keeper { inner: Arc::new(Inner { shared, tasks }) }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.store().capabilities().engine;
        f.debug_struct("Keeper")
            .field("holder", self.holder())
            .field("engine", &engine)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("holder", &self.holder).finish_non_exhaustive()
    }
}
