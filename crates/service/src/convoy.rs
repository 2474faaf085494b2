//! Futures that travel as one task.
//!
//! A connection of HTTP/2 is several futures that wake one another for every message. With a task for each, every such
//! wake is a matter for the scheduler, which also wakes a second thread to look for more work: on a quiet machine that
//! takes longer than all the rest. In a convoy they are one task: a wake from within is a look at a flag.

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

/// How often a convoy looks again by itself before others have their turn.
const ROUNDS: usize = 64;

/// The main future was woken.
const MAIN: u8 = 1;
/// One of the others was woken.
const OTHERS: u8 = 2;
/// Somebody joins.
const JOINING: u8 = 8;
/// The task is looking at its futures: it sees by itself who is woken meanwhile.
const LOOKING: u8 = 4;

/// Takes futures into the task of a main one; [`Convoy::lead`] is that task. Clones are the same convoy.
#[derive(Clone)]
pub struct Convoy(Arc<Shared>);

struct Shared {
    /// Who joins at the next look; nobody can any more once the main future is over.
    joining: Mutex<Option<Vec<BoxFuture<'static, ()>>>>,
    bell: Arc<Bell>,
}

/// Who was woken, and how to reach the task unless it is looking anyway.
struct Bell {
    woken: AtomicU8,
    task: AtomicWaker,
}

impl Bell {
    fn ring(&self, who: u8) {
        if self.woken.fetch_or(who, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }

    /// Who was woken since the last look; nobody, once the task may rest.
    fn woken(&self) -> u8 {
        let woken = self.woken.swap(LOOKING, Ordering::AcqRel) & !LOOKING;
        if woken != 0 {
            return woken;
        }
        match self.woken.compare_exchange(LOOKING, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => 0,
            Err(_) => self.woken.swap(LOOKING, Ordering::AcqRel) & !LOOKING,
        }
    }
}

/// The bell as one part of the task hears it.
struct Part<const WHO: u8>(Arc<Bell>);

impl<const WHO: u8> Wake for Part<WHO> {
    fn wake(self: Arc<Self>) {
        self.0.ring(WHO);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ring(WHO);
    }
}

impl Default for Convoy {
    fn default() -> Self {
        // Nobody has been looked at yet.
        let bell = Arc::new(Bell { woken: AtomicU8::new(MAIN | JOINING), task: AtomicWaker::new() });
        Self(Arc::new(Shared { joining: Mutex::new(Some(Vec::new())), bell }))
    }
}

/// The end of a convoy, also of one whose task was aborted or never began.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        // Who waited to join may hold the convoy itself; dropped after the lock.
        let left = self.0.joining.lock().take();
        drop(left);
    }
}

impl Shared {
    fn joined(&self) -> Vec<BoxFuture<'static, ()>> {
        self.joining.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Convoy {
    /// Runs `main` and whatever joins meanwhile, as one task. Ends with `main`; who still travels then is dropped.
    pub fn lead<F: Future>(self, main: F) -> impl Future<Output = F::Output> {
        let end = End(self.0.clone());
        self.travel(main, end)
    }

    async fn travel<F: Future>(self, main: F, _end: End) -> F::Output {
        let bell = &*self.0.bell;
        let main_waker = Waker::from(Arc::new(Part::<MAIN>(self.0.bell.clone())));
        let others_waker = Waker::from(Arc::new(Part::<OTHERS>(self.0.bell.clone())));
        let mut main = pin!(main);
        let mut others = FuturesUnordered::new();
        poll_fn(|context| {
            bell.task.register(context.waker());
            for _ in 0..ROUNDS {
                let woken = bell.woken();
                if woken == 0 {
                    return Poll::Pending;
                }
                if woken & MAIN != 0
                    && let Poll::Ready(output) = main.as_mut().poll(&mut Context::from_waker(&main_waker))
                {
                    return Poll::Ready(output);
                }
                if woken & JOINING != 0 {
                    others.extend(self.0.joined());
                }
                if woken & (OTHERS | JOINING) != 0 {
                    let mut inside = Context::from_waker(&others_waker);
                    while let Poll::Ready(Some(())) = others.poll_next_unpin(&mut inside) {}
                }
                if !coop::has_budget_remaining() {
                    break;
                }
            }
            // Others have their turn.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl<F> Executor<F> for Convoy
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let future = future.map(drop).boxed();
        let late = match &mut *self.0.joining.lock() {
            Some(joining) => {
                joining.push(future);
                None
            }
            None => Some(future),
        };
        if late.is_none() {
            self.0.bell.ring(JOINING);
        }
    }
}

impl fmt::Debug for Convoy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Convoy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_travels_together_wakes_one_another_without_the_scheduler() {
        let convoy = Convoy::default();
        let ((there, mut here), (back, mut home)) = (mpsc::channel(1), mpsc::channel(1));
        convoy.execute(async move {
            while let Some(n) = here.recv().await {
                let _ = back.send(n + 1).await;
            }
        });
        let main = async {
            let mut n = 0;
            while n < 20 {
                there.send(n).await.unwrap();
                n = home.recv().await.unwrap();
            }
            n
        };
        let mut task = pin!(convoy.lead(main));
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        assert_eq!(task.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(20));
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn who_joins_on_the_way_is_taken_along_and_left_behind_at_the_end() {
        let convoy = Convoy::default();
        let (arrived, arrival) = oneshot::channel();
        let (alive, left) = oneshot::channel::<()>();
        let joining = convoy.clone();
        let main = async move {
            joining.execute(async move { arrived.send("here").unwrap() });
            joining.execute(async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            });
            arrival.await.unwrap()
        };
        assert_eq!(convoy.clone().lead(main).await, "here");
        assert!(left.await.is_err(), "dropped with the main future");
        let (late, gone) = oneshot::channel::<()>();
        convoy.execute(async move { late.send(()) });
        assert!(gone.await.is_err(), "nobody joins a convoy that has ended");
    }

    #[tokio::test]
    async fn a_convoy_that_never_began_lets_go_of_those_who_joined() {
        let convoy = Convoy::default();
        let (alive, left) = oneshot::channel::<()>();
        let itself = convoy.clone();
        convoy.execute(async move {
            let _alive = (alive, itself);
            std::future::pending::<()>().await;
        });
        drop(convoy.lead(std::future::pending::<()>()));
        assert!(left.await.is_err());
    }

    #[tokio::test]
    async fn a_convoy_that_never_rests_leaves_others_their_turn() {
        let convoy = Convoy::default();
        convoy.execute(async {
            loop {
                // Wakes itself for ever.
                poll_fn(|context| {
                    context.waker().wake_by_ref();
                    Poll::<()>::Pending
                })
                .await;
            }
        });
        let (word, heard) = oneshot::channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(convoy.lead(async move { heard.await.unwrap() }));
        tokio::task::yield_now().await;
        word.send(7).unwrap();
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_from_another_thread_is_lost() {
        let convoy = Convoy::default();
        let ((there, mut here), (back, mut home)) = (mpsc::channel::<u32>(1), mpsc::channel(1));
        convoy.execute(async move {
            while let Some(n) = here.recv().await {
                let _ = back.send(n + 1).await;
            }
        });
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(convoy.lead(std::future::pending::<()>()));
        let mut n = 0;
        while n < 10_000 {
            there.send(n).await.unwrap();
            n = home.recv().await.unwrap();
        }
        assert_eq!(n, 10_000);
    }
}
