//! How evenly both placements distribute targets over nodes, and how many targets a join moves.

use anyhow::Result;
use tenure_lease::Placement;

use crate::report::{self, Goal};

/// Clusters per row.
const TRIALS: usize = 200;

pub(crate) fn run() -> Result<()> {
    report::heading("poll-spread: distribution of targets over nodes");
    let mut rows = Vec::new();
    let mut worst: f64 = 0.0;
    for (ids, id) in
        [("UUIDs", uuid as fn(usize, usize) -> String), ("short ids", short), ("numbered", numbered)]
    {
        for (targets, nodes) in [(9, 3), (100, 3), (1_000, 10), (10_000, 50)] {
            for placement in [Placement::Balanced, Placement::Seed] {
                let spread = spread(placement, id, targets, nodes);
                if placement == Placement::Balanced {
                    worst = worst.max(spread.joined / spread.share);
                }
                rows.push(vec![
                    ids.into(),
                    format!("{targets} on {nodes}"),
                    if placement == Placement::Balanced { "balanced" } else { "seed" }.into(),
                    format!("{:.1}", targets as f64 / nodes as f64),
                    format!("{:.0}–{:.0}", spread.least, spread.most),
                    format!("{:.2}", spread.joined / spread.share),
                ]);
            }
        }
    }
    report::line(&format!(
        "{TRIALS} clusters per row with instance ids as names; means over the clusters.\n"
    ));
    report::table(
        &["ids", "targets", "placement", "mean", "least–most loaded node", "moved by a join ÷ K/N"],
        &rows,
    );
    report::goals(&[Goal::at_most("moves of a join ÷ K/N, balanced, worst row", 1.3, worst)]);
    Ok(())
}

/// Means over the trials.
struct Spread {
    least: f64,
    most: f64,
    joined: f64,
    share: f64,
}

fn spread(placement: Placement, id: fn(usize, usize) -> String, targets: usize, nodes: usize) -> Spread {
    let trials = if targets * nodes > 100_000 { TRIALS / 20 } else { TRIALS };
    let (mut least, mut most, mut joined) = (0, 0, 0);
    for trial in 0..trials {
        let names: Vec<String> = (0..=nodes).map(|node| instance(trial, node)).collect();
        let ids: Vec<String> = (0..targets).map(|i| id(trial, i)).collect();
        let (names, ids): (Vec<&str>, Vec<&str>) =
            (names.iter().map(String::as_str).collect(), ids.iter().map(String::as_str).collect());
        let before = placement.assign(&ids, &names[..nodes]);
        let after = placement.assign(&ids, &names);
        let mut load = vec![0; nodes];
        before.iter().for_each(|node| load[*node] += 1);
        least += load.iter().min().copied().unwrap_or_default();
        most += load.iter().max().copied().unwrap_or_default();
        joined += before.iter().zip(&after).filter(|(before, after)| before != after).count();
    }
    let mean = |sum: usize| sum as f64 / trials as f64;
    let share = (targets as f64 / (nodes + 1) as f64).max(1.0);
    Spread { least: mean(least), most: mean(most), joined: mean(joined), share }
}

/// A hash of two numbers.
fn mixed(a: usize, b: usize) -> u128 {
    let seed = (a as u128) << 64 | b as u128;
    let once = (seed ^ seed >> 61).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (once ^ once >> 67).wrapping_mul(0xd6e8_feb8_6659_fd93_a076_1d64_78bd_642f_u128)
}

fn uuid(trial: usize, i: usize) -> String {
    let n = mixed(trial + 1, i + 1);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        n >> 96,
        n >> 80 & 0xffff,
        n >> 64 & 0xfff,
        n >> 48 & 0xfff,
        n & 0xffff_ffff_ffff
    )
}

fn short(_: usize, i: usize) -> String {
    format!("s{i}")
}

fn numbered(_: usize, i: usize) -> String {
    format!("session-{i:05}")
}

/// Instance ids: one host name, close start times, a random suffix.
fn instance(trial: usize, node: usize) -> String {
    let n = mixed(trial + 1_000_000, node);
    format!("api-{}-{}-{:08x}", n % 7, 1_794_700_000_000_000_000 + n % 9_000_000_000, n >> 96)
}
