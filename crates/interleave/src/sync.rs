//! `lease-store`'s `sync` on the scheduler's primitives, with faults that tests inject.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::sync::mpsc;
pub(crate) use shuttle::thread;

/// A fault of the primitives, to show that the tests find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Unlocking and sleeping are two steps: a signal between them is lost.
    TornWait,
    /// A closed receiver still accepts messages: a grant may be sent to a caller that is gone.
    DeafClose,
    /// A send to a dropped receiver succeeds: an undelivered grant counts as delivered.
    LostReceiver,
}

std::thread_local! {
    static BROKEN: Cell<Option<Break>> = const { Cell::new(None) };
}

/// Injects a fault into the primitives of this test, or removes it.
pub fn inject(by: Option<Break>) {
    BROKEN.set(by);
}

fn is(by: Break) -> bool {
    BROKEN.get() == Some(by)
}

/// A point at which the scheduler may switch threads.
pub fn point() {
    thread::sleep(Duration::ZERO);
}

/// A mutex without poisoning, as in `parking_lot`.
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The guard of a locked mutex. Empty only within [`Condvar::wait_for`].
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>, &'a Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)), self)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "only a wait empties it, and refills it")]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "only a wait empties it, and refills it")]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

/// A condition variable whose waits never time out.
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _most: Duration) {
        if is(Break::TornWait) {
            drop(guard.0.take());
            guard.0 = Some(guard.1.0.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Some(held) = guard.0.take() {
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The result is not used here.
    pub(crate) fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Tokio's, with a scheduling point before every signal.
#[derive(Debug, Default)]
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notified(&self) -> impl Future<Output = ()> + Send {
        point();
        self.0.notified()
    }

    pub(crate) fn notify_one(&self) {
        point();
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        point();
        self.0.notify_waiters();
    }
}

/// Tasks that are aborted with their set.
#[derive(Default)]
pub(crate) struct JoinSet<T>(Vec<shuttle::future::JoinHandle<T>>);

impl<T: Send + 'static> JoinSet<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.0.push(shuttle::future::spawn(task));
    }

    pub(crate) fn abort_all(&mut self) {
        self.0.iter().for_each(shuttle::future::JoinHandle::abort);
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinSet({})", self.0.len())
    }
}

/// Runs work in a task.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> shuttle::future::JoinHandle<T> {
    shuttle::future::spawn(async move { work() })
}

/// Tokio's, with a scheduling point before every step.
pub(crate) mod oneshot {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::sync::oneshot as tokio;

    use super::{Break, is, point};

    #[derive(Debug)]
    pub(crate) struct Sender<T>(tokio::Sender<T>);

    #[derive(Debug)]
    pub(crate) struct Receiver<T>(Option<tokio::Receiver<T>>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = tokio::channel();
        (Sender(sender), Receiver(Some(receiver)))
    }

    impl<T> Sender<T> {
        pub(crate) fn send(self, value: T) -> Result<(), T> {
            point();
            match self.0.send(value) {
                Err(_) if is(Break::LostReceiver) => Ok(()),
                sent => sent,
            }
        }

        pub(crate) fn is_closed(&self) -> bool {
            point();
            self.0.is_closed()
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn close(&mut self) {
            point();
            if let Some(receiver) = self.0.as_mut().filter(|_| !is(Break::DeafClose)) {
                receiver.close();
            }
        }

        pub(crate) fn try_recv(&mut self) -> Result<T, tokio::error::TryRecvError> {
            point();
            self.0.as_mut().map_or(Err(tokio::error::TryRecvError::Closed), tokio::Receiver::try_recv)
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            if self.0.is_some() {
                point();
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, tokio::error::RecvError>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            point();
            match self.0.as_mut() {
                Some(receiver) => Pin::new(receiver).poll(context),
                None => Poll::Pending,
            }
        }
    }
}
