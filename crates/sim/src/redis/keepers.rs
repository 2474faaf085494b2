//! Real keepers on the simulated servers, which restart or are replaced, over a network that delays and loses messages.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{Guard, Keeper, PermitError, Terms};
use tenure_lease::{Clock, HighWaterMark, Holder, Key, Mode, Store, Ttl};

use super::store::{Connection, Servers};
use super::{Break, Profile};
use crate::disk::Failure;
use crate::disk::seeded_rng::{SeededEntropy, SeededRng};
use crate::history::{Nanos, Setting, What, token_id};
use crate::judge::{fenced_writes_never_go_back, one_holder};
use crate::rng::Rng;
use crate::simulation::clock::HostClock;
use crate::simulation::exec::Process;
use crate::simulation::{HostId, Item, Scheduled, Simulation};

const MS: Nanos = 1_000_000;
const KEEPERS: u64 = 3;
const KEYS: u64 = 2;
/// The most that a clock is fast or slow, in parts per million: what the margins assume.
const PPM: u64 = 4_000;

/// What all hosts share.
struct KeeperRun {
    simulation: Arc<Simulation>,
    connections: Vec<Arc<Connection>>,
    servers: Servers,
    profile: Profile,
    /// A resource behind each key that admits by number alone.
    marks: Mutex<BTreeMap<Key, HighWaterMark>>,
    permits: Mutex<u64>,
}

/// Runs one seed and answers how many permits there were.
pub(super) fn run(seed: u64, how: Option<Break>) -> Result<u64, Box<Failure>> {
    let mut rng = SeededRng::new(seed ^ 0x6b65_6570);
    let profile = if rng.one_in(2) { Profile::Single } else { Profile::Strict };
    let (ttl, end) = match profile {
        Profile::Strict => (10_000, 300_000 * MS),
        _ => (1_500, 60_000 * MS),
    };
    let setting = Setting { seed, engine: profile.name().into(), ..Setting::default() };
    let simulation = Simulation::new(1 + KEEPERS as usize, Rng::new(seed), setting);
    let clocks: Vec<HostClock> = (0..=KEEPERS as HostId)
        .map(|host| {
            let ppm = rng.within(0, 2 * PPM) as i64 - PPM as i64;
            HostClock::new(&simulation, host, ppm, 1_000_000_000 * rng.within(1, 1_000), false)
        })
        .collect();
    // A quarantine is as long as the longest TTL that is granted.
    let quarantine = Duration::from_millis(ttl);
    let servers = Servers::start(profile, quarantine, how, Arc::new(clocks[0].clone()));
    let connections = (1..=KEEPERS as usize)
        .map(|host| {
            let (clock, network) = (Arc::new(clocks[host].clone()), SeededRng::new(rng.next()));
            Arc::new(servers.connect(host as u64, clock, network))
        })
        .collect();
    let shared = Arc::new(KeeperRun {
        simulation: simulation.clone(),
        connections,
        servers,
        profile,
        marks: Mutex::default(),
        permits: Mutex::default(),
    });
    let failed = |message: String| {
        Box::new(Failure { seed, message, history: std::mem::take(&mut simulation.lock().record.history) })
    };
    let processes: Result<Vec<Process>, _> = clocks.iter().map(|_| Process::start()).collect();
    let processes = processes.map_err(|error| failed(error.to_string()))?;
    for (host, clock) in clocks.iter().enumerate() {
        let (shared, clock, rng) = (shared.clone(), clock.clone(), SeededRng::new(rng.next()));
        drop(match host {
            0 => processes[host].runtime().spawn(disturb(shared, clock, rng)),
            _ => processes[host].runtime().spawn(hold(shared, host, clock, ttl, rng)),
        });
        processes[host].turn();
    }
    through(&simulation, &processes, end);
    simulation.lock().hosts.iter_mut().for_each(|host| host.alive = false);
    let history = std::mem::take(&mut simulation.lock().record.history);
    drop(processes);
    simulation.lock().agenda.clear();
    let violations = [one_holder(&history), fenced_writes_never_go_back(&history)].concat();
    match shared.servers.defect().or_else(|| violations.first().map(ToString::to_string)) {
        Some(message) => Err(Box::new(Failure { seed, message, history })),
        None => Ok(*shared.permits.lock()),
    }
}

/// Lets time pass. Each process that an alarm wakes runs until it is idle.
fn through(simulation: &Simulation, processes: &[Process], end: Nanos) {
    loop {
        let next = simulation.lock().agenda.pop();
        let Some(Reverse(Scheduled { at, item, .. })) = next.filter(|next| next.0.at <= end) else { return };
        simulation.advance(at);
        if let Item::Alarm(host, alarm) = item
            && alarm.set()
        {
            alarm.ring();
            processes[host as usize].turn();
        }
    }
}

