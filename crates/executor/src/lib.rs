//! Runs all futures of a connection as one task.
//!
//! An HTTP/2 connection is several futures that wake one another for every message. With a task for each, every such
//! wake-up goes through the scheduler, which also wakes a second thread to look for more work: on a quiet machine that
//! takes longer than all the rest. In a [`ConnectionExecutor`] they are one task: a wake-up from within sets a flag.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use futures_util::{FutureExt, StreamExt};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::task::coop;

/// How often the task polls its futures again before it yields to other tasks.
const MAX_ROUNDS: usize = 64;

/// The main future was woken.
const MAIN: u8 = 1;
/// One of the spawned futures was woken.
const SPAWNED: u8 = 2;
/// The task is polling its futures, and sees wake-ups without being woken itself.
const POLLING: u8 = 4;
/// A future was spawned.
const SPAWNING: u8 = 8;

/// Runs spawned futures within the task of a main one, which [`ConnectionExecutor::run`] is. Clones share the task.
#[derive(Clone)]
pub struct ConnectionExecutor(Arc<State>);

struct State {
    /// Futures to be polled in the next round; none are accepted once the main future has ended.
    spawned: Mutex<Option<Vec<BoxFuture<'static, ()>>>>,
    wake_ups: Arc<WakeUps>,
}

/// Which futures were woken, and the waker of the task.
struct WakeUps {
    woken: AtomicU8,
    task: AtomicWaker,
}

impl WakeUps {
    fn add(&self, source: u8) {
        if self.woken.fetch_or(source, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }

    /// What was woken since the last call; zero once the task may sleep.
    fn take_woken(&self) -> u8 {
        let woken = self.woken.swap(POLLING, Ordering::AcqRel) & !POLLING;
        if woken != 0 {
            return woken;
        }
        match self.woken.compare_exchange(POLLING, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => 0,
            Err(_) => self.woken.swap(POLLING, Ordering::AcqRel) & !POLLING,
        }
    }
}

/// A waker that records its source.
struct SourceWaker<const SOURCE: u8>(Arc<WakeUps>);

impl<const SOURCE: u8> Wake for SourceWaker<SOURCE> {
    fn wake(self: Arc<Self>) {
        self.0.add(SOURCE);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.add(SOURCE);
    }
}

impl Default for ConnectionExecutor {
    fn default() -> Self {
        // Nothing has been polled yet.
        let wake_ups = Arc::new(WakeUps { woken: AtomicU8::new(MAIN | SPAWNING), task: AtomicWaker::new() });
        Self(Arc::new(State { spawned: Mutex::new(Some(Vec::new())), wake_ups }))
    }
}

/// Closes the executor when its task ends, also if the task was aborted or never polled.
struct CloseOnDrop(Arc<State>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        // A spawned future may hold the executor itself, so drop it after the lock.
        let left = self.0.spawned.lock().take();
        drop(left);
    }
}

