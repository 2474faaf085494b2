//! `tenure lease revoke`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tenure_lease::{Generation, Key, Phase, Revoke, RevokeReason, Revoked, Status, Store};

use crate::cli::{Failure, Result, Screen, Target, connect, exit, human};

/// The arguments of `tenure lease revoke`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to revoke
    #[arg(value_parser = super::key)]
    key: Key,
    /// Revoke only this generation [default: the current one]
    #[arg(long, value_parser = super::generation)]
    generation: Option<Generation>,
    /// How long the key cannot be acquired afterwards [default: the remaining TTL]
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    delay: Option<Duration>,
    /// Reason, for the log of the server
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: RevokeReason,
    /// Skip the confirmation
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

fn reason(text: &str) -> Result<RevokeReason, String> {
    let motive = RevokeReason::new(text).map_err(|error| error.to_string())?;
    if motive.as_str().is_empty() { Err("must not be empty".into()) } else { Ok(motive) }
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let store = connect(&args.target).await?;
    let status = store.inspect(&args.key).await?;
    let generation = target_generation(&args, &status)?;
    if !args.yes && screen.is_interactive() && !screen.confirm(&question(&args.key, &status))? {
        return Err(Failure::new(exit::FAILED, "CANCELLED", "nothing was revoked"));
    }
    revoke(&store, &args, generation, screen).await
}

/// The generation to revoke. A later holder is not affected.
fn target_generation(args: &Args, status: &Status) -> Result<Generation> {
    let held = status.generation.filter(|_| status.phase == Phase::Held);
    args.generation
        .or(held)
        .ok_or_else(|| Failure::new(exit::NOT_NOW, "STALE_GENERATION", format!("{} is not held", args.key)))
}

fn question(key: &Key, status: &Status) -> String {
    match &status.holder {
        Some(holder) if status.phase == Phase::Held => {
            format!("{key} is held by {holder}, which will lose it. Revoke?")
        }
        _ => format!("Revoke {key}?"),
    }
}

async fn revoke(store: &Arc<dyn Store>, args: &Args, generation: Generation, screen: &Screen) -> Result<u8> {
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
                let after = human::format_duration(delay);
                screen.line(format!("revoked {key}; it can be acquired again in {after}"))?;
            }
            Ok(exit::DONE)
        }
        Revoked::Stale { current } => {
            let now =
                current.map_or_else(|| "it is not held".to_owned(), |g| format!("the current one is {g}"));
            let detail = format!("generation {generation} of {key} has ended: {now}");
            Err(Failure::new(exit::NOT_NOW, "STALE_GENERATION", detail))
        }
    }
}
