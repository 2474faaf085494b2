//! Servers that replicate late, and are promoted, restarted and cut off.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_lease::Clock;
use tenure_store::redis_protocol::{ScriptCall, Value};

use super::Break;
use super::server::{Dataset, LoadedScript, Published, Reply, Server};
use crate::disk::clock::{Machine, Time};

/// How many earlier states a master keeps, for replicas that are behind and for a restart from older data.
const KEPT: usize = 64;
/// What the clocks of the servers show at the beginning, in microseconds.
const START_US: u64 = 1_700_000_000_000_000;

/// One server and its role.
#[derive(Clone, Debug)]
struct Node {
    server: Server,
    /// Its data before each of the last scripts, newest last.
    before: Vec<Dataset>,
    master: bool,
    /// The master that it replicates.
    follows: Option<usize>,
    /// Whether it is cut off from its master.
    cut: bool,
    /// How many scripts its data comes from.
    version: u64,
    /// The master whose data it has, and the version of that.
    copied: Option<(usize, u64)>,
}

/// All servers of one store.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    clock: Machine,
    incarnations: u64,
    how: Option<Break>,
    pub(super) quarantine: Duration,
    /// Whether a reply waits until all replicas have what it rests on.
    strict: bool,
    scripts: BTreeMap<&'static str, LoadedScript>,
    /// An error of a script, or a reply that could not be decoded. A run that has one has failed.
    pub(super) defect: Option<String>,
}

impl Cluster {
    /// One master and its replicas.
    pub(crate) fn new(time: &Time, replicas: usize, terms: (Duration, bool), how: Option<Break>) -> Self {
        let (quarantine, strict) = terms;
        let mut cluster = Self {
            nodes: Vec::new(),
            clock: Machine::boot(time, START_US),
            incarnations: 0,
            how,
            quarantine: if how == Some(Break::NoQuarantine) { Duration::ZERO } else { quarantine },
            strict,
            scripts: BTreeMap::new(),
            defect: None,
        };
        for n in 0..=replicas {
            let run_id = cluster.next_incarnation();
            cluster.nodes.push(Node {
                // It has been up for longer than any quarantine.
                server: Server::new(run_id, START_US - 86_400_000_000),
                before: Vec::new(),
                master: n == 0,
                follows: (n > 0).then_some(0),
                cut: false,
                version: 0,
                copied: None,
            });
        }
        cluster
    }

    fn next_incarnation(&mut self) -> String {
        self.incarnations += 1;
        format!("{:040x}", self.incarnations)
    }

    /// Whether this server takes writes.
    pub(crate) fn is_master(&self, node: usize) -> bool {
        self.nodes[node].master
    }

