//! How far a host is with its work.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::plan::Task;

/// The lanes of one life of a host, and how far each is.
pub(super) struct Lanes {
    pub(super) tasks: BTreeMap<u8, Vec<Task>>,
    pub(super) begun: BTreeMap<u8, Arc<Mutex<usize>>>,
    pub(super) done: Arc<Mutex<usize>>,
    pub(super) started: usize,
}

impl Lanes {
    pub(super) fn of<'t>(all: impl Iterator<Item = &'t Task>) -> Self {
        let mut tasks: BTreeMap<u8, Vec<Task>> = BTreeMap::new();
        for task in all {
            tasks.entry(task.lane).or_default().push(*task);
        }
        let begun = tasks.keys().map(|lane| (*lane, Arc::default())).collect();
        let started = tasks.len();
        Self { tasks, begun, done: Arc::default(), started }
    }

    pub(super) fn over(&self) -> bool {
        *self.done.lock() >= self.started
    }

    /// What has not been begun.
    pub(super) fn rest(self) -> Self {
        let mut rest = Self::of([].iter());
        for (lane, tasks) in self.tasks {
            let begun = self.begun.get(&lane).map_or(0, |begun| *begun.lock());
            if begun < tasks.len() {
                rest.begun.insert(lane, Arc::default());
                rest.tasks.insert(lane, tasks[begun..].to_vec());
                rest.started += 1;
            }
        }
        rest
    }
}
