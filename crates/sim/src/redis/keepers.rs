//! Real keepers on the model, while its server restarts or is replaced and the network between is bad.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Holder, Key, Mark, Mode, Store, Ttl};
use lease_keeper::{Guard, Keeper, NotSafe, Terms};
use parking_lot::Mutex;

use super::store::{Connection, Servers};
use super::{Break, Profile};
use crate::disk::Failure;
use crate::disk::dice::{Dice, Mint};
use crate::history::{Nanos, Setting, What, token_id};
use crate::judge::{fenced_writes_never_go_back, one_holder};
use crate::rng::Rng;
use crate::world::clock::HostClock;
use crate::world::exec::Process;
use crate::world::{HostId, Item, Scheduled, World};

const MS: Nanos = 1_000_000;
const KEEPERS: u64 = 3;
const KEYS: u64 = 2;
/// The most that a clock is fast or slow, in parts per million: what the margins assume.
const PPM: u64 = 4_000;

/// What all hosts share.
struct Shared {
    world: Arc<World>,
    connections: Vec<Arc<Connection>>,
    servers: Servers,
    profile: Profile,
    /// A resource behind each key that admits by number alone.
    marks: Mutex<BTreeMap<Key, Mark>>,
    permits: Mutex<u64>,
}

/// Runs one seed and answers how many permits there were.
pub(super) fn run(seed: u64, how: Option<Break>) -> Result<u64, Box<Failure>> {
    let mut dice = Dice::new(seed ^ 0x6b65_6570);
    let profile = if dice.one_in(2) { Profile::Single } else { Profile::Strict };
    let (ttl, end) = match profile {
        Profile::Strict => (10_000, 300_000 * MS),
        _ => (1_500, 60_000 * MS),
    };
    let setting = Setting { seed, engine: profile.name().into(), ..Setting::default() };
    let world = World::new(1 + KEEPERS as usize, Rng::new(seed), setting);
    let clocks: Vec<HostClock> = (0..=KEEPERS as HostId)
        .map(|host| {
            let ppm = dice.within(0, 2 * PPM) as i64 - PPM as i64;
            HostClock::new(&world, host, ppm, 1_000_000_000 * dice.within(1, 1_000), false)
        })
        .collect();
    // A quarantine is as long as the longest TTL that is granted.
    let quarantine = Duration::from_millis(ttl);
    let servers = Servers::start(profile, quarantine, how, Arc::new(clocks[0].clone()));
    let connections = (1..=KEEPERS as usize)
        .map(|host| Arc::new(servers.connect(0, Arc::new(clocks[host].clone()), Dice::new(dice.next()))))
        .collect();
    let shared = Arc::new(Shared {
        world: world.clone(),
        connections,
        servers,
        profile,
        marks: Mutex::default(),
        permits: Mutex::default(),
    });
    let failed = |words: String| {
        Box::new(Failure { seed, words, history: std::mem::take(&mut world.lock().record.history) })
    };
    let processes: Result<Vec<Process>, _> = clocks.iter().map(|_| Process::start()).collect();
    let processes = processes.map_err(|error| failed(error.to_string()))?;
    for (host, clock) in clocks.iter().enumerate() {
        let (shared, clock, dice) = (shared.clone(), clock.clone(), Dice::new(dice.next()));
        drop(match host {
            0 => processes[host].runtime().spawn(disturb(shared, clock, dice)),
            _ => processes[host].runtime().spawn(hold(shared, host, clock, ttl, dice)),
        });
        processes[host].turn();
    }
    through(&world, &processes, end);
    world.lock().hosts.iter_mut().for_each(|host| host.alive = false);
    let history = std::mem::take(&mut world.lock().record.history);
    drop(processes);
    world.lock().agenda.clear();
    let wrong = [one_holder(&history), fenced_writes_never_go_back(&history)].concat();
    match wrong.first() {
        Some(violation) => Err(Box::new(Failure { seed, words: violation.to_string(), history })),
        None => Ok(*shared.permits.lock()),
    }
}

