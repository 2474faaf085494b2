//! A model of Redis as the kernel uses it: a key space where every verb is one atomic step, decided by
//! [`lease::rules`] on the server's own clock; replicas that are behind; the promotion of a stale one while the old
//! master lives; restarts with what was saved, or with nothing; incarnations, the floor and the quarantine.
//!
//! What is judged follows from the profile. A single server: one holder at a time and rising generations over every
//! restart, thanks to the quarantine. Sentinel: numbers never repeat, so fencing holds; not single holding. Strict
//! (answers only once all configured replicas have it): single holding and rising generations over stale promotions.
//!
//! Callers in the model's own world keep deadlines by the rule; in some seeds real keepers do, over a slow network
//! that loses requests and answers, each with a clock of its own.

mod cluster;
mod data;
mod keepers;
mod store;
mod world;

use self::world::World;
use crate::disk::Failure;
use crate::history::{Event, History, What};
use crate::linear::{self, Broken, Looked};

/// How Redis is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// One server.
    Single,
    /// A master and two replicas under Sentinel.
    Sentinel,
    /// The same, with answers only after WAIT for both replicas.
    Strict,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Single, Self::Sentinel, Self::Strict];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "redis",
            Self::Sentinel => "redis+sentinel",
            Self::Strict => "redis+sentinel strict",
        }
    }
}

/// One way to be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Generations are counted up by one and nothing else.
    PlainIncrement,
    /// The floor is not raised for another server process.
    KeepsTheFloor,
    /// An incarnation is known by the server process alone, so a master that was a replica for a while is taken for
    /// the same, though its data was replaced by older data.
    ProcessOnly,
    /// Free keys are granted right after a restart.
    NoQuarantine,
    /// Answers do not wait for the replicas.
    IgnoresWait,
}

impl Break {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::PlainIncrement, Self::KeepsTheFloor, Self::ProcessOnly, Self::NoQuarantine, Self::IgnoresWait];

    /// What is wrong, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::PlainIncrement => "counts generations up by one and nothing else",
            Self::KeepsTheFloor => "does not raise the floor for another server process",
            Self::ProcessOnly => "takes a master that was a replica for a while for the same as before",
            Self::NoQuarantine => "grants free keys right after a restart",
            Self::IgnoresWait => "answers before the replicas have it",
        }
    }
}

/// What a run was like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    /// The profile that the seed chose.
    pub profile: Profile,
    /// Operations asked.
    pub asked: u64,
    /// Restarts, promotions and demotions.
    pub changes: u32,
    /// A number that two runs share only if they did the same.
    pub trace: u64,
    /// The search for an order of what was answered.
    pub order: Looked,
    /// Permits that real keepers gave, where the seed has some.
    pub permits: u64,
}

/// How many things happen in one run.
const STEPS: u64 = 400;

/// Runs one seed.
pub fn run(seed: u64) -> Result<Stats, Box<Failure>> {
    play(seed, None)
}

/// Runs one seed with a break, which some seed must find.
pub fn run_broken(seed: u64, how: Break) -> Result<Stats, Box<Failure>> {
    play(seed, Some(how))
}

fn play(seed: u64, how: Option<Break>) -> Result<Stats, Box<Failure>> {
    let profile = Profile::ALL[(seed % 3) as usize];
    let mut world = World::new(seed, profile, how);
    for _ in 0..STEPS {
        if world.wrong.is_some() {
            break;
        }
        world.step();
    }
    world.note(What::End);
    let order = match world.wrong.take() {
        Some(words) => Err(words),
        None => ordered(profile, &world.history).map_err(|broken| broken.to_string()),
    };
    match order {
        Err(words) => Err(Box::new(Failure { seed, words, history: world.history })),
        Ok(order) => {
            let (asked, changes, trace) = (world.ops, world.changes, world.dice.next());
            let permits = if seed % 16 == 3 { keepers::run(seed, how)? } else { 0 };
            Ok(Stats { profile, asked, changes, trace, order, permits })
        }
    }
}

/// Looks for an order that explains what was answered. The strict profile owes one over everything that happens to its servers;
/// the others do until the first of them restarts or is replaced, which may take back what was answered.
fn ordered(profile: Profile, history: &History) -> Result<Looked, Broken> {
    match profile {
        Profile::Strict => linear::check(history),
        Profile::Single | Profile::Sentinel => {
            let calm = |event: &&Event| !matches!(event.what, What::Fault { .. });
            let events = history.events.iter().take_while(calm).cloned().collect();
            linear::check(&History { setting: history.setting.clone(), events })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_keeps_what_it_promises() {
        for seed in 0..300 {
            if let Err(failure) = run(seed) {
                panic!("{failure}");
            }
        }
    }

    #[test]
    fn keepers_on_it_never_hold_one_key_together() {
        let permits: u64 = (0..40).map(|seed| keepers::run(seed, None).unwrap()).sum();
        assert!(permits > 40 * 20, "{permits}");
    }

    #[test]
    fn keepers_on_it_would_show_a_break() {
        let how = Break::NoQuarantine;
        let found = (0..400).find(|seed| keepers::run(*seed, Some(how)).is_err());
        assert!(found.is_some(), "nobody noticed that it {}", how.words());
    }

    #[test]
    fn a_seed_is_the_same_run_every_time() {
        for seed in 0..30 {
            assert_eq!(run(seed).unwrap(), run(seed).unwrap(), "{seed}");
        }
    }

    #[test]
    fn every_known_break_is_found() {
        for how in Break::ALL {
            let found = (0..3_000).find(|seed| run_broken(*seed, how).is_err());
            assert!(found.is_some(), "nobody noticed that it {}", how.words());
        }
    }
}
