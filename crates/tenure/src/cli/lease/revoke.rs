//! `tenure lease revoke`: the operator's force.

use std::sync::Arc;
use std::time::Duration;

use lease::{Generation, Key, Motive, Phase, Revoke, Revoked, Status, Store};
use serde::Serialize;

use crate::cli::{Failure, Result, Screen, Target, connect, exit, human};

/// Which reign to end, and why.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The key
    #[arg(value_parser = super::key)]
    key: Key,
    /// End exactly this generation [default: the one held now]
    #[arg(long, value_parser = super::generation)]
    generation: Option<Generation>,
    /// How long nobody may have the key [default: what is left of the reign]
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    delay: Option<Duration>,
    /// Why, for the server's log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Motive,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct RevokedView<'a> {
    key: &'a str,
    generation: String,
    delay_ms: u64,
    reason: &'a str,
}

fn reason(text: &str) -> Result<Motive, String> {
    let motive = Motive::new(text).map_err(|error| error.to_string())?;
    if motive.as_str().is_empty() { Err("say why, in a few words".into()) } else { Ok(motive) }
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let store = connect(&args.target).await?;
    let status = store.inspect(&args.key).await?;
    let generation = which(&args, &status)?;
    if !args.yes && screen.is_interactive() && !screen.confirm(&question(&args.key, &status))? {
        return Err(Failure::new(exit::FAILED, "CANCELLED", "nothing was revoked"));
    }
    end(&store, &args, generation, screen).await
}

/// The generation to end. Whoever holds the key by then under another one is not meant.
fn which(args: &Args, status: &Status) -> Result<Generation> {
    let held = status.generation.filter(|_| status.phase == Phase::Held);
    args.generation
        .or(held)
        .ok_or_else(|| Failure::new(exit::NOT_NOW, "STALE_GENERATION", format!("nobody holds {}", args.key)))
}

fn question(key: &Key, status: &Status) -> String {
    match &status.holder {
        Some(holder) if status.phase == Phase::Held => {
            format!("{key} is held by {holder}, whose work will be cut off. Revoke it?")
        }
        _ => format!("Revoke {key}?"),
    }
}

async fn end(store: &Arc<dyn Store>, args: &Args, generation: Generation, screen: &Screen) -> Result<u8> {
    let key = &args.key;
    match store
        .revoke(Revoke { key: key.clone(), generation, delay: args.delay, reason: args.reason.clone() })
        .await?
    {
        Revoked::Revoked { delay } => {
            if screen.is_json() {
                let (delay_ms, generation) = (delay.as_millis() as u64, generation.to_string());
                let reason = args.reason.as_str();
                screen.json(&RevokedView { key: key.as_str(), generation, delay_ms, reason })?;
            } else {
                let after = human::duration(delay);
                screen.line(format!("{key} is revoked; it can be taken again in {after}"))?;
            }
            Ok(exit::DONE)
        }
        Revoked::Stale { current } => {
            let now = current.map_or_else(|| "nobody holds it".to_owned(), |g| format!("it has {g} now"));
            let words = format!("{key} does not have generation {generation} any more: {now}");
            Err(Failure::new(exit::NOT_NOW, "STALE_GENERATION", words))
        }
    }
}
