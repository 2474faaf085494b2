//! A running global controller.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Error, Result, Tick};
use tenure_service::Buckets;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::ApiError;
use crate::reachability::Reachability;
use crate::registry::Reservations;
use crate::single_flight::SingleFlights;
use crate::verdict::Evidence;
use crate::{Options, limits, sweep};

/// A global controller. Clones share it.
#[derive(Clone)]
pub struct Gc {
    pub(crate) state: Arc<GcState>,
}

/// State shared by all requests.
pub(crate) struct GcState {
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    /// Assignments in progress, by meeting, with their last failure.
    pub(crate) flights: SingleFlights<ApiError>,
    /// Probes in progress, by meeting and generation.
    pub(crate) probes: SingleFlights<Evidence>,
    pub(crate) reservations: Reservations,
    pub(crate) reachability: Reachability,
    /// When a store call last failed.
    store_failed: Mutex<Option<Tick>>,
    pub(crate) guests: Mutex<Buckets<IpAddr>>,
    joins: Mutex<Buckets<String>>,
    reports: Mutex<Buckets<String>>,
}

/// The background tasks of a global controller.
#[must_use = "shut it down"]
pub struct Running {
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Gc {
    /// Starts a global controller. Must be called inside a tokio runtime.
    pub fn start(options: Options) -> (Self, Running) {
        let rules = &options.rules;
        let guests = Buckets::new(rules.guest_burst.max(1), rules.guest_refill, limits::ADDRESSES);
        let joins = Buckets::new(rules.join_burst.max(1), rules.join_refill, limits::USERS);
        let (burst, refill) = limits::REPORTS;
        let reports = Buckets::new(burst, refill, limits::USERS);
        let state = Arc::new(GcState {
            clock: options.store.clock(),
            flights: SingleFlights::default(),
            probes: SingleFlights::default(),
            reservations: Reservations::default(),
            reachability: Reachability::default(),
            store_failed: Mutex::default(),
            guests: Mutex::new(guests),
            joins: Mutex::new(joins),
            reports: Mutex::new(reports),
            options,
        });
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (swept, ended) = (state.clone(), cancel.clone());
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = sweep::keep_sweeping(&swept) => {}
                () = swept.keep_counting() => {}
            }
        });
        tasks.close();
        (Self { state }, Running { tasks, cancel })
    }

    /// Sweeps all meetings once: closes inactive ones and deletes those closed long ago. A background task does the same
    /// periodically.
    pub async fn sweep(&self) -> Result<()> {
        sweep::sweep(&self.state).await
    }
}

impl Running {
    /// Stops the background tasks.
    pub async fn shut_down(self) {
        self.cancel.cancel();
        self.tasks.wait().await;
    }
}

impl GcState {
    /// Bounds a store call by a timeout. After a timeout, a write may have taken effect.
    pub(crate) async fn bounded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let late = self.clock.sleep_until(self.clock.now() + limits::STORE);
        let answer = tokio::select! {
            biased;
            answer = work => answer,
            () = late => {
                let why = format!("no response within {} s", limits::STORE.as_secs());
                Err(Error::unknown("store", why))
            }
        };
        if matches!(answer, Err(Error::Unavailable { .. } | Error::Unknown { .. })) {
            *self.store_failed.lock() = Some(self.clock.now());
        }
        answer
    }

    /// Whether a store call failed a moment ago.
    pub(crate) fn store_is_failing(&self, now: Tick) -> bool {
        self.store_failed.lock().is_some_and(|at| now.since(at) < limits::STORE_FAILING)
    }

    /// Takes one permit from a rate limiter.
    pub(crate) fn admit<K: Hash + Eq + Clone>(
        &self,
        allowance: &Mutex<Buckets<K>>,
        key: &K,
    ) -> Result<(), ApiError> {
        let now = Duration::from_nanos(self.clock.now().as_nanos());
        allowance.lock().take(key, now).map_or(Ok(()), |wait| Err(ApiError::TooFast(wait)))
    }

    /// Admits a join of a user.
    pub(crate) fn admit_join(&self, user: &str) -> Result<(), ApiError> {
        self.admit(&self.joins, &user.to_owned())
    }

    /// Admits a report of a user.
    pub(crate) fn admit_report(&self, user: &str) -> Result<(), ApiError> {
        self.admit(&self.reports, &user.to_owned())
    }

    /// Sleeps on the clock.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// A random number below `n`.
    pub(crate) fn below(&self, n: usize) -> usize {
        let mut bytes = [0; 8];
        self.options.entropy.fill(&mut bytes);
        (u64::from_le_bytes(bytes) % (n.max(1) as u64)) as usize
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall().as_millis()
    }
}
