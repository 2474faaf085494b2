//! Standing still.

use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use tokio::task::JoinSet;

/// Blocks all threads of a runtime for `time`: no timer fires and no task of a store in this process runs. The caller
/// blocks as well, on a thread that is not one of the `workers`.
pub async fn stall_runtime(workers: usize, time: Duration) {
    let together = Arc::new(Barrier::new(workers + 1));
    let stand_still = move || {
        together.wait();
        let (_sender, never) = mpsc::sync_channel::<()>(1);
        let _ = never.recv_timeout(time);
    };
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let stand_still = stand_still.clone();
        tasks.spawn(async move { stand_still() });
    }
    stand_still();
    tasks.join_all().await;
}
