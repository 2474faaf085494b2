//! What happens in a run: everything that the seed decides beforehand, as data that can be cut down.

use std::fmt;

use crate::rng::Rng;
use crate::simulation::net::Weather;

/// Keys that workers share.
pub(crate) const KEYS: u8 = 3;
/// Slots that are offered.
pub(crate) const SLOTS: u32 = 2;
/// Jobs that are shared by placement.
pub(crate) const JOBS: u8 = 3;

/// A run before it runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The seed of everything that is decided on the way.
    pub seed: u64,
    /// The bound on clock drift that the margins assume, in parts per million.
    pub bound_ppm: u32,
    /// The TTL of every claim, in milliseconds.
    pub ttl_ms: u32,
    /// The hosts; the first is the server.
    pub hosts: Vec<Machine>,
    /// Percent of requests that arrive once more, up to a TTL later, also while nothing is at fault.
    pub repeats: u8,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What the hosts do.
    pub tasks: Vec<Task>,
    /// Whether output is kept and searched for tokens.
    pub listen: bool,
    /// Whether an order of the store's operations is looked for, which takes long.
    pub ordered: bool,
    /// When the last fault is over, in milliseconds.
    pub calm_ms: u32,
}

/// A host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// How its clock runs against true time, in parts per million.
    pub ppm: i64,
    /// What its clock shows at the start.
    pub base: u64,
    /// The number in its holder's name: hosts may share one.
    pub name: u8,
}

/// Something that goes wrong from `at_ms` on, for `for_ms`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fault {
    /// When it begins.
    pub at_ms: u32,
    /// How long it lasts.
    pub for_ms: u32,
    /// What it is.
    pub kind: Kind,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Packets from, or to, or from and to a host are lost.
    Cut {
        /// The host.
        host: u32,
        /// Those from it.
        from: bool,
        /// Those to it.
        to: bool,
    },
    /// Packets of all hosts are lost, late and doubled.
    Storm(Weather),
    /// A process does not run; its clock does.
    Freeze {
        /// The host.
        host: u32,
    },
    /// A machine sleeps; only a clock that counts suspend goes on.
    Suspend {
        /// The host.
        host: u32,
    },
    /// A process dies and is started again at the end.
    Crash {
        /// The host.
        host: u32,
    },
    /// The connections of a host break and can be made again at once.
    Reset {
        /// The host.
        host: u32,
    },
    /// A wall clock jumps.
    Step {
        /// The host.
        host: u32,
        /// By so many milliseconds.
        by_ms: i32,
    },
}

/// One thing that one lane of a host does; a lane does its things one after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Task {
    /// The host.
    pub host: u32,
    /// The lane.
    pub lane: u8,
    /// How long the lane rests before.
    pub rest_ms: u32,
    /// What it does.
    pub act: Act,
    /// Drops the whole thing after so many milliseconds, wherever it is.
    pub cut_ms: Option<u32>,
}

/// What a lane does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Act {
    /// Takes a key, acts under it, and ends.
    Hold {
        /// Which key.
        key: u8,
        /// How long to wait for it.
        wait_ms: u32,
        /// How often to act.
        acts: u8,
        /// How to end.
        end: Ending,
    },
    /// Takes a key and runs work that lives and dies with it.
    Run {
        /// Which key.
        key: u8,
        /// How long to wait for it.
        wait_ms: u32,
        /// How often to act.
        acts: u8,
    },
    /// Takes two keys or none.
    Bundle {
        /// The first.
        first: u8,
        /// The second.
        second: u8,
        /// How long to wait.
        wait_ms: u32,
    },
    /// Takes any of several slots.
    Slot {
        /// How long to wait.
        wait_ms: u32,
        /// How often to act.
        acts: u8,
    },
    /// Opens a gate and perhaps wipes under it.
    Gate {
        /// Whether to wipe.
        wipe: bool,
        /// How long to keep it.
        keep_ms: u32,
    },
    /// Joins the roster and does the jobs that placement gives it.
    Share {
        /// How often to act on each.
        acts: u8,
    },
    /// Ends the running reign by force.
    Revoke {
        /// Which key.
        key: u8,
    },
    /// Wipes without proof, renews and releases what it does not hold.
    Forge {
        /// Which key.
        key: u8,
    },
    /// Holds without a keeper: one TTL, then asks for more too late.
    Overstay {
        /// Which key.
        key: u8,
        /// How much too late, in milliseconds.
        late_ms: u32,
    },
}

