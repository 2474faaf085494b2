//! Runs seeds, replays one, or shows which known breaks the judge finds.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

use std::process::ExitCode;
use std::time::Duration;

use tenure_lease::breaks::Break;
use tenure_sim::plan::Plan;
use tenure_sim::run::run;
use tenure_sim::seed_range::{
    Range, SeedReport, SeedRunner, embedded, kernel, meetings, replicated, run_seeds,
};
use tenure_sim::shrink::shrink;
use tenure_sim::timeline::timeline;
use tenure_sim::{clock, disk, meet, mutants, redis};

const HELP: &str = "\
Usage: cargo xtask sim [--seeds N | --seconds N] [--from SEED] [--world kernel|embedded|redis|meet|each]
       cargo xtask sim --seed SEED | --disk SEED | --redis SEED | --meet SEED
       cargo xtask sim --mutants [--seeds N] [--from SEED]

Runs N seeds of the kernel, and a tenth as many of the embedded engine, of the Redis
engine and of meetings, or as many as fit into N seconds, from SEED on; fresh ones unless
SEED is given.
With `--world`, runs N seeds of that one, or of each, whatever fails in the others, and
prints a row for docs/proof.md. Stops at the first failure of a world, cuts it down, and
shows it as a timeline. `--seed` replays a seed of the kernel, `--disk` one of the
embedded engine, `--redis` one of the Redis engine, `--meet` one of meetings. `--mutants` switches each known
break on and shows which sentence of the judge caught it, and how many seeds that took.";

const WORLDS: [&str; 5] = ["kernel", "embedded", "redis", "meet", EACH];
const EACH: &str = "each";

