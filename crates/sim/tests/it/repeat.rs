//! One seed is one history.

use tenure_sim::plan::Plan;
use tenure_sim::run::run;

fn fingerprints(seeds: std::ops::Range<u64>) -> Vec<u64> {
    seeds.map(|seed| run(&Plan::of(seed)).history.fingerprint()).collect()
}

#[test]
fn a_seed_gives_the_same_history_again_and_in_every_thread() {
    let first = fingerprints(100..140);
    let others: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| fingerprints(100..140))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(first, fingerprints(100..140));
    assert!(others.iter().all(|other| *other == first));
}

#[test]
fn another_seed_gives_another_history() {
    let mut seen = fingerprints(100..140);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 40);
}
