//! A holder of the chaos runs: see `tenure_sim::chaos::holder`. It ends in an orderly way when its input ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_sim::chaos::holder::{Args, run};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let args = Args::parse(&words)?;
    let ending = Arc::new(AtomicBool::new(false));
    let flag = ending.clone();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        drop(std::io::stdin().read_to_end(&mut rest));
        flag.store(true, Ordering::Relaxed);
    });
    run(args, ending).await
}