#[derive(Default)]
struct Args {
    seeds: Option<u64>,
    seconds: Option<u64>,
    from: Option<u64>,
    seed: Option<u64>,
    disk: Option<u64>,
    redis: Option<u64>,
    meet: Option<u64>,
    mutants: bool,
    /// Only this simulation.
    world: Option<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(args) = parse(&words) else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    tenure_sim::log::install();
    let good = match args {
        Args { mutants: true, .. } => hunt(&args),
        Args { seed: Some(seed), .. } => replay(seed),
        Args { disk: Some(seed), .. } => replayed(disk::run(seed).err()),
        Args { redis: Some(seed), .. } => replayed(redis::run(seed).err()),
        Args { meet: Some(seed), .. } => replay_meeting(seed),
        _ => sweep(&args),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(words: &[String]) -> Option<Args> {
    let mut args = Args::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let place = match word {
            "--seeds" => &mut args.seeds,
            "--seconds" => &mut args.seconds,
            "--from" => &mut args.from,
            "--seed" => &mut args.seed,
            "--disk" => &mut args.disk,
            "--redis" => &mut args.redis,
            "--meet" => &mut args.meet,
            "--mutants" => {
                args.mutants = true;
                continue;
            }
            "--world" => {
                args.world = Some(words.next().filter(|word| WORLDS.contains(word))?.to_owned());
                continue;
            }
            _ => return None,
        };
        *place = Some(words.next()?.parse().ok()?);
    }
    Some(args)
}

fn sweep(args: &Args) -> bool {
    let from = args.from.unwrap_or_else(clock::fresh_seed);
    let count = args.seeds.unwrap_or(if args.seconds.is_some() { u64::MAX } else { 10_000 });
    // Half of the time is for the kernel, the rest for the others.
    let worlds = [
        ("kernel", kernel as SeedRunner, 3, 1),
        ("embedded", embedded, 1, 10),
        ("redis", replicated, 1, 10),
        ("meet", meetings, 1, 10),
    ];
    let mut summary = Vec::new();
    for (name, world, part, less) in worlds {
        let time = args.seconds.map(Duration::from_secs);
        let range = match args.world.as_deref() {
            None => Range { from, count: count / less, budget: time.map(|time| time * part / 6) },
            Some(only) if only == name || only == EACH => Range { from, count, budget: time },
            Some(_) => continue,
        };
        let done = through(name, world, range);
        if let Some((seed, _)) = &done.failed {
            explain(name, *seed);
            if args.world.is_none() {
                return false;
            }
        }
        summary.push((name, done));
    }
    if args.world.is_some() {
        println!("| simulation | seeds | time | result |\n|---|---|---|---|");
        summary.iter().for_each(|(name, done)| println!("{}", summary_row(name, from, done)));
    }
    summary.iter().all(|(_, done)| done.failed.is_none())
}

/// A row of the table `What was run` of docs/proof.md.
fn summary_row(name: &str, from: u64, done: &SeedReport) -> String {
    let result = match &done.failed {
        None => "no failure".to_owned(),
        Some((seed, _)) => format!("seed {seed} failed"),
    };
    let (order, seconds) = (done.order, done.took.as_secs_f64());
    format!(
        "| {name} | {} from {from} | {seconds:.0} s, {:.1} M events | {result}; orders of {} operations on {} keys, \
         {} given up |",
        done.seeds,
        done.events as f64 / 1e6,
        order.operations,
        order.keys,
        order.given_up
    )
}

fn explain(world: &str, seed: u64) {
    let flag = match world {
        "embedded" => "--disk",
        "redis" => "--redis",
        "meet" => "--meet",
        _ => "--seed",
    };
    if flag == "--seed"
        && let Some(first) = run(&Plan::of(seed)).violations.first()
    {
        show_small(seed, first.invariant);
    }
    println!("replay: cargo xtask sim {flag} {seed}");
}

/// Runs a range of seeds and prints what came of it.
fn through(name: &str, world: SeedRunner, range: Range) -> SeedReport {
    println!("sim: {name}: seeds from {}", range.from);
    let done = run_seeds(world, range, |done| eprint!("\r{}   ", rate(done)));
    eprintln!("\r{}   ", rate(&done));
    let last = range.from.wrapping_add(done.seeds.saturating_sub(1));
    println!("sim: {name}: seeds {} to {last}: {}", range.from, rate(&done));
    let order = done.order;
    println!(
        "sim: {name}: orders of {} operations on {} keys, {} keys given up as too long",
        order.operations, order.keys, order.given_up
    );
    if let Some((seed, wrong)) = &done.failed {
        println!("sim: {name}: seed {seed} failed:");
        wrong.iter().for_each(|line| println!("  {line}"));
    }
    done
}

fn show_small(seed: u64, invariant: tenure_sim::judge::Invariant) {
    let (plan, run) = shrink(&Plan::of(seed), invariant);
    println!("cut down to:\n{plan}\n{}", timeline(&run.history));
    run.violations.iter().for_each(|violation| println!("  {violation}"));
}

fn rate(done: &SeedReport) -> String {
    let seconds = done.took.as_secs_f64();
    let per_second = done.seeds as f64 / seconds.max(0.001);
    format!("{} seeds in {seconds:.1} s ({per_second:.0}/s), {} events", done.seeds, done.events)
}

fn replay(seed: u64) -> bool {
    let plan = Plan::of(seed);
    let run = run(&plan);
    println!("{plan}\n{}", timeline(&run.history));
    run.violations.iter().for_each(|violation| println!("  {violation}"));
    if let Some(first) = run.violations.first() {
        show_small(seed, first.invariant);
    }
    run.violations.is_empty()
}

/// Shows a run of meetings, and what was wrong with it.
fn replay_meeting(seed: u64) -> bool {
    let plan = meet::Plan::of(seed);
    let run = meet::run_with_lines(&plan);
    println!("{plan}");
    run.lines.iter().for_each(|line| println!("{line}"));
    run.violations.iter().for_each(|violation| println!("  {violation}"));
    run.violations.is_empty()
}

/// Shows how a seed of another world failed, if it did.
fn replayed(failed: Option<Box<disk::Failure>>) -> bool {
    let Some(failure) = failed else {
        println!("sim: it passes");
        return true;
    };
    println!("{}\n  {}", timeline(&failure.history), failure.message);
    false
}

fn hunt(args: &Args) -> bool {
    if !cfg!(feature = "breaks") {
        eprintln!("sim: built without the feature `breaks`: nothing can be broken");
        return false;
    }
    let (from, most) = (args.from.unwrap_or(1), args.seeds.unwrap_or(mutants::MAX_SEEDS));
    println!("| mutant | caught by | seeds needed |\n|---|---|---|");
    let mut good = true;
    for what in Break::SIMULATED.iter().copied() {
        let caught = mutants::hunt(what, from, most);
        let (by, seeds) = match (&caught.first, caught.seeds) {
            (Some(first), Some(seeds)) => (first.invariant.sentence(), seeds.to_string()),
            _ => ("SURVIVED", format!("> {most}")),
        };
        good &= caught.seeds.is_some();
        println!("| {} | {by} | {seeds} |", what.describe());
    }
    for how in disk::Break::ALL {
        let caught = (0..most).find(|number| disk::run_broken(from.wrapping_add(*number), how).is_err());
        let seeds = caught.map_or(format!("SURVIVED {most}"), |number| (number + 1).to_string());
        good &= caught.is_some();
        println!("| embedded: {} | the disk's own judge | {seeds} |", how.describe());
    }
    for what in meet::BREAKS.iter().copied() {
        let caught = meet::hunt(what, from, most);
        let by = caught.as_ref().map_or("SURVIVED", |(_, first)| first.sentence.sentence());
        let seeds = caught.as_ref().map_or(format!("> {most}"), |(seeds, _)| seeds.to_string());
        good &= caught.is_some();
        println!("| {} | {by} | {seeds} |", what.describe());
    }
    for how in redis::Break::ALL {
        let caught = (0..most).find(|number| redis::run_broken(from.wrapping_add(*number), how).is_err());
        let seeds = caught.map_or(format!("SURVIVED {most}"), |number| (number + 1).to_string());
        good &= caught.is_some();
        println!("| redis: {} | the simulation's own checks | {seeds} |", how.describe());
    }
    good
}
