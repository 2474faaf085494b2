//! Work that proves when it ran: it writes its generation and the time since boot, suspend included, to a file,
//! over and over.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_testkit::wait;

use crate::harness::LIMIT;

/// A file of stamps. All processes append to it, so the order of its lines is the order of what happened.
pub(crate) struct Stamps {
    path: PathBuf,
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stamp {
    pub(crate) generation: u64,
    pub(crate) uptime: Duration,
    pub(crate) who: String,
}

impl Stamps {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { path: dir.join("stamps") }
    }

    /// A shell loop that stamps for ever. `/proc/uptime` is CLOCK_BOOTTIME in hundredths of a second.
    pub(crate) fn forever(&self, who: &str) -> String {
        let one = self.one(who);
        format!("while :; do {one}; sleep 0.02; done")
    }

    /// One stamp.
    pub(crate) fn one(&self, who: &str) -> String {
        let path = self.path.display();
        format!("read up rest </proc/uptime; echo \"$TENURE_GENERATION $up {who}\" >>{path}")
    }

    pub(crate) fn read(&self) -> Vec<Stamp> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let stamp = |line: &str| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap();
            let generation = word().parse().unwrap();
            let uptime = Duration::from_secs_f64(word().parse().unwrap());
            Stamp { generation, uptime, who: word().to_owned() }
        };
        whole.lines().map(stamp).collect()
    }

    /// Waits for work of `who` to run.
    pub(crate) fn wait_for(&self, who: &str) -> Stamp {
        let mut found = None;
        wait::until("the work runs", LIMIT, || {
            found = self.read().into_iter().find(|stamp| stamp.who == who);
            found.is_some()
        })
        .unwrap();
        found.unwrap()
    }

    /// The last sign of life of `who`.
    pub(crate) fn last(&self, who: &str) -> Stamp {
        self.read().into_iter().rfind(|stamp| stamp.who == who).unwrap()
    }

    /// Generations only rise: a holder stops stamping before the next one starts.
    pub(crate) fn assert_in_turns(&self) {
        let stamps = self.read();
        for pair in stamps.windows(2) {
            assert!(pair[0].generation <= pair[1].generation, "{:?} came before {:?}", pair[0], pair[1]);
        }
    }
}

/// The time since boot, as the stamps have it.
pub(crate) fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
}
