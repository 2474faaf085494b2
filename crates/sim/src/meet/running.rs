//! One run: the agenda of the simulation, processes and faults.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tenure_lease::Store;
use tenure_meet_mh::MediaHandler;
use tenure_store::Local;

use super::judge::{Judge, Sentence};
use super::nodes::{API, GC, Kept, Start, TTL};
use super::person::{PersonTask, Presence};
use super::plan::{FIRST_CONTROLLER, GLOBAL, HANDLER, Plan, STORE};
use super::store::WatchedStore;
use super::world::{Life, World};
use super::{Run, settled};
use crate::history::{Nanos, Setting};
use crate::rng::Rng;
use crate::simulation::clock::HostClock;
use crate::simulation::exec::Process;
use crate::simulation::server::Server;
use crate::simulation::wire::Packet;
use crate::simulation::{HostId, Item, Scheduled, Simulation};

/// How long after the last fault everyone must be in the meeting.
const PATIENCE: Nanos = 60_000_000_000;
/// How often that is looked at.
const LOOK: Nanos = 1_000_000_000;

/// A process that runs, and what it keeps until it ends.
pub(super) struct Started {
    pub(super) process: Process,
    _kept: Option<Kept>,
}

/// A run.
pub(super) struct Running {
    pub(super) plan: Arc<Plan>,
    pub(super) world: Arc<World>,
    pub(super) simulation: Arc<Simulation>,
    pub(super) clocks: Vec<HostClock>,
    pub(super) processes: Vec<Option<Started>>,
    server: Option<Arc<Server>>,
    pub(super) engine: Option<Arc<dyn Store>>,
    pub(super) handler: Option<MediaHandler>,
    pub(super) people: Vec<Arc<Mutex<Presence>>>,
    lives: u32,
}

pub(super) fn nanos(ms: u64) -> Nanos {
    ms * 1_000_000
}

impl Running {
    pub(super) fn new(plan: &Plan, keep_lines: bool) -> Self {
        let mut rng = Rng::new(plan.seed);
        let simulation = Simulation::new(plan.ppm.len(), rng.fork(), Setting::default());
        let clocks =
            plan.ppm.iter().enumerate().map(|(host, ppm)| {
                HostClock::new(&simulation, host as HostId, *ppm, rng.below(1 << 40), false)
            });
        let clocks = clocks.collect();
        let mut addresses =
            BTreeMap::from([(API.to_owned(), GLOBAL), (GC.to_owned(), GLOBAL), (handler_name(), HANDLER)]);
        addresses.extend((0..plan.controllers).map(|number| {
            let host = FIRST_CONTROLLER + number;
            (controller_name(host), host)
        }));
        let world = World::new(simulation.clone(), addresses, Judge::new(keep_lines));
        let people = plan.people.iter().map(|_| Arc::default()).collect();
        let running = Self {
            plan: Arc::new(plan.clone()),
            world,
            simulation,
            clocks,
            processes: plan.ppm.iter().map(|_| None).collect(),
            server: None,
            engine: None,
            handler: None,
            people,
            lives: 0,
        };
        running.schedule(&mut rng);
        running
    }

    fn schedule(&self, rng: &mut Rng) {
        let mut state = self.simulation.lock();
        for host in 0..self.plan.ppm.len() as HostId {
            let at = match host.checked_sub(FIRST_CONTROLLER + self.plan.controllers) {
                Some(person) => nanos(self.plan.people[person as usize].start_ms),
                None => u64::from(host) * 1_000_000 + rng.below(1_000_000),
            };
            state.schedule(at, Item::Start(host));
        }
        for (number, fault) in self.plan.faults.iter().enumerate() {
            state.schedule(nanos(fault.at_ms), Item::Fault(number));
            state.schedule(nanos(fault.at_ms + fault.for_ms), Item::Heal(number));
        }
        state.schedule(nanos(self.plan.calm_ms), Item::Calm);
    }

    pub(super) fn finish(mut self) -> Run {
        let calm = nanos(self.plan.calm_ms);
        let mut look = calm + LOOK;
        loop {
            let next = self.simulation.lock().agenda.pop();
            let Some(Reverse(Scheduled { at, item, .. })) = next else { break };
            if at >= look {
                self.simulation.advance(look);
                let Some(why) = settled::unsettled(&self) else { break };
                if look > calm + PATIENCE {
                    self.world.judge.lock().broke(look, Sentence::OneMeeting, why);
                    break;
                }
                look += LOOK;
            }
            self.simulation.advance(at);
            self.happen(item);
            if !self.world.judge.lock().violations.is_empty() {
                break;
            }
        }
        self.close()
    }

    /// Ends all processes without another word in the history.
    fn close(mut self) -> Run {
        self.simulation.lock().hosts.iter_mut().for_each(|host| host.alive = false);
        let judge = std::mem::take(&mut *self.world.judge.lock());
        self.people.clear();
        self.world.services.lock().clear();
        self.processes.clear();
        (self.server, self.engine, self.handler) = (None, None, None);
        let agenda = std::mem::take(&mut self.simulation.lock().agenda);
        drop(agenda);
        let Judge { violations, hash, events, lines, .. } = judge;
        Run { violations, fingerprint: hash, events, lines: lines.unwrap_or_default() }
    }

