//! How many sessions may be kept, those of the last day included.
//!
//! The log is not asked at every start. What was counted last and what was started since are known, and only where that comes
//! near the limit it is counted again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use service::Code;

use crate::limits;
use crate::site::{Site, bounded};
use crate::trouble::Trouble;

pub(crate) struct Room {
    most: usize,
    guess: Mutex<Guess>,
    /// The first count; those who come meanwhile wait for it.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Guess {
    /// How many there are, or a few more.
    kept: usize,
    /// Started since the count that is under way began.
    since: usize,
    /// When they were last counted.
    counted: Option<Duration>,
    counting: bool,
}

impl Room {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, guess: Mutex::default(), first: tokio::sync::Mutex::new(()) }
    }

    /// Takes a place for one more session, if there is one.
    pub(crate) async fn enter(&self, site: &Arc<Site>) -> Result<(), Trouble> {
        self.begin(site).await;
        let (entered, recount) = self.guess.lock().enter(self.most, site.options.clock.now());
        if recount {
            let site = site.clone();
            site.options.tasks.clone().spawn(async move { site.room.count(&site).await });
        }
        match entered {
            true => Ok(()),
            false => {
                let detail = format!("there are {} sessions already, those that ended included", self.most);
                let mut trouble = Trouble::new(Code::ADMISSION_SESSIONS_FULL, detail);
                trouble.0 = trouble.0.with("retryAfterSeconds", limits::RECOUNT_FULL.as_secs());
                Err(trouble)
            }
        }
    }

    /// Counts once before anybody comes in.
    async fn begin(&self, site: &Site) {
        if self.guess.lock().counted.is_some() {
            return;
        }
        let _first = self.first.lock().await;
        if self.guess.lock().counted.is_none() {
            self.count(site).await;
        }
    }

    async fn count(&self, site: &Site) {
        let counted = bounded(site.ports.log.count()).await;
        let mut guess = self.guess.lock();
        guess.counting = false;
        match counted {
            Ok(count) => {
                guess.kept = count + guess.since;
                guess.counted = Some(site.options.clock.now());
            }
            // What is wrong with the log the start itself will find out.
            Err(error) => tracing::warn!(%error, "the sessions cannot be counted"),
        }
    }
}

impl Guess {
    /// Whether there is a place, and whether they should be counted again.
    fn enter(&mut self, most: usize, now: Duration) -> (bool, bool) {
        let age = self.counted.map(|then| now.saturating_sub(then));
        let old = |limit| age.is_some_and(|age| age >= limit);
        let near = self.kept >= most / 2 && old(limits::RECOUNT);
        let full = self.kept >= most && old(limits::RECOUNT_FULL);
        let recount = (near || full) && !self.counting;
        if recount {
            (self.counting, self.since) = (true, 0);
        }
        let entered = self.kept < most;
        if entered {
            self.kept += 1;
            self.since += 1;
        }
        (entered, recount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 10;

    fn guess(kept: usize) -> Guess {
        Guess { kept, counted: Some(Duration::ZERO), ..Guess::default() }
    }

    #[test]
    fn who_finds_no_place_does_not_come_in() {
        let mut guess = guess(8);
        let entered = [(); 4].map(|()| guess.enter(MOST, Duration::ZERO).0);
        assert_eq!((entered, guess.kept), ([true, true, false, false], MOST));
    }

    #[test]
    fn they_are_counted_again_only_near_the_limit_and_once_at_a_time() {
        let counts = |kept, age| guess(kept).enter(MOST, age).1;
        let (second, minute) = (limits::RECOUNT_FULL, limits::RECOUNT);
        assert_eq!((counts(4, minute), counts(5, second), counts(5, minute)), (false, false, true));
        assert_eq!((counts(10, second / 2), counts(10, second)), (false, true));
        let mut guess = guess(10);
        assert!(guess.enter(MOST, second).1 && !guess.enter(MOST, second).1);
    }
}