    /// The servers that replicate this one.
    pub(crate) fn replicas_of(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].follows == Some(node)).collect()
    }

    /// The process at a node, and for how many milliseconds it has certainly run. Servers report the difference of two
    /// times in whole seconds, which may be one more than it was.
    pub(super) fn identify(&self, node: usize) -> (String, u64) {
        let server = &self.nodes[node].server;
        let reported = self.clock.wall().as_micros() / 1_000_000 - server.started_us / 1_000_000;
        (server.run_id.clone(), reported.saturating_sub(1) * 1_000)
    }

    /// Subscribes a client to a channel of one server, and to no other.
    pub(super) fn subscribe(&mut self, node: usize, channel: String, client: u64) {
        self.nodes.iter_mut().for_each(|node| node.server.unsubscribe(client));
        self.nodes[node].server.subscribe(channel, client);
    }

    /// The messages that were published since the last call of this.
    pub(super) fn take_published(&mut self) -> Vec<Published> {
        self.nodes.iter_mut().flat_map(|node| std::mem::take(&mut node.server.published)).collect()
    }

    /// Lets `TIME` run ahead of the moment at which each script begins, as on a busy server.
    pub(super) fn set_time_lag(&mut self, micros: u64) {
        self.nodes.iter_mut().for_each(|node| node.server.time_lag_us = micros);
    }

    /// Runs a script on a server. The flag says whether the client may have the reply: in the strict profile only when
    /// every replica has what it rests on. An error is recorded as a defect.
    pub(super) fn call(&mut self, node: usize, call: &ScriptCall) -> (Value, bool) {
        let (script, how) = (call.script(), self.how);
        let loaded = self.scripts.entry(script.name).or_insert_with(|| {
            LoadedScript::new(how.map_or_else(|| script.text.clone(), |how| how.apply(&script.text)))
        });
        let now_us = self.clock.wall().as_micros();
        let node_state = &mut self.nodes[node];
        node_state.before.push(node_state.server.data.clone());
        if node_state.before.len() > KEPT {
            node_state.before.remove(0);
        }
        node_state.version += 1;
        let reply = node_state.server.evaluate(now_us, loaded, &call.keys(), &call.args());
        if let Some(name) = node_state.server.unsupported.first() {
            self.defect.get_or_insert(format!("{}: the in-memory server does not know {name}", script.name));
        }
        let value = self.decode_reply(script.name, reply);
        let sure = !self.strict || self.wait_for_replicas(node);
        (value, sure || self.how == Some(Break::IgnoresWait))
    }

    fn decode_reply(&mut self, script: &str, reply: Reply) -> Value {
        match reply {
            Reply::Int(number) => Value::Int(number),
            Reply::Status(text) if text == "OK" => Value::Okay,
            Reply::Status(text) => Value::SimpleString(text),
            Reply::Bulk(Some(bytes)) => Value::BulkString(bytes),
            Reply::Bulk(None) | Reply::Array(None) => Value::Nil,
            Reply::Array(Some(items)) => {
                Value::Array(items.into_iter().map(|item| self.decode_reply(script, item)).collect())
            }
            Reply::Error(text) => {
                self.defect.get_or_insert(format!("{script}: {text}"));
                Value::Nil
            }
        }
    }

    /// `WAIT` for all replicas: those that are not cut off have everything now.
    fn wait_for_replicas(&mut self, master: usize) -> bool {
        if self.how == Some(Break::IgnoresWait) {
            return false;
        }
        let mut have = 0;
        for replica in self.replicas_of(master) {
            if !self.nodes[replica].cut {
                self.copy(replica, 0);
                have += 1;
            }
        }
        have + 1 == self.nodes.len()
    }

    /// A replica gets what its master had `behind` scripts ago.
    pub(crate) fn copy(&mut self, replica: usize, behind: usize) {
        let Some(master) = self.nodes[replica].follows.filter(|_| !self.nodes[replica].cut) else { return };
        let from = &self.nodes[master];
        let version = from.version.saturating_sub(behind as u64);
        // A replica never goes back to what its master had before.
        if self.nodes[replica].copied.is_some_and(|(whose, seen)| whose == master && seen >= version) {
            return;
        }
        let data = match from.before.len().checked_sub(behind) {
            _ if behind == 0 => from.server.data.clone(),
            Some(at) => from.before[at].clone(),
            None => return,
        };
        let node = &mut self.nodes[replica];
        (node.server.data, node.copied, node.version) = (data, Some((master, version)), version);
    }

    /// A server deletes a key that has a TTL, if this run has that break.
    pub(crate) fn evict(&mut self, node: usize, pick: u64) {
        if self.how == Some(Break::Evicts) {
            self.nodes[node].server.data.evict(pick);
        }
    }

    /// Cuts a replica off from its master, or connects it again.
    pub(crate) fn cut(&mut self, replica: usize, cut: bool) {
        self.nodes[replica].cut = cut;
    }

    /// Makes a replica the master. The old one lives on and takes writes from clients that are still connected to it;
    /// the other replicas follow the new one.
    pub(crate) fn promote(&mut self, replica: usize) {
        for n in 0..self.nodes.len() {
            if n != replica && self.nodes[n].follows.is_some() {
                self.nodes[n].follows = Some(replica);
            }
        }
        let (run_id, now_us) = (self.next_incarnation(), self.clock.wall().as_micros());
        let node = &mut self.nodes[replica];
        // How long it was a replica does not count.
        node.server.started_us = now_us;
        (node.master, node.follows, node.cut) = (true, None, false);
        node.before.clear();
        // A server process keeps its run_id when it is promoted and takes another master_replid. An incarnation is
        // identified by the two together.
        if self.how != Some(Break::ProcessOnly) {
            node.server.run_id = run_id;
        }
    }

    /// Makes an old master a replica of the new one: what only it had is gone.
    pub(crate) fn demote(&mut self, old: usize, new: usize) {
        let node = &mut self.nodes[old];
        (node.master, node.follows, node.cut) = (false, Some(new), false);
        node.server.disconnect_all();
        self.copy(old, 0);
    }

    /// Restarts a server with what it had `behind` scripts ago, or with nothing.
    pub(crate) fn restart(&mut self, node: usize, behind: Option<usize>) {
        let (run_id, now_us) = (self.next_incarnation(), self.clock.wall().as_micros());
        let node = &mut self.nodes[node];
        node.server.data = match behind {
            Some(0) => node.server.data.clone(),
            Some(behind) => match node.before.len().checked_sub(behind) {
                Some(at) => node.before[at].clone(),
                None => Dataset::default(),
            },
            None => Dataset::default(),
        };
        node.before.clear();
        node.server.disconnect_all();
        (node.server.run_id, node.server.started_us) = (run_id, now_us);
    }
}