/// How a hold ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ending {
    /// Given back.
    Release,
    /// Dropped.
    Drop,
    /// Given back for a named successor.
    To(u8),
    /// Handed to a parked successor.
    Transfer(u8),
    /// Drained, then handed over.
    Handoff(u8),
    /// Kept until it is lost, or for two TTLs.
    Keep,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let wide = rng.chance(25);
        let beyond = rng.chance(12);
        let bound_ppm = if wide { 190_000 } else { 10_000 };
        let ttl_ms = rng.pick(if wide { &[1_000, 1_500][..] } else { &[400, 600, 1_000, 1_500][..] });
        let clients = rng.within(2, 5) as usize;
        let shared = rng.chance(25);
        let hosts = (0..=clients).map(|host| machine(&mut rng, wide, beyond, shared, host)).collect();
        let mut plan = Self {
            seed: rng.number(),
            bound_ppm,
            ttl_ms,
            hosts,
            repeats: repeats(seed),
            faults: Vec::new(),
            tasks: Vec::new(),
            listen: seed.is_multiple_of(16),
            ordered: seed % 16 == 1,
            calm_ms: 0,
        };
        plan.tasks = tasks(&mut rng, clients as u32, ttl_ms);
        plan.faults = faults(&mut rng, clients as u32, ttl_ms);
        plan.calm_ms = plan.faults.iter().map(|fault| fault.at_ms + fault.for_ms).max().unwrap_or(0) + 1;
        plan
    }

    /// Whether every clock stays within the bound.
    pub fn clocks_hold(&self) -> bool {
        let most = if self.bound_ppm > 10_000 { 100_000 } else { 4_000 };
        self.hosts.iter().all(|host| host.ppm.abs() <= most)
    }

    /// Whether the server dies: in memory, it forgets.
    pub fn server_dies(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, Kind::Crash { host: 0 }))
    }
}

/// In one of eight seeds the network repeats itself. The choice is not one of the seed's others.
fn repeats(seed: u64) -> u8 {
    let mut rng = Rng::new(seed ^ 0x0072_6570_6561_7473);
    if rng.chance(12) { rng.within(5, 40) as u8 } else { 0 }
}

fn machine(rng: &mut Rng, wide: bool, beyond: bool, shared: bool, host: usize) -> Machine {
    let most: u64 = match (wide, beyond) {
        (_, true) => 300_000,
        (true, false) => 100_000,
        (false, false) => 4_000,
    };
    // The edges of the bound are where mistakes show.
    let ppm = match rng.below(4) {
        0 => most as i64,
        1 => -(most as i64),
        2 => 0,
        _ => rng.below(2 * most + 1) as i64 - most as i64,
    };
    let name = if shared { 1 + (host % 2) as u8 } else { host as u8 };
    Machine { ppm, base: 1_000_000_000 * rng.within(1, 1_000_000), name }
}

fn tasks(rng: &mut Rng, clients: u32, ttl: u32) -> Vec<Task> {
    let mut tasks = Vec::new();
    // Few keys make for meetings; many make for variety.
    let keys = rng.within(1, u64::from(KEYS) + 1) as u8;
    for host in 1..=clients {
        for lane in 0..rng.within(1, 3) as u8 {
            for _ in 0..rng.within(2, 5) {
                let rest_ms = if rng.chance(50) { 0 } else { rng.below(u64::from(ttl)) as u32 };
                let act = act(rng, clients, keys, ttl);
                let cut_ms = rng.chance(15).then(|| rng.below(u64::from(ttl) * 2) as u32);
                tasks.push(Task { host, lane, rest_ms, act, cut_ms });
            }
        }
    }
    tasks
}