impl State {
    fn take_spawned(&self) -> Vec<BoxFuture<'static, ()>> {
        self.spawned.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl ConnectionExecutor {
    /// Runs `main` and everything spawned meanwhile as one task. Ends with `main`, and drops what still runs then.
    pub fn run<F: Future>(self, main: F) -> impl Future<Output = F::Output> {
        let close = CloseOnDrop(self.0.clone());
        self.poll_all(main, close)
    }

    async fn poll_all<F: Future>(self, main: F, _close: CloseOnDrop) -> F::Output {
        let wake_ups = &*self.0.wake_ups;
        let main_waker = Waker::from(Arc::new(SourceWaker::<MAIN>(self.0.wake_ups.clone())));
        let spawned_waker = Waker::from(Arc::new(SourceWaker::<SPAWNED>(self.0.wake_ups.clone())));
        let mut main = pin!(main);
        let mut spawned = FuturesUnordered::new();
        poll_fn(|context| {
            wake_ups.task.register(context.waker());
            for _ in 0..MAX_ROUNDS {
                let woken = wake_ups.take_woken();
                if woken == 0 {
                    return Poll::Pending;
                }
                if woken & MAIN != 0
                    && let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&main_waker))
                {
                    return Poll::Ready(output);
                }
                if woken & SPAWNING != 0 {
                    spawned.extend(self.0.take_spawned());
                }
                if woken & (SPAWNED | SPAWNING) != 0 {
                    let mut inside = Context::from_waker(&spawned_waker);
                    while let Poll::Ready(Some(())) = spawned.poll_next_unpin(&mut inside) {}
                }
                if !coop::has_budget_remaining() {
                    break;
                }
            }
            // Yields to other tasks.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl<F> Executor<F> for ConnectionExecutor
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let future = future.map(drop).boxed();
        let rejected = match &mut *self.0.spawned.lock() {
            Some(spawned) => {
                spawned.push(future);
                None
            }
            None => Some(future),
        };
        if rejected.is_none() {
            self.0.wake_ups.add(SPAWNING);
        }
    }
}

impl fmt::Debug for ConnectionExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionExecutor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Spawns a future that answers every number with the next one.
    fn spawn_counter(executor: &ConnectionExecutor) -> (mpsc::Sender<u32>, mpsc::Receiver<u32>) {
        let ((requests, mut received), (replies, answers)) = (mpsc::channel(1), mpsc::channel(1));
        executor.execute(async move {
            while let Some(n) = received.recv().await {
                let _ = replies.send(n + 1).await;
            }
        });
        (requests, answers)
    }

    #[test]
    fn futures_of_one_executor_wake_one_another_without_the_scheduler() {
        let executor = ConnectionExecutor::default();
        let (requests, mut answers) = spawn_counter(&executor);
        let main = async {
            let mut n = 0;
            while n < 20 {
                requests.send(n).await.unwrap();
                n = answers.recv().await.unwrap();
            }
            n
        };
        let mut task = pin!(executor.run(main));
        let woken = Arc::new(WakeCount::default());
        let waker = Waker::from(woken.clone());
        assert_eq!(task.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(20));
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn spawned_futures_run_until_the_main_future_ends() {
        let executor = ConnectionExecutor::default();
        let (started, start) = oneshot::channel();
        let (alive, dropped) = oneshot::channel::<()>();
        let spawner = executor.clone();
        let main = async move {
            spawner.execute(async move { started.send("started").unwrap() });
            spawner.execute(async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            });
            start.await.unwrap()
        };
        assert_eq!(executor.clone().run(main).await, "started");
        assert!(dropped.await.is_err(), "dropped with the main future");
        let (late, rejected) = oneshot::channel::<()>();
        executor.execute(async move { late.send(()) });
        assert!(rejected.await.is_err(), "an executor that has ended accepts nothing");
    }

    #[tokio::test]
    async fn an_executor_that_never_ran_drops_what_was_spawned() {
        let executor = ConnectionExecutor::default();
        let (alive, dropped) = oneshot::channel::<()>();
        let itself = executor.clone();
        executor.execute(async move {
            let _alive = (alive, itself);
            std::future::pending::<()>().await;
        });
        drop(executor.run(std::future::pending::<()>()));
        assert!(dropped.await.is_err());
    }

    #[tokio::test]
    async fn an_executor_that_never_sleeps_yields_to_other_tasks() {
        let executor = ConnectionExecutor::default();
        executor.execute(async {
            loop {
                // Wakes itself for ever.
                poll_fn(|context| {
                    context.waker().wake_by_ref();
                    Poll::<()>::Pending
                })
                .await;
            }
        });
        let (number, received) = oneshot::channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(executor.run(async move { received.await.unwrap() }));
        tokio::task::yield_now().await;
        number.send(7).unwrap();
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_from_another_thread_is_lost() {
        let executor = ConnectionExecutor::default();
        let (requests, mut answers) = spawn_counter(&executor);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(executor.run(std::future::pending::<()>()));
        let mut n = 0;
        while n < 10_000 {
            requests.send(n).await.unwrap();
            n = answers.recv().await.unwrap();
        }
        assert_eq!(n, 10_000);
    }
}
