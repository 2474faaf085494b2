//! One run: a plan becomes a history.

mod fault;
mod lanes;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{HighWaterMark, Store};
use tenure_store::Local;

use crate::history::{Client, History, Nanos, Setting, What};
use crate::judge::{self, Invariant, Violation};
use crate::linear::{self, SearchStats};
use crate::plan::Plan;
use crate::rng::Rng;
use crate::simulation::clock::HostClock;
use crate::simulation::exec::Process;
use crate::simulation::server::Server;
use crate::simulation::wire::Packet;
use crate::simulation::{HostId, Item, SERVER, Scheduled, Simulation};
use crate::work;
use lanes::Lanes;

/// How long after the last fault everything must have come to an end.
const PATIENCE: Nanos = 60_000_000_000;

/// What came of a run.
pub struct Run {
    /// What happened.
    pub history: History,
    /// What was wrong with it.
    pub violations: Vec<Violation>,
    /// The search for an order of what was answered, where one was made.
    pub order: SearchStats,
}

/// Runs a plan and judges it.
pub fn run(plan: &Plan) -> Run {
    let (history, mut violations) = Running::new(plan).finish();
    violations.extend(judge::judge(&history));
    // A server in memory that died forgot: no order of operations explains that.
    let mut order = SearchStats::default();
    if plan.ordered && !plan.server_dies() {
        match linear::check(&history) {
            Ok(looked) => order = looked,
            Err(broken) => {
                violations.push(Violation::new(Invariant::Linearizable, broken.at, broken.to_string()));
            }
        }
    }
    violations.sort_by_key(|violation| (violation.at, violation.invariant));
    Run { history, violations, order }
}

struct Running {
    plan: Arc<Plan>,
    simulation: Arc<Simulation>,
    clocks: Vec<HostClock>,
    processes: Vec<Option<Process>>,
    server: Option<Arc<Server>>,
    lanes: BTreeMap<HostId, Lanes>,
    /// The resource beside the store: the mark of each key.
    marks: BTreeMap<tenure_lease::Key, HighWaterMark>,
    clients: Client,
    calm: bool,
}

impl Running {
    fn new(plan: &Plan) -> Self {
        let plan = Arc::new(plan.clone());
        let mut rng = Rng::new(plan.seed);
        let simulation = Simulation::new(plan.hosts.len(), rng.fork(), setting(&plan));
        simulation.lock().net.repeats = (plan.repeats, nanos(plan.ttl_ms));
        if plan.listen {
            simulation.lock().record.secrets = Some(Default::default());
            crate::log::start_capture();
        }
        let blind = broken(Break::SuspendBlind);
        let clock = |(host, machine): (usize, &crate::plan::Machine)| {
            HostClock::new(&simulation, host as HostId, machine.ppm, machine.base, blind && host > 0)
        };
        let clocks = plan.hosts.iter().enumerate().map(clock).collect();
        let processes = plan.hosts.iter().map(|_| None).collect();
        let lanes = BTreeMap::new();
        let mut running = Self {
            plan: plan.clone(),
            simulation,
            clocks,
            processes,
            server: None,
            lanes,
            marks: BTreeMap::new(),
            clients: 0,
            calm: false,
        };
        running.schedule(&mut rng);
        running
    }

    fn schedule(&mut self, rng: &mut Rng) {
        let mut state = self.simulation.lock();
        state.schedule(0, Item::Start(SERVER));
        for host in 1..self.plan.hosts.len() as HostId {
            state.schedule(1_000_000 + rng.below(200_000_000), Item::Start(host));
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            state.schedule(nanos(fault.at_ms), Item::Fault(number));
            state.schedule(nanos(fault.at_ms + fault.for_ms), Item::Heal(number));
        }
        state.schedule(nanos(self.plan.calm_ms), Item::Calm);
    }

    fn finish(mut self) -> (History, Vec<Violation>) {
        let ttl = nanos(self.plan.ttl_ms);
        let last = nanos(self.plan.calm_ms) + PATIENCE;
        let mut end = last;
        loop {
            let next = self.simulation.lock().agenda.pop();
            let Some(std::cmp::Reverse(Scheduled { at, item, .. })) = next else { break };
            if at > end {
                break;
            }
            self.simulation.advance(at);
            self.happen(item);
            let all = self.lanes.len() + 1 == self.plan.hosts.len();
            if end == last && self.calm && all && self.lanes.values().all(Lanes::over) {
                // A little more, for what was let go at the very end.
                end = end.min(at + 2 * ttl);
            }
        }
        self.simulation.advance(end.min(last));
        self.stuck();
        self.simulation.note(What::End);
        self.close()
    }