fn act(rng: &mut Rng, clients: u32, keys: u8, ttl: u32) -> Act {
    let key = rng.below(u64::from(keys)) as u8;
    let wait_ms = if rng.chance(30) { 0 } else { rng.below(u64::from(ttl) * 4) as u32 };
    let acts = rng.within(1, 5) as u8;
    let successor = rng.within(1, u64::from(clients) + 1) as u8;
    match rng.below(100) {
        0..=49 => {
            let end = match rng.below(10) {
                0..=1 => Ending::Release,
                2 => Ending::Drop,
                3 => Ending::To(successor),
                4..=5 => Ending::Transfer(successor),
                6 => Ending::Handoff(successor),
                _ => Ending::Keep,
            };
            Act::Hold { key, wait_ms, acts, end }
        }
        50..=59 => Act::Run { key, wait_ms, acts },
        60..=65 => Act::Bundle { first: key, second: (key + 1) % KEYS, wait_ms },
        66..=74 => Act::Slot { wait_ms, acts },
        75..=78 => Act::Gate { wipe: rng.chance(60), keep_ms: rng.below(u64::from(ttl) * 2) as u32 },
        79..=84 => Act::Share { acts },
        85..=88 => Act::Revoke { key },
        89..=93 => Act::Forge { key },
        _ => Act::Overstay { key, late_ms: rng.below(u64::from(ttl)) as u32 },
    }
}

fn faults(rng: &mut Rng, clients: u32, ttl: u32) -> Vec<Fault> {
    let mut faults = Vec::new();
    let server_may_die = rng.chance(12);
    for _ in 0..rng.below(8) {
        let at_ms = rng.below(5_000) as u32;
        let for_ms = rng.within(20, u64::from(ttl) * 3) as u32;
        let host = rng.below(u64::from(clients) + 1) as u32;
        let client = rng.within(1, u64::from(clients) + 1) as u32;
        let kind = match rng.below(100) {
            0..=7 => Kind::Reset { host: client },
            8..=24 => {
                let both = rng.chance(40);
                let from = both || rng.chance(50);
                Kind::Cut { host: client, from, to: both || !from }
            }
            25..=44 => Kind::Storm(Weather {
                loss: rng.below(60) as u8,
                double: rng.below(50) as u8,
                late: rng.below(60) as u8,
                late_ms: rng.pick(&[20, ttl / 2, ttl * 2]),
            }),
            45..=64 => Kind::Freeze { host },
            65..=79 => Kind::Suspend { host: client },
            80..=94 if server_may_die && rng.chance(50) => Kind::Crash { host: 0 },
            80..=94 => Kind::Crash { host: client },
            _ => Kind::Step { host: client, by_ms: rng.below(20_000) as i32 - 10_000 },
        };
        faults.push(Fault { at_ms, for_ms, kind });
    }
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ttl {} ms, drift bound {} ppm", self.ttl_ms, self.bound_ppm)?;
        for (host, machine) in self.hosts.iter().enumerate() {
            let role = if host == 0 { "server" } else { "client" };
            writeln!(f, "host {host}: {role}, name h{}, clock {:+} ppm", machine.name, machine.ppm)?;
        }
        for fault in &self.faults {
            writeln!(f, "fault at {} ms for {} ms: {:?}", fault.at_ms, fault.for_ms, fault.kind)?;
        }
        for task in &self.tasks {
            let cut = task.cut_ms.map(|ms| format!(", dropped after {ms} ms")).unwrap_or_default();
            writeln!(
                f,
                "host {} lane {}: {:?} after {} ms{cut}",
                task.host, task.lane, task.act, task.rest_ms
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan() {
        for seed in 0..50 {
            assert_eq!(Plan::of(seed), Plan::of(seed));
        }
        assert_ne!(Plan::of(1), Plan::of(2));
    }

    #[test]
    fn plans_vary_and_most_keep_their_clocks() {
        let plans: Vec<Plan> = (0..500).map(Plan::of).collect();
        let holding = plans.iter().filter(|plan| plan.clocks_hold()).count();
        assert!((400..490).contains(&holding), "{holding}");
        assert!(plans.iter().any(Plan::server_dies));
        assert!(plans.iter().any(|plan| plan.faults.is_empty()));
    }
}
