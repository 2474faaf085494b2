//! A beat for all who wait for an answer of the server. A timer for each would be set and taken back for nothing
//! nearly every time, and for a lone call that is a twentieth of the whole way.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lease::{Clock, Tick};
use tokio::sync::Notify;

/// Beats in the time that a call may take.
const PARTS: u32 = 16;
/// The longest time between two beats.
const LONGEST: Duration = Duration::from_millis(250);
/// Beats without a call before it pauses until the next one.
const QUIET: u32 = 32;

/// Tells those who wait to look at the clock.
pub(super) struct Beat {
    every: Duration,
    /// How many wait.
    waiting: AtomicUsize,
    /// How many ever came, modulo what fits.
    came: AtomicUsize,
    paused: AtomicBool,
    resume: Notify,
    beats: Notify,
}

/// One who waits.
struct Place<'a>(&'a Beat);

impl Beat {
    /// For calls that may take so long.
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            every: (limit / PARTS).clamp(Duration::from_millis(1), LONGEST),
            waiting: AtomicUsize::new(0),
            came: AtomicUsize::new(0),
            paused: AtomicBool::new(false),
            resume: Notify::new(),
            beats: Notify::new(),
        }
    }

    /// What `work` gives, unless `until` comes first. That is noticed at the next beat.
    pub(super) async fn before<T>(
        &self,
        clock: &dyn Clock,
        until: Tick,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let _place = self.enter();
        let late = async {
            loop {
                // Made before the look, so that no beat is missed between the two.
                let beat = self.beats.notified();
                if clock.now() >= until {
                    return;
                }
                beat.await;
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = late => None,
        }
    }

    /// Beats for ever, but for the times in which nobody calls.
    pub(super) async fn run(&self, clock: &dyn Clock) {
        let (mut quiet, mut before) = (0, 0);
        loop {
            let came = self.came.load(Ordering::Relaxed);
            quiet = if came == before { quiet + 1 } else { 0 };
            before = came;
            if quiet > QUIET {
                self.paused.store(true, Ordering::SeqCst);
                // Whoever came before this look finds no pause and is seen here; who comes after it finds one.
                if self.waiting.load(Ordering::SeqCst) == 0 {
                    self.resume.notified().await;
                }
                self.paused.store(false, Ordering::SeqCst);
            }
            clock.sleep_until(clock.now() + self.every).await;
            self.beats.notify_waiters();
        }
    }

    fn enter(&self) -> Place<'_> {
        self.came.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.paused.load(Ordering::SeqCst) {
            self.resume.notify_one();
        }
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;
    use crate::TokioClock;

    const LIMIT: Duration = Duration::from_millis(1_600);
    const BEAT: Duration = Duration::from_millis(100);

    fn beating() -> (Arc<Beat>, Arc<TokioClock>, JoinSet<()>) {
        let (beat, clock) = (Arc::new(Beat::new(LIMIT)), Arc::new(TokioClock::default()));
        let (mine, its) = (Arc::clone(&beat), Arc::clone(&clock));
        let mut task = JoinSet::new();
        task.spawn(async move { mine.run(&*its).await });
        (beat, clock, task)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_passed_on_and_a_silence_ends_at_the_next_beat() {
        let (beat, clock, _task) = beating();
        let until = clock.now() + Duration::from_millis(350);
        assert_eq!(beat.before(&*clock, until, ready(7)).await, Some(7));
        assert_eq!(beat.before(&*clock, until, pending::<()>()).await, None);
        let late = clock.now().since(until);
        assert!(late <= BEAT, "{late:?}");
        assert_eq!(beat.before(&*clock, until, pending::<()>()).await, None, "what is over is over at once");
        assert_eq!(beat.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_pauses_when_nobody_calls_and_beats_again_for_who_comes_then() {
        let (beat, clock, _task) = beating();
        clock.sleep_until(clock.now() + BEAT * (QUIET + 3)).await;
        assert!(beat.paused.load(Ordering::Relaxed));
        let until = clock.now() + Duration::from_millis(350);
        assert_eq!(beat.before(&*clock, until, pending::<()>()).await, None);
        assert!(clock.now().since(until) <= BEAT);
        assert!(!beat.paused.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_pause_while_somebody_waits() {
        let (beat, clock, _task) = beating();
        let until = clock.now() + BEAT * (QUIET * 3);
        assert_eq!(beat.before(&*clock, until, pending::<()>()).await, None);
        assert!(clock.now().since(until) <= BEAT * 2);
    }
}
