//! `lease_store`'s `sync` once more, on the scheduler's primitives, and the faults that tests put into it.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use shuttle::sync::atomic::AtomicU64;
pub(crate) use shuttle::sync::mpsc;
pub(crate) use shuttle::thread;

/// A known fault, to show that the tests would see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Giving up the lock and going to sleep are two steps: a signal between them is lost.
    TornWait,
    /// A receiver that closes goes on taking what is sent: a grant may land where nobody looks any more.
    DeafClose,
    /// A receiver that was dropped is not noticed: a grant that nobody hears counts as delivered.
    LostReceiver,
}

std::thread_local! {
    static BROKEN: Cell<Option<Break>> = const { Cell::new(None) };
}

/// Breaks the primitives of this test from here on, or repairs them.
pub fn broken(by: Option<Break>) {
    BROKEN.set(by);
}

fn is(by: Break) -> bool {
    BROKEN.get() == Some(by)
}

std::thread_local! {
    static LEADS: Cell<bool> = const { Cell::new(false) };
}

/// Whether callers may write in the writer's place from here on.
pub fn leading(may: bool) {
    LEADS.set(may);
}

/// The other threads, of whom there always are some here.
#[derive(Debug)]
pub(crate) struct Bystanders;

impl Bystanders {
    pub(crate) fn any() -> bool {
        LEADS.get()
    }

    pub(crate) fn here() -> Option<Self> {
        point();
        LEADS.get().then_some(Self)
    }

    #[expect(clippy::unused_self, reason = "there is nobody to tell")]
    pub(crate) fn rouse(&self) {}
}

/// A place where the scheduler may let somebody else run.
pub fn point() {
    thread::sleep(Duration::ZERO);
}

/// A lock with the manners of `parking_lot`: it knows no poison.
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The lock, held. Empty only within [`Condvar::wait_for`].
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

    #[expect(clippy::expect_used, reason = "only a wait empties it, and that fills it again")]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[expect(clippy::expect_used, reason = "only a wait empties it, and that fills it again")]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

/// A signal. Its waits never time out.
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

    /// Whether somebody heard it is nobody's business here.
    pub(crate) fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Tokio's, with a point before every signal.
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

/// Tasks that end with their set.
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

/// Runs work in a task of its own.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> shuttle::future::JoinHandle<T> {
    shuttle::future::spawn(async move { work() })
}

/// Tokio's, with a point before every step.
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
