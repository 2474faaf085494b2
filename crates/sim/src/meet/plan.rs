//! What a seed decides beforehand: who takes part, what they do, and what goes wrong.

use std::fmt;

use crate::rng::Rng;
use crate::simulation::HostId;
use crate::simulation::net::Weather;

/// The hosts with fixed roles; controllers follow, then people.
pub(super) const STORE: HostId = 0;
pub(super) const GLOBAL: HostId = 1;
pub(super) const HANDLER: HostId = 2;
pub(super) const FIRST_CONTROLLER: HostId = 3;

/// When people begin to come, and when the last fault may begin.
const ARRIVALS_MS: u64 = 1_500;
const LAST_FAULT_MS: u64 = 18_000;

/// A run before it runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The seed of everything that is decided on the way.
    pub seed: u64,
    /// How many meeting controllers there are.
    pub controllers: u32,
    /// How the clock of each host runs against true time, in parts per million.
    pub ppm: Vec<i64>,
    /// The people; the first is the host of the meeting.
    pub people: Vec<Person>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// When the last fault is over, in milliseconds.
    pub calm_ms: u64,
}

/// A participant.
#[derive(Clone, PartialEq, Debug)]
pub struct Person {
    /// The user; two people may be devices of one user.
    pub user: String,
    /// When it comes, in milliseconds.
    pub start_ms: u64,
    /// What it does, each a while after the one before.
    pub acts: Vec<(u64, Act)>,
}

/// One thing that a person does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Writes a chat message.
    Chat,
    /// Mutes or unmutes itself.
    Mute(bool),
    /// As host: mutes or unmutes a person.
    HostMute(usize, bool),
    /// As host: removes a person.
    Kick(usize),
    /// Goes away without a word and comes back, as a page that is loaded again.
    Reload,
    /// Leaves.
    Leave,
    /// As host: ends the meeting.
    End,
}

/// Something that goes wrong from `at_ms` on, for `for_ms`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fault {
    /// When it begins.
    pub at_ms: u64,
    /// How long it lasts.
    pub for_ms: u64,
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
    /// Packets of all hosts are lost and late.
    Storm(Weather),
    /// A process does not run; its clock does.
    Freeze {
        /// The host.
        host: u32,
    },
    /// A process dies and is started again at the end.
    Crash {
        /// The host.
        host: u32,
    },
    /// The sessions of a host break.
    HangUp {
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
    /// An eavesdropper sends the last resume of a person once more, as an attempt of its own.
    Replay {
        /// The person's host.
        host: u32,
    },
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let controllers = 2 + rng.below(2) as u32;
        let count = 2 + rng.below(3) as usize;
        let people: Vec<Person> = (0..count).map(|number| person(number, count, &mut rng)).collect();
        let hosts = FIRST_CONTROLLER + controllers + people.len() as u32;
        let ppm = (0..hosts).map(|_| rng.below(8_000) as i64 - 4_000).collect();
        let mut plan = Self { seed, controllers, ppm, people, faults: Vec::new(), calm_ms: 0 };
        let faults = if rng.chance(10) { 0 } else { 1 + rng.below(5) };
        for _ in 0..faults {
            let kind = plan.kind(&mut rng);
            let at_ms = rng.within(ARRIVALS_MS + 500, LAST_FAULT_MS);
            plan.faults.push(Fault { at_ms, for_ms: lasts(kind, &mut rng), kind });
        }
        let over = plan.faults.iter().map(|fault| fault.at_ms + fault.for_ms).max();
        plan.calm_ms = over.unwrap_or(ARRIVALS_MS) + 500;
        plan
    }

    /// The host of a person.
    pub(super) fn host_of(&self, person: usize) -> HostId {
        FIRST_CONTROLLER + self.controllers + person as u32
    }

    fn kind(&self, rng: &mut Rng) -> Kind {
        let controller = FIRST_CONTROLLER + rng.below(u64::from(self.controllers)) as u32;
        let person = self.host_of(rng.below(self.people.len() as u64) as usize);
        let server = rng.pick(&[STORE, GLOBAL, controller, controller]);
        let anything = rng.pick(&[STORE, GLOBAL, HANDLER, controller, controller, person, person]);
        match rng.below(100) {
            0..20 => Kind::Crash { host: rng.pick(&[controller, controller, controller, GLOBAL, person]) },
            20..40 => Kind::Freeze { host: rng.pick(&[server, server, controller, person, HANDLER]) },
            40..58 => {
                let (from, to) = rng.pick(&[(true, true), (true, false), (false, true)]);
                Kind::Cut { host: anything, from, to }
            }
            58..73 => Kind::Storm(Weather {
                loss: rng.below(40) as u8,
                double: 0,
                late: rng.below(40) as u8,
                late_ms: 1 + rng.below(2_000) as u32,
            }),
            73..88 => Kind::HangUp { host: rng.pick(&[controller, person, person]) },
            88..94 => Kind::Replay { host: person },
            _ => Kind::Step { host: anything, by_ms: rng.below(6_000) as i32 - 3_000 },
        }
    }
}

/// How long a fault lasts.
fn lasts(kind: Kind, rng: &mut Rng) -> u64 {
    match kind {
        Kind::HangUp { .. } | Kind::Step { .. } | Kind::Replay { .. } => 0,
        Kind::Storm(_) => rng.within(500, 6_000),
        _ if rng.chance(50) => rng.within(50, 2_500),
        _ => rng.within(2_500, 11_000),
    }
}

fn person(number: usize, count: usize, rng: &mut Rng) -> Person {
    // The last one may be another device of the one before.
    let twin = number > 1 && number + 1 == count && rng.chance(20);
    let user = format!("u{}", if twin { number - 1 } else { number });
    let start_ms = ARRIVALS_MS + rng.below(3_000);
    let acts = (0..1 + rng.below(8)).map(|_| (rng.below(3_000), act(number, count, rng)));
    let mut acts: Vec<(u64, Act)> = acts.collect();
    if number == 0 && rng.chance(6) {
        acts.push((rng.below(4_000), Act::End));
    }
    Person { user, start_ms, acts }
}

fn act(number: usize, count: usize, rng: &mut Rng) -> Act {
    let other = 1 + rng.below(count as u64 - 1) as usize;
    match rng.below(100) {
        0..25 if number == 0 => Act::HostMute(other, rng.chance(70)),
        25..30 if number == 0 => Act::Kick(other),
        0..8 => Act::Reload,
        8..11 if number > 0 => Act::Leave,
        11..25 => Act::Mute(rng.chance(50)),
        _ => Act::Chat,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} controllers, calm after {} ms", self.seed, self.controllers, self.calm_ms)?;
        for (number, person) in self.people.iter().enumerate() {
            let host = self.host_of(number);
            writeln!(f, "  host {host}: {} from {} ms: {:?}", person.user, person.start_ms, person.acts)?;
        }
        for fault in &self.faults {
            writeln!(f, "  {} ms for {} ms: {:?}", fault.at_ms, fault.for_ms, fault.kind)?;
        }
        Ok(())
    }
}