/// Lets time pass: whoever it wakes runs until there is nothing to do.
fn through(world: &World, processes: &[Process], end: Nanos) {
    loop {
        let next = world.lock().agenda.pop();
        let Some(Reverse(Scheduled { at, item, .. })) = next.filter(|next| next.0.at <= end) else { return };
        world.advance(at);
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
async fn hold(shared: Arc<Shared>, host: usize, clock: HostClock, ttl: u64, mut dice: Dice) {
    let store: Arc<dyn Store> = shared.connections[host - 1].clone();
    let (Ok(name), Ok(ttl)) = (Holder::new(format!("h{host}")), Ttl::from_millis(ttl)) else { return };
    let mint = Arc::new(Mint::new(dice.next()));
    let keeper = Keeper::builder(store, name).entropy(mint).without_watchdog().build();
    loop {
        let Ok(key) = Key::new(format!("k/{}", dice.below(KEYS))) else { return };
        let wait = Duration::from_millis(dice.below(2 * ttl.as_millis()));
        match keeper.acquire(key, Terms::new(ttl), wait).await {
            Ok(guard) => act(&shared, host as u32, &clock, guard, &mut dice).await,
            Err(_) => nap(&clock, dice.within(1, 200)).await,
        }
    }
}

async fn act(shared: &Shared, client: u32, clock: &HostClock, guard: Guard, dice: &mut Dice) {
    for _ in 0..dice.within(1, 12) {
        let fence = match guard.permit(Duration::ZERO) {
            Ok(permit) => {
                let (fence, until) =
                    (permit.fence(Mode::Monotonic), clock.true_time(permit.deadline().tick()));
                *shared.permits.lock() += 1;
                let number = *shared.permits.lock();
                let (key, generation) = (fence.key.to_string(), fence.generation.get());
                let token = token_id(fence.token.digest().as_bytes());
                shared.world.note(What::Permit { permit: number, client, key, generation, token, until });
                // Some take longer than they may: then only the mark stands between.
                nap(clock, dice.below(400)).await;
                shared.world.note(What::PermitOver { permit: number });
                fence
            }
            Err(NotSafe::Lost(_)) => return,
            Err(_) => {
                nap(clock, dice.below(400)).await;
                continue;
            }
        };
        let mark = Mark::new(fence.generation, fence.token.digest());
        let mut marks = shared.marks.lock();
        let accepted = Mark::admits(marks.get(&fence.key), &mark);
        if accepted {
            marks.insert(fence.key.clone(), mark);
        }
        let (key, generation) = (fence.key.to_string(), fence.generation.get());
        let token = token_id(fence.token.digest().as_bytes());
        shared.world.note(What::Wrote { key, client, generation, token, accepted, strict: false });
    }
    if !dice.one_in(4) {
        drop(guard.release().await);
    }
}

/// What happens to the servers: a restart of the only one with what it saved or with nothing, or a replica that is
/// behind takes over while the old master lives. Callers learn of it one by one.
async fn disturb(shared: Arc<Shared>, clock: HostClock, mut dice: Dice) {
    let mut current = 0;
    loop {
        nap(&clock, dice.within(2_000, 20_000)).await;
        if shared.profile == Profile::Single {
            let behind = match dice.below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(dice.within(1, 6) as usize),
            };
            shared.servers.with(|cluster| cluster.restart(0, behind));
            fault(&shared, "restart");
            continue;
        }
        let replica = 1 + dice.below(2) as usize;
        let cut = (current + replica) % 3;
        shared.servers.with(|cluster| cluster.cut(cut, true));
        nap(&clock, dice.within(500, 8_000)).await;
        if dice.one_in(2) {
            // Sentinel needs its time, and the new master may be the one that heard nothing.
            let next = (current + 1 + dice.below(2) as usize) % 3;
            shared.servers.with(|cluster| cluster.promote(next));
            fault(&shared, "promote");
            for connection in &shared.connections {
                nap(&clock, dice.within(10, 2_000)).await;
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

fn fault(shared: &Shared, name: &'static str) {
    let until = shared.world.now();
    shared.world.note(What::Fault { name: name.into(), host: Some(0), until });
}
