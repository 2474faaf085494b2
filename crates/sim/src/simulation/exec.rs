//! The runtime of one host, run until it has nothing to do.
//!
//! It is tokio's own, on the thread of the run, without timers and sockets: the kernel's tasks, locks and
//! channels are the real ones. What could make two runs differ is kept out: time comes from the world,
//! every `select!` of the kernel is biased, and the order in which a single-threaded runtime takes its tasks
//! is the order in which they were woken.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// The running process of a host.
pub(crate) struct Process {
    runtime: Runtime,
    idle: Arc<Idle>,
}

/// Told by the runtime when it is about to park.
#[derive(Default)]
struct Idle {
    /// The waiter for the park, and whether the runtime has parked.
    asked: Mutex<(bool, Option<Waker>)>,
}

impl Process {
    pub(crate) fn start() -> std::io::Result<Self> {
        let idle = Arc::new(Idle::default());
        let parked = idle.clone();
        let runtime = Builder::new_current_thread()
            .on_thread_park(move || {
                let waker = {
                    let mut asked = parked.asked.lock();
                    asked.0 = true;
                    asked.1.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            })
            .build()?;
        Ok(Self { runtime, idle })
    }

    /// Runs whatever is ready until nothing is.
    pub(crate) fn turn(&self) {
        self.idle.asked.lock().0 = false;
        let idle = &self.idle;
        self.runtime.block_on(poll_fn(|cx| {
            let mut asked = idle.asked.lock();
            if asked.0 {
                return Poll::Ready(());
            }
            asked.1 = Some(cx.waker().clone());
            Poll::Pending
        }));
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_turn_runs_everything_that_is_ready_and_returns() {
        let process = Process::start().unwrap();
        let count = Arc::new(AtomicU32::new(0));
        for _ in 0..200 {
            let count = count.clone();
            drop(process.runtime().spawn(async move {
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
                count.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }));
        }
        process.turn();
        assert_eq!(count.load(Ordering::Relaxed), 200);
        process.turn();
    }
}
