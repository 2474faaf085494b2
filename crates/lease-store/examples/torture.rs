//! Acquires and releases in a folder as fast as it can and prints what was acknowledged. The crash tests
//! start it and kill it.
//!
//! Usage: `torture FOLDER [KEYS]`. Prints `open`, then `+ KEY GENERATION` for each acknowledged grant and
//! `- KEY GENERATION` for each acknowledged release.

use std::io::Write;
use std::sync::Arc;

use tenure_lease::{Acquired, Claim, Holder, Key, Leases, Release, Token, Ttl};
use tenure_store::{Local, Options, OsEntropy};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or_else(|| anyhow::anyhow!("usage: torture FOLDER [KEYS]"))?;
    let keys: usize = args.next().map_or(Ok(8), |n| n.parse())?;
    let store = Arc::new(Local::open(folder, Options { segment: 8 << 20, ..Options::default() }).await?);
    say("open");
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..keys {
        tasks.spawn(churn(store.clone(), n));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn churn(store: Arc<Local>, n: usize) -> anyhow::Result<()> {
    let key = Key::new(format!("torture/{n}"))?;
    for round in 0.. {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), Holder::new("torture")?, token.clone(), Ttl::from_secs(600)?);
        let Acquired::Granted(grant) = store.acquire(claim.remote()).await? else {
            // A grant of the previous run that was not released: its token is lost.
            return Ok(());
        };
        say(&format!("+ {key} {}", grant.lease.generation));
        // Every key stays held now and then, so that a crash finds both.
        if round % 7 == n % 7 {
            tokio::task::yield_now().await;
        }
        store.release(Release::new(key.clone(), token)).await?;
        say(&format!("- {key} {}", grant.lease.generation));
    }
    Ok(())
}

/// One write per line, so that a line is there whole or not at all.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
