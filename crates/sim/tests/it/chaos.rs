//! Real holders against real servers, under faults, judged like a simulation.

use std::time::Duration;

use tenure_lease::Clock;
use tenure_sim::chaos::{Chaos, Engine, Verdict, run};
use tenure_sim::judge::Invariant;

/// For how long things go wrong here; `cargo xtask chaos` takes as long as you like.
const LENGTH: Duration = Duration::from_secs(12);

fn judged(chaos: &Chaos) -> Verdict {
    println!("{} from seed {}", chaos.engine, chaos.seed);
    let verdict = run(chaos).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{verdict}");
    verdict
}

/// A fresh seed; a failure prints it.
fn fresh() -> u64 {
    tenure_store::BootClock.now().as_nanos()
}

fn holds_on(engine: Engine) {
    let verdict = judged(&Chaos::new(engine, fresh(), LENGTH));
    assert!(verdict.violations.is_empty(), "seed {}: {verdict}", verdict.history.setting.seed);
    assert!(verdict.is_meaningful(), "{verdict}");
}

#[test]
fn processes_on_the_embedded_server_keep_the_invariants_under_faults() {
    holds_on(Engine::Embedded);
}

#[test]
fn processes_on_redis_keep_the_invariants_under_faults() {
    holds_on(Engine::Redis);
}

#[test]
fn a_process_that_acts_past_its_deadline_is_found() {
    let verdict = judged(&Chaos { broken: true, ..Chaos::new(Engine::Embedded, fresh(), LENGTH) });
    let found = verdict.violations.iter().any(|violation| violation.invariant == Invariant::OneHolder);
    assert!(found, "the judge saw nothing: {verdict}");
}
