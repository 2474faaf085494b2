//! The Redis engine, simulated: its real scripts run on in-memory servers, through the engine's own encoding of calls and
//! decoding of replies. Servers restart with what they saved or with older data, replicas lag and are promoted while the
//! old master lives, requests, replies and messages are late or lost, and waiting claims are woken or ask again.
//!
//! What is judged follows from the profile. A single server: one holder at a time and rising generations over every
//! restart, because of the quarantine. Sentinel: generations never repeat, so fencing holds; single holding does not.
//! Strict (replies only once all configured replicas have the change): single holding and rising generations over the
//! promotion of a stale replica.
//!
//! Most seeds have clients that compute their deadlines by the rule; in some, real keepers do, each with a clock of its
//! own, over a slow network that loses requests and replies.

mod breaks;
mod client;
mod cluster;
mod keepers;
mod requests;
mod scenarios;
pub mod server;
mod simulation;
mod store;
mod wipe;

pub use self::breaks::Break;
use self::simulation::RedisSimulation;
use crate::disk::Failure;
use crate::history::{Event, History, What};
use crate::linear::{self, NotLinearizable, SearchStats};

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
    pub order: SearchStats,
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
    if seed.is_multiple_of(64)
        && let Err(message) = scenarios::run(how)
    {
        return Err(Box::new(Failure { seed, message, history: History::default() }));
    }
    let profile = Profile::ALL[(seed % 3) as usize];
    let mut simulation = RedisSimulation::new(seed, profile, how);
    for _ in 0..STEPS {
        if simulation.wrong.is_some() {
            break;
        }
        simulation.step();
    }
    simulation.note(What::End);
    let order = match simulation.wrong.take() {
        Some(message) => Err(message),
        None => ordered(profile, &simulation.history).map_err(|broken| broken.to_string()),
    };
    match order {
        Err(message) => Err(Box::new(Failure { seed, message, history: simulation.history })),
        Ok(order) => {
            let (asked, changes, trace) = (simulation.ops, simulation.changes, simulation.rng.next());
            let permits = if seed % 16 == 3 { keepers::run(seed, how)? } else { 0 };
            Ok(Stats { profile, asked, changes, trace, order, permits })
        }
    }
}

/// Looks for an order that explains what was answered. The strict profile owes one over everything that happens to its servers;
/// the others do until the first of them restarts or is replaced, which may take back what was answered.
fn ordered(profile: Profile, history: &History) -> Result<SearchStats, NotLinearizable> {
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
        for seed in 0..150 {
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
        assert!(found.is_some(), "no seed found that it {}", how.describe());
    }

    #[test]
    fn a_seed_is_the_same_run_every_time() {
        for seed in 0..30 {
            assert_eq!(run(seed).unwrap(), run(seed).unwrap(), "{seed}");
        }
    }

    fn assert_found(how: Break) {
        let found = (0..1_000).find(|seed| run_broken(*seed, how).is_err());
        assert!(found.is_some(), "no seed found that it {}", how.describe());
    }

    /// A test per break, so that they run beside each other.
    macro_rules! every_known_break_is_found {
        ($($name:ident $how:ident)*) => {
            $(
                #[test]
                fn $name() {
                    assert_found(Break::$how);
                }
            )*

            #[test]
            fn every_known_break_has_a_test() {
                assert_eq!(Break::ALL, [$(Break::$how),*]);
            }
        };
    }

    every_known_break_is_found! {
        plain_increments_are_found PlainIncrement
        a_floor_that_stays_is_found KeepsFloor
        an_incarnation_by_process_alone_is_found ProcessOnly
        a_missing_quarantine_is_found NoQuarantine
        replies_before_the_replicas_are_found IgnoresWait
        renewals_of_expired_reigns_are_found RenewsExpired
        unchecked_releases_are_found ReleaseUnchecked
        grants_of_spent_tokens_are_found GrantsSpentTokens
        hand_overs_in_a_quarantine_are_found HandsOnInQuarantine
        a_quarantine_that_the_first_client_decides_is_found FirstClientDecides
        evictions_are_found Evicts
    }
}
