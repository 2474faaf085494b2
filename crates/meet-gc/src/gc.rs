//! A running global controller.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Result};
use parking_lot::Mutex;
use service::Buckets;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assign::Flights;
use crate::registry::Reservations;
use crate::trouble::Trouble;
use crate::{Options, limits, sweep};

/// A global controller. Cloning shares it.
#[derive(Clone)]
pub struct Gc {
    pub(crate) site: Arc<Site>,
}

/// What all requests share.
pub(crate) struct Site {
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flights: Flights,
    pub(crate) reservations: Reservations,
    pub(crate) guests: Mutex<Buckets<IpAddr>>,
    joins: Mutex<Buckets<String>>,
    reports: Mutex<Buckets<String>>,
}

/// What a global controller does by itself.
#[must_use = "it is to be shut down"]
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
        let site = Arc::new(Site {
            clock: options.store.clock(),
            flights: Flights::default(),
            reservations: Reservations::default(),
            guests: Mutex::new(guests),
            joins: Mutex::new(joins),
            reports: Mutex::new(reports),
            options,
        });
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let (swept, ended) = (site.clone(), cancel.clone());
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = sweep::keep_sweeping(&swept) => {}
                () = swept.keep_counting() => {}
            }
        });
        tasks.close();
        (Self { site }, Running { tasks, cancel })
    }

    /// Looks through all meetings once: closes those in which nothing happened, forgets those that were closed long ago. It also
    /// happens by itself.
    pub async fn sweep(&self) -> Result<()> {
        sweep::sweep(&self.site).await
    }
}

impl Running {
    /// Ends it.
    pub async fn shut_down(self) {
        self.cancel.cancel();
        self.tasks.wait().await;
    }
}

impl Site {
    /// The answer of the store, which must come in time. Without one it may have happened.
    pub(crate) async fn bounded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let late = self.clock.sleep_until(self.clock.now() + limits::STORE);
        tokio::select! {
            biased;
            answer = work => answer,
            () = late => {
                let why = format!("no answer within {} s", limits::STORE.as_secs());
                Err(lease::Error::unknown("store", why))
            }
        }
    }

    /// Takes one out of an allowance.
    pub(crate) fn admit<K: Hash + Eq + Clone>(
        &self,
        allowance: &Mutex<Buckets<K>>,
        who: &K,
    ) -> Result<(), Trouble> {
        let now = Duration::from_nanos(self.clock.now().as_nanos());
        allowance.lock().take(who, now).map_or(Ok(()), |wait| Err(Trouble::TooFast(wait)))
    }

    /// One more join of a user.
    pub(crate) fn admit_join(&self, user: &str) -> Result<(), Trouble> {
        self.admit(&self.joins, &user.to_owned())
    }

    /// One more report of a user.
    pub(crate) fn admit_report(&self, user: &str) -> Result<(), Trouble> {
        self.admit(&self.reports, &user.to_owned())
    }

    /// Waits.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// A number below `n`.
    pub(crate) fn below(&self, n: usize) -> usize {
        let mut bytes = [0; 8];
        self.options.entropy.fill(&mut bytes);
        (u64::from_le_bytes(bytes) % (n.max(1) as u64)) as usize
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall().as_millis()
    }
}