async fn nap(clock: &HostClock, ms: u64) {
    clock.sleep_until(clock.now() + Duration::from_millis(ms)).await;
}

/// One process: it takes keys, acts under them, and lets them go.
async fn hold(shared: Arc<KeeperRun>, host: usize, clock: HostClock, ttl: u64, mut rng: SeededRng) {
    let store: Arc<dyn Store> = shared.connections[host - 1].clone();
    let (Ok(name), Ok(ttl)) = (Holder::new(format!("h{host}")), Ttl::from_millis(ttl)) else { return };
    let entropy = Arc::new(SeededEntropy::new(rng.next()));
    let keeper = Keeper::builder(store, name).entropy(entropy).without_watchdog().build();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(sweep(shared.clone(), host, clock.clone()));
    loop {
        let Ok(key) = Key::new(format!("k/{}", rng.below(KEYS))) else { return };
        let wait = Duration::from_millis(rng.below(2 * ttl.as_millis()));
        match keeper.acquire(key, Terms::new(ttl), wait).await {
            Ok(guard) => act(&shared, host as u32, &clock, guard, &mut rng).await,
            Err(_) => nap(&clock, rng.within(1, 200)).await,
        }
    }
}

/// Brings keys up to date every second, as the engine does.
async fn sweep(shared: Arc<KeeperRun>, host: usize, clock: HostClock) {
    loop {
        nap(&clock, 1_000).await;
        shared.connections[host - 1].sweep().await;
    }
}

async fn act(shared: &KeeperRun, client: u32, clock: &HostClock, guard: Guard, rng: &mut SeededRng) {
    for _ in 0..rng.within(1, 12) {
        let fence = match guard.permit(Duration::ZERO) {
            Ok(permit) => {
                let (fence, until) =
                    (permit.fence(Mode::Monotonic), clock.true_time(permit.deadline().tick()));
                *shared.permits.lock() += 1;
                let number = *shared.permits.lock();
                let (key, generation) = (fence.key.to_string(), fence.generation.get());
                let token = token_id(fence.token.digest().as_bytes());
                shared.simulation.note(What::Permit {
                    permit: number,
                    client,
                    key,
                    generation,
                    token,
                    until,
                });
                // Some take longer than they may: then only the mark stands between.
                nap(clock, rng.below(400)).await;
                shared.simulation.note(What::PermitOver { permit: number });
                fence
            }
            Err(PermitError::Lost(_)) => return,
            Err(_) => {
                nap(clock, rng.below(400)).await;
                continue;
            }
        };
        let mark = HighWaterMark::new(fence.generation, fence.token.digest());
        let mut marks = shared.marks.lock();
        let accepted = HighWaterMark::admits(marks.get(&fence.key), &mark);
        if accepted {
            marks.insert(fence.key.clone(), mark);
        }
        let (key, generation) = (fence.key.to_string(), fence.generation.get());
        let token = token_id(fence.token.digest().as_bytes());
        shared.simulation.note(What::Wrote { key, client, generation, token, accepted, strict: false });
    }
    if !rng.one_in(4) {
        drop(guard.release().await);
    }
}

/// What happens to the servers: a restart of the only one with what it saved or with nothing, or a replica that is
/// behind takes over while the old master lives. Callers learn of it one by one.
async fn disturb(shared: Arc<KeeperRun>, clock: HostClock, mut rng: SeededRng) {
    let mut current = 0;
    loop {
        nap(&clock, rng.within(2_000, 20_000)).await;
        if shared.profile == Profile::Single {
            let behind = match rng.below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(rng.within(1, 6) as usize),
            };
            shared.servers.with(|cluster| cluster.restart(0, behind));
            fault(&shared, "restart");
            continue;
        }
        let replica = 1 + rng.below(2) as usize;
        let cut = (current + replica) % 3;
        shared.servers.with(|cluster| cluster.cut(cut, true));
        nap(&clock, rng.within(500, 8_000)).await;
        if rng.one_in(2) {
            // Sentinel needs its time, and the new master may be the one that heard nothing.
            let next = (current + 1 + rng.below(2) as usize) % 3;
            shared.servers.with(|cluster| cluster.promote(next));
            fault(&shared, "promote");
            for connection in &shared.connections {
                nap(&clock, rng.within(10, 2_000)).await;
                connection.turn_to(next);
            }
            shared.servers.with(|cluster| cluster.demote(current, next));
            current = next;
        }
        for node in (0..3).filter(|node| *node != current) {
            shared.servers.with(|cluster| {
                cluster.cut(node, false);
                cluster.copy(node, 0);
            });
        }
    }
}

fn fault(shared: &KeeperRun, name: &'static str) {
    let until = shared.simulation.now();
    shared.simulation.note(What::Fault { name: name.into(), host: Some(0), until });
}
