//! Servers that copy each other late, and are promoted, restarted and cut off.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Tick, Wall};

use super::Break;
use super::data::{Data, Head};
use crate::disk::clock::{Machine, Time};

/// How many states a master keeps for those that are behind, and for a start from what was saved.
const KEPT: usize = 64;

/// One server process after another at one place.
#[derive(Clone, Debug)]
struct Node {
    data: Arc<Data>,
    /// What it was after each of the last writes, newest last.
    before: Vec<Arc<Data>>,
    run_id: u64,
    booted: u64,
    master: bool,
    /// Whom it copies.
    follows: Option<usize>,
    /// Whether it hears its master.
    cut: bool,
    /// How many writes it has seen.
    version: u64,
    /// Whose writes it copied, and how many.
    copied: Option<(usize, u64)>,
}

/// All servers of one store.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    time: Time,
    clock: Machine,
    runs: u64,
    how: Option<Break>,
    quarantine: Duration,
    /// Whether an answer waits until all configured replicas have what it rests on.
    strict: bool,
}

/// What a caller remembers between its calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The server it is connected to.
    pub(crate) node: usize,
    pub(crate) seen: Option<(u64, bool)>,
}

impl Cluster {
    /// One master and its replicas.
    pub(crate) fn new(time: &Time, replicas: usize, terms: (Duration, bool), how: Option<Break>) -> Self {
        let clock = Machine::boot(time, 1_700_000_000_000_000);
        let (quarantine, strict) = terms;
        let mut cluster =
            Self { nodes: Vec::new(), time: time.clone(), clock, runs: 0, how, quarantine, strict };
        for n in 0..=replicas {
            let run_id = cluster.run_id();
            cluster.nodes.push(Node {
                data: Arc::default(),
                before: Vec::new(),
                run_id,
                // Its process has been up for longer than any quarantine.
                booted: 0,
                master: n == 0,
                follows: (n > 0).then_some(0),
                cut: false,
                version: 0,
                copied: None,
            });
        }
        cluster
    }

    fn run_id(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }

    /// Whether this server takes writes.
    pub(crate) fn is_master(&self, node: usize) -> bool {
        self.nodes[node].master
    }

    /// Those that copy this server.
    pub(crate) fn replicas_of(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].follows == Some(node)).collect()
    }

    /// Now as the servers' clocks show it, to the millisecond.
    pub(crate) fn now(&self) -> Tick {
        let nanos = self.clock.now().as_nanos();
        Tick::from_nanos(nanos - nanos % 1_000_000)
    }

    fn wall(&self) -> Wall {
        self.clock.wall()
    }

    /// Runs one step on the server that a caller is connected to. The flag says whether the answer may be given:
    /// in the strict profile only when every replica has it.
    pub(crate) fn call<T>(
        &mut self,
        caller: &mut Caller,
        step: impl FnOnce(&mut Data, &Head) -> T,
    ) -> (T, bool) {
        let (now, wall) = (self.now(), self.wall());
        let node = &mut self.nodes[caller.node];
        let changed = caller.seen.is_some_and(|(run, changed)| changed || run != node.run_id);
        caller.seen = Some((node.run_id, changed));
        let uptime = match node.booted {
            0 => Duration::from_secs(86_400),
            // Servers tell the difference of two moments in whole seconds, which may be one more than it was: callers
            // take off one.
            booted => {
                let told = self.time.now() / 1_000_000_000 - booted / 1_000_000_000;
                Duration::from_secs(told.saturating_sub(1))
            }
        };
        let head = Head {
            run_id: node.run_id,
            uptime,
            quarantine: self.quarantine,
            changed,
            now,
            wall,
            how: self.how,
        };
        let mut data = (*node.data).clone();
        let answer = step(&mut data, &head);
        node.version += 1;
        node.before.push(std::mem::replace(&mut node.data, Arc::new(data)));
        if node.before.len() > KEPT {
            node.before.remove(0);
        }
        let sure = !self.strict || self.wait(caller.node);
        (answer, sure || self.how == Some(Break::IgnoresWait))
    }

    /// WAIT for all configured replicas: those that can hear have it now.
    fn wait(&mut self, master: usize) -> bool {
        if self.how == Some(Break::IgnoresWait) {
            return false;
        }
        let mut heard = 0;
        for replica in self.replicas_of(master) {
            if !self.nodes[replica].cut {
                self.copy(replica, 0);
                heard += 1;
            }
        }
        heard + 1 == self.nodes.len()
    }

    /// A replica comes to what its master was `behind` writes ago.
    pub(crate) fn copy(&mut self, replica: usize, behind: usize) {
        let Some(master) = self.nodes[replica].follows.filter(|_| !self.nodes[replica].cut) else { return };
        let from = &self.nodes[master];
        let version = from.version.saturating_sub(behind as u64);
        // Nobody goes back to what its master was before.
        if self.nodes[replica].copied.is_some_and(|(whose, seen)| whose == master && seen >= version) {
            return;
        }
        let data = match from.before.len().checked_sub(behind) {
            _ if behind == 0 => from.data.clone(),
            Some(at) => from.before[at].clone(),
            None => return,
        };
        let node = &mut self.nodes[replica];
        (node.data, node.copied, node.version) = (data, Some((master, version)), version);
    }

    /// A replica hears its master no more, or again.
    pub(crate) fn cut(&mut self, replica: usize, cut: bool) {
        self.nodes[replica].cut = cut;
    }

    /// Makes a replica the master. The old one lives on and takes writes from whoever still talks to it; the other
    /// replicas follow the new one.
    pub(crate) fn promote(&mut self, replica: usize) {
        for n in 0..self.nodes.len() {
            if n != replica && self.nodes[n].follows.is_some() {
                self.nodes[n].follows = Some(replica);
            }
        }
        let run_id = self.run_id();
        let node = &mut self.nodes[replica];
        (node.master, node.follows, node.cut) = (true, None, false);
        node.before.clear();
        // A server process keeps its run_id when it is promoted and takes another master_replid. The two together
        // are what is called an incarnation.
        if self.how != Some(Break::ProcessOnly) {
            node.run_id = run_id;
        }
    }

    /// Makes an old master a replica of the new one: what only it had is gone.
    pub(crate) fn demote(&mut self, old: usize, new: usize) {
        let node = &mut self.nodes[old];
        (node.master, node.follows, node.cut) = (false, Some(new), false);
        self.copy(old, 0);
    }

    /// Restarts a server with what it had `behind` writes ago, or with nothing.
    pub(crate) fn restart(&mut self, node: usize, behind: Option<usize>) {
        let run_id = self.run_id();
        let now = self.time.now();
        let node = &mut self.nodes[node];
        node.data = match behind {
            Some(0) => node.data.clone(),
            Some(behind) => match node.before.len().checked_sub(behind) {
                Some(at) => node.before[at].clone(),
                None => Arc::default(),
            },
            None => Arc::default(),
        };
        node.before.clear();
        (node.run_id, node.booted) = (run_id, now.max(1));
    }
}