    fn stuck(&self) {
        for (host, lanes) in &self.lanes {
            if !lanes.over() {
                let client = self.simulation.lock().host(*host).client;
                let text = format!(
                    "{} of {} lanes of host {host}",
                    lanes.started - *lanes.done.lock(),
                    lanes.started
                );
                self.simulation.note(What::Stuck { client, text });
            }
        }
    }

    /// Ends all processes without another word in the history.
    fn close(mut self) -> (History, Vec<Violation>) {
        let (history, secrets, output) = {
            let mut state = self.simulation.lock();
            state.hosts.iter_mut().for_each(|host| host.alive = false);
            let record = &mut state.record;
            let history = std::mem::take(&mut record.history);
            (history, record.secrets.take(), std::mem::take(&mut record.output))
        };
        self.processes.clear();
        drop(self.server.take());
        self.simulation.lock().agenda.clear();
        let mut found = Vec::new();
        if let Some(secrets) = secrets {
            let mut lines = Vec::new();
            // Writing to memory cannot fail.
            drop(history.write(&mut lines));
            let text = output + &crate::log::take_captured() + &String::from_utf8_lossy(&lines);
            found = judge::no_token_shows(secrets.iter().map(String::as_str), &text);
        }
        (history, found)
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Alarm(host, ref alarm) => {
                if alarm.set() && !self.hold(host, &item) {
                    alarm.ring();
                    self.turn(host);
                }
            }
            Item::Deliver(host, ref packet) => {
                if matches!(**packet, Packet::Write { .. }) || !self.hold_packet(host) {
                    let Item::Deliver(host, packet) = item else { return };
                    self.deliver(host, *packet);
                } else {
                    self.simulation.lock().host(host).held.push(item);
                }
            }
            Item::Fault(number) => self.fault(number),
            Item::Heal(number) => self.heal(number),
            Item::Die(host, client) => {
                if self.simulation.lock().lives(host, client) {
                    self.crash(host, self.simulation.now() + 1);
                }
            }
            Item::Start(host) => {
                if !self.simulation.lock().host(host).alive {
                    self.start(host);
                }
            }
            // The kernel's hosts exchange packets only.
            Item::Work(_, work) => work(),
            Item::Calm => {
                self.calm = true;
                self.simulation.note(What::Healed);
            }
        }
    }

    /// Keeps an alarm for later if its host is frozen.
    fn hold(&self, host: HostId, item: &Item) -> bool {
        let mut state = self.simulation.lock();
        let frozen = state.host(host).frozen > 0;
        if let (true, Item::Alarm(_, alarm)) = (frozen, item) {
            state.host(host).held.push(Item::Alarm(host, alarm.clone()));
        }
        frozen
    }

    fn hold_packet(&self, host: HostId) -> bool {
        self.simulation.lock().host(host).frozen > 0
    }

    fn deliver(&mut self, host: HostId, packet: Packet) {
        match packet {
            Packet::Operation { host: from, client, id, ask } => match (&self.server, &self.processes[0]) {
                (Some(server), Some(process)) => {
                    server.serve(process.runtime(), from, client, id, ask);
                    self.turn(SERVER);
                }
                _ => self.refuse(from, client, id),
            },
            Packet::Cancel { client, id } => {
                if let Some(server) = &self.server {
                    server.cancel(client, id);
                    self.turn(SERVER);
                }
            }
            Packet::Reply { client, id, answer } => {
                self.simulation.lock().answered(client, id, answer);
                self.turn(host);
            }
            Packet::Item { client, stream, place, watched } => {
                self.simulation.lock().streamed(client, stream, place, watched);
                self.turn(host);
            }
            Packet::Write { client, key, mark, token } => {
                let accepted =
                    broken(Break::ResourceBlind) || HighWaterMark::admits(self.marks.get(&key), &mark);
                if accepted {
                    self.marks.insert(key.clone(), mark);
                }
                // Another resource than the store's records, with marks of its own.
                let (key, generation) = (format!("{key}!"), mark.generation().get());
                self.simulation.note(What::Wrote { key, client, generation, token, accepted, strict: false });
            }
        }
    }

    /// No server listens: the caller gets an error, or no response.
    fn refuse(&self, host: HostId, client: Client, id: u64) {
        let now = self.simulation.now();
        let mut state = self.simulation.lock();
        if state.rng.chance(50) {
            let answer = Err(tenure_lease::Error::unavailable("sim", "connection refused"));
            state.send(now, SERVER, host, Packet::Reply { client, id, answer });
        }
    }

    /// Lets a host run until it has nothing to do.
    fn turn(&self, host: HostId) {
        if self.simulation.lock().host(host).frozen > 0 {
            return;
        }
        if let Some(process) = &self.processes[host as usize] {
            process.turn();
        }
        if let (SERVER, Some(server)) = (host, &self.server) {
            server.record_changes();
        }
    }

    fn start(&mut self, host: HostId) {
        let Ok(process) = Process::start() else { return };
        self.simulation.lock().host(host).alive = true;
        if host == SERVER {
            self.serve(process);
        } else {
            self.live(host, process);
        }
        self.turn(host);
    }

    fn serve(&mut self, process: Process) {
        let clock = self.clocks[0].clone();
        let inside = process.runtime().enter();
        let store: Arc<dyn Store> = Arc::new(Local::memory_on(Arc::new(clock.clone())));
        drop(inside);
        self.server = Server::new(&self.simulation, store, clock, nanos(self.plan.ttl_ms)).ok();
        self.processes[0] = Some(process);
    }

    /// A new life of a client's host: it goes on with the tasks that the one before had not begun.
    fn live(&mut self, host: HostId, process: Process) {
        self.clients += 1;
        let client = self.clients;
        let (held, rng) = {
            let now = self.simulation.now();
            let mut state = self.simulation.lock();
            state.host(host).client = client;
            let holder = format!("h{}", self.plan.hosts[host as usize].name);
            state.record.note(now, What::Started { client, host, holder });
            (state.record.take_held(host), state.rng.fork())
        };
        let lanes = match self.lanes.remove(&host) {
            Some(before) => before.rest(),
            None => Lanes::of(self.plan.tasks.iter().filter(|task| task.host == host)),
        };
        let (simulation, plan, clock) =
            (self.simulation.clone(), self.plan.clone(), self.clocks[host as usize].clone());
        let (begun, done, tasks) = (lanes.begun.clone(), lanes.done.clone(), lanes.tasks.clone());
        drop(process.runtime().spawn(async move {
            let Ok(here) = work::Process::start(&simulation, &plan, host, client, clock, capabilities())
            else {
                return;
            };
            let mut rng = rng;
            let mut running = tokio::task::JoinSet::new();
            running.spawn(here.clone().take_back(held, rng.fork()));
            for (lane, tasks) in tasks {
                let (rng, progress) = (rng.fork(), begun.get(&lane).cloned().unwrap_or_default());
                let (here, done) = (here.clone(), done.clone());
                running.spawn(async move {
                    here.lane(tasks, rng, progress).await;
                    *done.lock() += 1;
                });
            }
            drop(here);
            while running.join_next().await.is_some() {}
        }));
        self.lanes.insert(host, lanes);
        self.processes[host as usize] = Some(process);
    }
}

fn nanos(ms: u32) -> Nanos {
    u64::from(ms) * 1_000_000
}

/// What the engine states of itself.
fn capabilities() -> tenure_lease::Capabilities {
    tenure_lease::Capabilities::in_process("sim")
}

/// How much longer than it says a duration on a clock may last, in parts per million: a clock that is slow by a
/// tenth takes ten ninths.
fn off_by(ppm: i64) -> u32 {
    let off = ppm.unsigned_abs();
    (off * 1_000_000 / (1_000_000 - off.min(999_999)) + 10) as u32
}

/// Under which assumptions a plan runs.
fn setting(plan: &Plan) -> Setting {
    let ttl = nanos(plan.ttl_ms);
    Setting {
        seed: plan.seed,
        engine: "memory".into(),
        clocks_hold: plan.clocks_hold(),
        generations_rise: true,
        single_holding: !plan.server_dies(),
        keeper: true,
        expiry_lag: 50_000_000,
        service_bound: 100_000_000,
        reaper_bound: ttl * 7 / 10 + 50_000_000,
        drift_ppm: plan.hosts.iter().map(|host| off_by(host.ppm)).max().unwrap_or(0),
        // Copies that the network makes are operations of their own in the history.
        resends: false,
    }
}
