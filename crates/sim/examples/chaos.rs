//! Runs real processes under faults and judges them: `chaos [--minutes N] [--seed S] [--engine embedded|redis] [--order yes]`.
//!
//! `cargo xtask chaos` builds what it needs and starts it.
#![expect(clippy::print_stdout, reason = "it reports on its standard output")]

use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tenure_lease::Clock;
use tenure_sim::chaos::{Chaos, Engine, run};

const USAGE: &str = "\
Usage: cargo xtask chaos [--minutes N] [--seed S] [--engine embedded|redis] [--order yes]

Runs real holders and servers under faults for N minutes, half of them on each engine, and judges what happened. The
faults follow from the seed, a fresh one unless it is given. `--order` also searches for one order of all operations.";

fn main() -> Result<ExitCode> {
    let (mut minutes, mut seed, mut engines) = (1.0, None, vec![Engine::Embedded, Engine::Redis]);
    let mut order = false;
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        if flag == "--help" {
            println!("{USAGE}");
            return Ok(ExitCode::SUCCESS);
        }
        let value = args.next().with_context(|| format!("{flag} wants a value"))?;
        match flag.as_str() {
            "--minutes" => minutes = value.parse().context("--minutes")?,
            "--seed" => seed = Some(value.parse().context("--seed")?),
            "--order" => order = value == "yes",
            "--engine" => match value.as_str() {
                "embedded" => engines = vec![Engine::Embedded],
                "redis" => engines = vec![Engine::Redis],
                other => bail!("there is no engine {other}; there are embedded and redis"),
            },
            other => bail!("unknown flag {other}; there are --minutes, --seed, --engine and --order"),
        }
    }
    let seed = seed.unwrap_or_else(|| tenure_store::BootClock.now().as_nanos());
    let length = Duration::from_secs_f64(minutes * 60.0 / engines.len() as f64);
    let mut good = true;
    for engine in engines {
        println!("{engine}: {} s of faults from seed {seed}", length.as_secs());
        let verdict = run(&Chaos::new(engine, seed, length))?;
        println!("{verdict}");
        if order {
            match verdict.order() {
                Ok(looked) => println!(
                    "orders of {} operations on {} keys, {} keys given up as too long",
                    looked.operations, looked.keys, looked.given_up
                ),
                Err(broken) => println!("{broken}"),
            }
        }
        if !verdict.violations.is_empty() {
            let path = std::env::temp_dir().join(format!("tenure-chaos-{engine}-{seed}.jsonl"));
            verdict.history.write(BufWriter::new(File::create(&path)?))?;
            println!("the history is in {}", path.display());
            good = false;
        }
        if !verdict.is_meaningful() {
            println!("too little happened for this run to count");
            good = false;
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
