//! The limit of stored sessions, including those that ended within the retention time.
//!
//! The log is not counted at every start. The last count plus the starts since then is an upper estimate; only near the
//! limit are the sessions counted again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_breaks::{Break, broken};
use tenure_service::Code;

use crate::error::ApiError;
use crate::limits;
use crate::state::{ApiState, bounded};

pub(crate) struct RecordLimit {
    most: usize,
    estimate: Mutex<Estimate>,
    /// Held during the first count, which concurrent starts wait for.
    first_count: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Estimate {
    /// Upper bound of stored sessions.
    stored: usize,
    /// Sessions started since the running count began.
    since: usize,
    /// When the sessions were last counted.
    counted: Option<Duration>,
    counting: bool,
}

impl RecordLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, estimate: Mutex::default(), first_count: tokio::sync::Mutex::new(()) }
    }

    /// Reserves capacity for one more session.
    pub(crate) async fn reserve(&self, api: &Arc<ApiState>) -> Result<(), ApiError> {
        self.ensure_counted(api).await;
        let (entered, recount) = self.estimate.lock().reserve(self.most, api.options.clock.now());
        if recount {
            let api = api.clone();
            api.options.tasks.clone().spawn(async move { api.record_limit.count(&api).await });
        }
        match entered || broken(Break::NoRecordLimit) {
            true => Ok(()),
            false => {
                let detail =
                    format!("the limit of {} stored sessions is reached, ended ones included", self.most);
                let mut error = ApiError::new(Code::ADMISSION_SESSIONS_FULL, detail);
                error.0 = error.0.with("retryAfterSeconds", limits::RECOUNT_FULL.as_secs());
                Err(error)
            }
        }
    }

    /// Counts once before the first reservation.
    async fn ensure_counted(&self, api: &ApiState) {
        if self.estimate.lock().counted.is_some() {
            return;
        }
        let _first = self.first_count.lock().await;
        if self.estimate.lock().counted.is_none() {
            self.count(api).await;
        }
    }

    async fn count(&self, api: &ApiState) {
        let counted = bounded(api.ports.log.count()).await;
        let mut estimate = self.estimate.lock();
        estimate.counting = false;
        match counted {
            Ok(count) => {
                estimate.stored = count + estimate.since;
                estimate.counted = Some(api.options.clock.now());
            }
            // The start itself reports what is wrong with the log.
            Err(error) => tracing::warn!(%error, "failed to count sessions"),
        }
    }
}

impl Estimate {
    /// Returns whether there is capacity, and whether the sessions should be counted again.
    fn reserve(&mut self, most: usize, now: Duration) -> (bool, bool) {
        let age = self.counted.map(|then| now.saturating_sub(then));
        let old = |limit| age.is_some_and(|age| age >= limit);
        let near = self.stored >= most / 2 && old(limits::RECOUNT);
        let full = self.stored >= most && old(limits::RECOUNT_FULL);
        let recount = (near || full) && !self.counting;
        if recount {
            (self.counting, self.since) = (true, 0);
        }
        let entered = self.stored < most;
        if entered {
            self.stored += 1;
            self.since += 1;
        }
        (entered, recount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 10;

    fn estimate(stored: usize) -> Estimate {
        Estimate { stored, counted: Some(Duration::ZERO), ..Estimate::default() }
    }

    #[test]
    fn a_start_over_the_limit_is_rejected() {
        let mut estimate = estimate(8);
        let entered = [(); 4].map(|()| estimate.reserve(MOST, Duration::ZERO).0);
        assert_eq!((entered, estimate.stored), ([true, true, false, false], MOST));
    }

    #[test]
    fn sessions_are_recounted_only_near_the_limit_and_once_at_a_time() {
        let counts = |stored, age| estimate(stored).reserve(MOST, age).1;
        let (second, minute) = (limits::RECOUNT_FULL, limits::RECOUNT);
        assert_eq!((counts(4, minute), counts(5, second), counts(5, minute)), (false, false, true));
        assert_eq!((counts(10, second / 2), counts(10, second)), (false, true));
        let mut estimate = estimate(10);
        assert!(estimate.reserve(MOST, second).1 && !estimate.reserve(MOST, second).1);
    }
}
