//! The keeper: the leases of a process and the tasks that renew and release them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Entropy, Generation, Holder, Key, Margins, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::acquire::{self, AcquireMode};
use crate::reaper::{self, Reaper};
use crate::schedule::RenewalSchedule;
use crate::{Guard, Observer, OsEntropy, Result, Terms, limits, renewer};

/// Holds the leases of a process. One task renews all of them, another releases those that were dropped.
///
/// Clones share everything. The tasks end after the last clone and the last guard were dropped and pending releases were
/// sent.
#[derive(Clone)]
pub struct Keeper {
    tasks: Arc<OwnedTasks>,
}

/// Settings of a keeper.
pub struct Builder {
    store: Arc<dyn Store>,
    holder: Holder,
    margins: Margins,
    entropy: Arc<dyn Entropy>,
    window: Duration,
    watchdog: bool,
    observer: Option<Arc<dyn Observer>>,
}

/// What the tasks share with the handles of the keeper.
pub(crate) struct State {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) holder: Holder,
    pub(crate) margins: Margins,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) window: Duration,
    pub(crate) watchdog: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) schedule: RenewalSchedule,
    pub(crate) reaper: Reaper,
    pub(crate) closed: CancellationToken,
}

/// What only handles hold: the tasks end with the last of them.
struct OwnedTasks {
    state: Arc<State>,
    tracker: TaskTracker,
}

impl Drop for OwnedTasks {
    fn drop(&mut self) {
        self.tracker.close();
        self.state.closed.cancel();
    }
}

impl Keeper {
    /// A keeper for `holder` with default margins. Must be called inside a tokio runtime.
    pub fn new(store: impl Into<Arc<dyn Store>>, holder: Holder) -> Self {
        Self::builder(store, holder).build()
    }

    /// A keeper with other settings.
    pub fn builder(store: impl Into<Arc<dyn Store>>, holder: Holder) -> Builder {
        Builder {
            store: store.into(),
            holder,
            margins: Margins::default(),
            entropy: Arc::new(OsEntropy),
            window: limits::RENEWAL_WINDOW,
            watchdog: true,
            observer: None,
        }
    }

    /// Acquires a key, waiting in its queue for up to `wait`.
    ///
    /// Cancel-safe: a dropped future leaves nothing held, at the latest after the TTL. Requests with an unknown outcome
    /// are retried with the same token for a while; nothing is assumed held.
    pub async fn acquire(&self, key: Key, terms: Terms, wait: Duration) -> Result<Guard> {
        acquire::acquire(self, key, terms, AcquireMode::waiting(wait)).await
    }

    /// Acquires a key if it is free.
    pub async fn try_acquire(&self, key: Key, terms: Terms) -> Result<Guard> {
        acquire::acquire(self, key, terms, AcquireMode::waiting(Duration::ZERO)).await
    }

    /// Acquires a key from exactly the generation `dead`, whose holder is proven dead.
    pub async fn replace(&self, key: Key, terms: Terms, dead: Generation) -> Result<Guard> {
        acquire::acquire(self, key, terms, AcquireMode::instead_of(dead)).await
    }

    /// Refuses terms that this keeper cannot meet, as every acquire does. For checks at start-up.
    pub fn check(&self, terms: &Terms) -> Result<()> {
        Ok(terms.check(&self.state().store.capabilities(), &self.state().margins)?)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.state().store
    }

    /// The store's clock, which the deadlines refer to.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.state().clock
    }

    /// The holder name of this keeper.
    pub fn holder(&self) -> &Holder {
        &self.state().holder
    }

    /// How many leases are being renewed.
    pub fn held(&self) -> usize {
        self.state().schedule.len()
    }

    /// Waits until every pending release of dropped guards and futures was sent or has expired.
    pub async fn settled(&self) {
        self.state().reaper.settled().await;
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.tasks.state
    }

    /// A store call with a time limit, after which its outcome is unknown.
    pub(crate) async fn bounded<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = tenure_lease::Result<T>>,
    ) -> tenure_lease::Result<T> {
        let give_up = self.clock().sleep_until(self.clock().now() + limit);
        tokio::select! {
            biased;
            result = call => result,
            () = give_up => {
                Err(tenure_lease::Error::unknown(self.store().capabilities().engine, "no response in time"))
            }
        }
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks.tracker
    }
}

impl Builder {
    /// Sets the margins between the store's TTL and the holder's deadline.
    pub fn margins(mut self, margins: Margins) -> Self {
        self.margins = margins;
        self
    }

    /// Sets the source of tokens and jitter, for simulations.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Lets renewals due within this time of each other share a call.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Starts no watchdog threads for gates, for simulations, where a thread would bring in real time. In a real process
    /// the watchdog ends it when the runtime is blocked.
    pub fn without_watchdog(mut self) -> Self {
        self.watchdog = false;
        self
    }

    /// Notifies `observer` of every renewal.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts the keeper. Must be called inside a tokio runtime.
    pub fn build(self) -> Keeper {
        let clock = self.store.clock();
        let (reaper, releases) = Reaper::new();
        let tracker = TaskTracker::new();
        tracker.spawn(reaper::run(releases, self.store.clone(), clock.clone()));
        let state = Arc::new(State {
            store: self.store,
            clock,
            holder: self.holder,
            margins: self.margins,
            entropy: self.entropy,
            window: self.window,
            watchdog: self.watchdog,
            observer: self.observer,
            schedule: RenewalSchedule::default(),
            reaper,
            closed: CancellationToken::new(),
        });
        tracker.spawn(renewer::run(state.clone()));
        Keeper { tasks: Arc::new(OwnedTasks { state, tracker }) }
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