    pub(super) fn happen(&mut self, item: Item) {
        match item {
            Item::Alarm(host, alarm) => {
                if !alarm.set() {
                    return;
                }
                if self.frozen(host) {
                    return self.simulation.lock().host(host).held.push(Item::Alarm(host, alarm));
                }
                alarm.ring();
                self.turn(host);
            }
            Item::Deliver(host, packet) => {
                if self.frozen(host) {
                    return self.simulation.lock().host(host).held.push(Item::Deliver(host, packet));
                }
                self.deliver(host, *packet);
            }
            Item::Work(host, work) => {
                if self.frozen(host) {
                    return self.simulation.lock().host(host).held.push(Item::Work(host, work));
                }
                match self.processes[host as usize].as_ref() {
                    Some(running) => {
                        let inside = running.process.runtime().enter();
                        work();
                        drop(inside);
                    }
                    None => work(),
                }
                self.turn(host);
            }
            Item::Fault(number) => self.fault(number),
            Item::Heal(number) => self.heal(number),
            Item::Start(host) => self.start(host),
            Item::Die(..) | Item::Calm => {}
        }
    }

    fn frozen(&self, host: HostId) -> bool {
        self.simulation.lock().host(host).frozen > 0
    }

    fn deliver(&mut self, host: HostId, packet: Packet) {
        match packet {
            Packet::Operation { host: from, client, id, ask } => {
                if let (Some(server), Some(running)) = (&self.server, &self.processes[STORE as usize]) {
                    server.serve(running.process.runtime(), from, client, id, ask);
                }
                self.turn(STORE);
            }
            Packet::Cancel { client, id } => {
                if let Some(server) = &self.server {
                    server.cancel(client, id);
                }
                self.turn(STORE);
            }
            Packet::Reply { client, id, answer } => {
                self.simulation.lock().answered(client, id, answer);
                self.turn(host);
            }
            Packet::Item { client, stream, place, watched } => {
                self.simulation.lock().streamed(client, stream, place, watched);
                self.turn(host);
            }
            Packet::Write { .. } => {}
        }
    }

    /// Lets a host run until it has nothing to do.
    pub(super) fn turn(&self, host: HostId) {
        if self.frozen(host) {
            return;
        }
        if let Some(running) = &self.processes[host as usize] {
            running.process.turn();
        }
    }

    pub(super) fn start(&mut self, host: HostId) {
        if self.simulation.lock().host(host).alive {
            return;
        }
        let Ok(process) = Process::start() else { return };
        self.lives += 1;
        let life = Life { host, number: self.lives };
        let rng = {
            let mut state = self.simulation.lock();
            let there = state.host(host);
            (there.alive, there.client) = (true, life.number);
            state.rng.fork()
        };
        self.world.note(|| format!("{host} starts"));
        let inside = process.runtime().enter();
        let kept = self.begin(life, rng, &process);
        drop(inside);
        match kept {
            Ok(kept) => self.processes[host as usize] = Some(Started { process, _kept: kept }),
            Err(error) => self.world.note(|| format!("{host} cannot start: {error}")),
        }
        self.turn(host);
    }

    fn begin(&mut self, life: Life, rng: Rng, process: &Process) -> tenure_lease::Result<Option<Kept>> {
        let (world, clock) = (self.world.clone(), self.clocks[life.host as usize].clone());
        let start = Start { world: world.clone(), life, clock: clock.clone(), rng };
        match life.host {
            STORE => {
                let engine: Arc<dyn Store> = Arc::new(Local::memory_on(Arc::new(clock.clone())));
                let watched = Arc::new(WatchedStore { engine: engine.clone(), world });
                self.engine = Some(engine);
                self.server = Some(Server::new(&self.simulation, watched, clock, TTL.as_nanos() as u64)?);
                Ok(None)
            }
            GLOBAL => start.global_controller().map(Some),
            HANDLER => {
                let (handler, kept) = start.media_handler(&handler_name())?;
                self.handler = Some(handler);
                Ok(Some(kept))
            }
            host if host < FIRST_CONTROLLER + self.plan.controllers => {
                start.meeting_controller(&controller_name(host)).map(Some)
            }
            host => {
                let number = (host - FIRST_CONTROLLER - self.plan.controllers) as usize;
                let presence = self.people[number].clone();
                let task = PersonTask { world, plan: self.plan.clone(), number, start, presence };
                drop(process.runtime().spawn(task.run()));
                Ok(None)
            }
        }
    }

    /// The owner of the meeting: the host and the generation.
    pub(super) fn owner(&self) -> Option<(HostId, u64)> {
        let id = self.meeting()?;
        let key = tenure_lease::Key::new(format!("meeting:{id}")).ok()?;
        let status = self.engine.as_ref()?.inspect(&key).now_or_never()?.ok()?;
        let held = status.phase == tenure_lease::Phase::Held;
        let host = *self.world.addresses.get(status.holder.filter(|_| held)?.as_str())?;
        Some((host, status.generation?.get()))
    }

    /// The id of the meeting, as its seats are stored under.
    pub(super) fn meeting(&self) -> Option<String> {
        let judge = self.world.judge.lock();
        let key = judge.seats.keys().next()?;
        Some(key.strip_prefix("meeting:")?.split_once(':')?.0.to_owned())
    }
}

pub(super) fn controller_name(host: HostId) -> String {
    format!("mc-{}", host - FIRST_CONTROLLER + 1)
}

fn handler_name() -> String {
    "mh-1".to_owned()
}
