//! One timer task for all targets of a node. A clock that counts suspend has to be re-read at intervals, and ten
//! thousand separate sleeps would each do so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};
use tokio::sync::{Notify, oneshot};

/// Longest sleep of the timer task while no timer is set.
const IDLE: Duration = Duration::from_secs(3_600);

/// Completes many sleeps from one task.
#[derive(Default)]
pub(crate) struct TimerQueue {
    pending: Mutex<Pending>,
    sooner: Notify,
}

#[derive(Default)]
struct Pending {
    next_id: u64,
    wakers: BTreeMap<(Tick, u64), oneshot::Sender<()>>,
}

/// Removes its waker when the sleep is dropped.
struct PendingSleep<'a> {
    timers: &'a TimerQueue,
    at: (Tick, u64),
}

impl Drop for PendingSleep<'_> {
    fn drop(&mut self) {
        self.timers.pending.lock().wakers.remove(&self.at);
    }
}

impl TimerQueue {
    /// Completes when the clock has reached `at`. Requires [`TimerQueue::run`] to be running.
    pub(crate) async fn sleep_until(&self, at: Tick) {
        let (waker, woken) = oneshot::channel();
        let (sleep, first) = {
            let mut pending = self.pending.lock();
            pending.next_id += 1;
            let key = (at, pending.next_id);
            let first = pending.wakers.first_key_value().is_none_or(|(first, _)| key < *first);
            pending.wakers.insert(key, waker);
            (PendingSleep { timers: self, at: key }, first)
        };
        if first {
            self.sooner.notify_one();
        }
        // If the timer task has ended, the sleep must not complete early.
        if woken.await.is_err() {
            std::future::pending::<()>().await;
        }
        drop(sleep);
    }

    /// Wakes due sleeps until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>, clock: Arc<dyn Clock>) {
        loop {
            let next = self.pending.lock().wakers.first_key_value().map(|((at, _), _)| *at);
            let now = clock.now();
            match next {
                Some(at) if at <= now => self.wake_until(now),
                next => tokio::select! {
                    biased;
                    () = self.sooner.notified() => {}
                    () = clock.sleep_until(next.unwrap_or(now + IDLE)) => {}
                },
            }
        }
    }

    fn wake_until(&self, now: Tick) {
        let due = {
            let mut pending = self.pending.lock();
            let later = pending.wakers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut pending.wakers, later)
        };
        for waker in due.into_values() {
            // The sleep may have been dropped meanwhile.
            let _ = waker.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::TokioClock;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_sleep_completes_on_time_and_none_too_early() {
        let clock = Arc::new(TokioClock::default());
        let timers = Arc::new(TimerQueue::default());
        let mut tasks = JoinSet::new();
        let mut timer_task = JoinSet::new();
        timer_task.spawn(timers.clone().run(clock.clone()));
        let start = clock.now();
        for i in [5_u64, 1, 3, 1, 900, 2] {
            let (timers, clock) = (timers.clone(), clock.clone());
            tasks.spawn(async move {
                let at = start + Duration::from_secs(i);
                timers.sleep_until(at).await;
                assert!(clock.now() >= at && clock.now() < at + Duration::from_millis(10), "{i}");
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_sleep_leaves_no_waker_behind() {
        let timers = TimerQueue::default();
        tokio::select! {
            biased;
            () = timers.sleep_until(Tick::from_nanos(u64::MAX)) => {}
            () = std::future::ready(()) => {}
        }
        assert!(timers.pending.lock().wakers.is_empty());
    }
}
