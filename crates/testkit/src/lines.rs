//! The output of another process, line by line.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::lock;
use crate::wait::WaitLimit;

/// The maximum number of queued lines. When it is reached, the oldest lines are dropped: blocking would stall the child,
/// which would look like a fault under test.
const KEPT: usize = 65_536;

/// The number of latest lines that errors quote.
const QUOTED: usize = 10;

/// A bounded queue of lines, filled by a reader thread.
#[derive(Default)]
pub(crate) struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    unread: VecDeque<String>,
    /// The latest lines, for the error of a timeout.
    recent: VecDeque<String>,
    closed: bool,
}

impl Lines {
    /// Reads `source` to its end. Invalid UTF-8 is replaced.
    pub(crate) fn fill(&self, source: impl Read) {
        let mut source = BufReader::new(source);
        let mut raw = Vec::new();
        while matches!(source.read_until(b'\n', &mut raw), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&raw).trim_end_matches(['\n', '\r']).to_owned();
            raw.clear();
            let mut state = lock(&self.state);
            push(&mut state.recent, QUOTED, line.clone());
            push(&mut state.unread, KEPT, line);
            drop(state);
            self.changed.notify_all();
        }
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Takes lines until one satisfies `wanted`, and returns that one.
    pub(crate) fn wait_for(&self, mut wanted: impl FnMut(&str) -> bool, limit: Duration) -> Result<String> {
        let deadline = WaitLimit::after(limit);
        let mut state = lock(&self.state);
        loop {
            while let Some(line) = state.unread.pop_front() {
                if wanted(&line) {
                    return Ok(line);
                }
            }
            if state.closed {
                bail!("the output ended without the expected line; the latest lines were {:?}", state.recent);
            }
            let Some(left) = deadline.remaining() else {
                bail!("no such line within {limit:?}; the latest lines were {:?}", state.recent);
            };
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn push(queue: &mut VecDeque<String>, bound: usize, line: String) {
    if queue.len() == bound {
        queue.pop_front();
    }
    queue.push_back(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn lines_before_the_wanted_one_are_consumed_and_those_after_it_kept() {
        let lines = Lines::default();
        lines.fill("one\ntwo\nthree\n".as_bytes());
        assert_eq!(lines.wait_for(|line| line == "two", LIMIT).unwrap(), "two");
        assert!(lines.wait_for(|line| line == "one", LIMIT).is_err());
    }

    #[test]
    fn the_end_of_the_output_ends_the_wait_and_quotes_what_came() {
        let lines = Lines::default();
        lines.fill("half".as_bytes());
        let error = lines.wait_for(|line| line == "whole", LIMIT).unwrap_err();
        assert!(error.to_string().contains("half"), "{error}");
    }

    #[test]
    fn a_flood_nobody_reads_drops_the_oldest_lines() {
        let lines = Lines::default();
        let flood: String = (0..=KEPT).map(|n| format!("{n}\n")).collect();
        lines.fill(flood.as_bytes());
        assert_eq!(lines.wait_for(|_| true, LIMIT).unwrap(), "1");
    }
}
