//! One timer for all targets of a node: a clock that counts suspend has to be looked at now and then, and ten
//! thousand sleepers would each do so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Tick};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// How long nobody waits at most before the ringer looks again.
const IDLE: Duration = Duration::from_secs(3_600);

/// Wakes many at their times.
#[derive(Default)]
pub(crate) struct Alarms {
    waiting: Mutex<Waiting>,
    sooner: Notify,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    bells: BTreeMap<(Tick, u64), oneshot::Sender<()>>,
}

/// Forgets its bell when its future is dropped.
struct Set<'a> {
    alarms: &'a Alarms,
    at: (Tick, u64),
}

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.alarms.waiting.lock().bells.remove(&self.at);
    }
}

impl Alarms {
    /// Ends when the clock has reached `at`; needs the ringer to run.
    pub(crate) async fn at(&self, at: Tick) {
        let (bell, rings) = oneshot::channel();
        let (set, first) = {
            let mut waiting = self.waiting.lock();
            waiting.next += 1;
            let set = (at, waiting.next);
            let first = waiting.bells.first_key_value().is_none_or(|(first, _)| set < *first);
            waiting.bells.insert(set, bell);
            (Set { alarms: self, at: set }, first)
        };
        if first {
            self.sooner.notify_one();
        }
        // A ringer that is gone wakes nobody too early.
        if rings.await.is_err() {
            std::future::pending::<()>().await;
        }
        drop(set);
    }

    /// Rings for ever.
    pub(crate) async fn ring(self: Arc<Self>, clock: Arc<dyn Clock>) {
        loop {
            let next = self.waiting.lock().bells.first_key_value().map(|((at, _), _)| *at);
            let now = clock.now();
            match next {
                Some(at) if at <= now => self.ring_until(now),
                next => tokio::select! {
                    biased;
                    () = self.sooner.notified() => {}
                    () = clock.sleep_until(next.unwrap_or(now + IDLE)) => {}
                },
            }
        }
    }

    fn ring_until(&self, now: Tick) {
        let due = {
            let mut waiting = self.waiting.lock();
            let later = waiting.bells.split_off(&(now, u64::MAX));
            std::mem::replace(&mut waiting.bells, later)
        };
        for bell in due.into_values() {
            // Whoever waits no more needs no waking.
            let _ = bell.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use lease_store::TokioClock;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn everybody_is_woken_in_time_and_nobody_too_early() {
        let clock = Arc::new(TokioClock::default());
        let alarms = Arc::new(Alarms::default());
        let mut tasks = JoinSet::new();
        let mut ringer = JoinSet::new();
        ringer.spawn(alarms.clone().ring(clock.clone()));
        let start = clock.now();
        for i in [5_u64, 1, 3, 1, 900, 2] {
            let (alarms, clock) = (alarms.clone(), clock.clone());
            tasks.spawn(async move {
                let at = start + Duration::from_secs(i);
                alarms.at(at).await;
                assert!(clock.now() >= at && clock.now() < at + Duration::from_millis(10), "{i}");
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_no_more_leaves_nothing_behind() {
        let alarms = Alarms::default();
        tokio::select! {
            biased;
            () = alarms.at(Tick::from_nanos(u64::MAX)) => {}
            () = std::future::ready(()) => {}
        }
        assert!(alarms.waiting.lock().bells.is_empty());
    }
}
