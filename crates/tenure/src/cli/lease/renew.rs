//! `tenure lease renew`.

use serde::Serialize;
use tenure_lease::{Generation, Key, Renewal, Renewed, Token, Ttl};

use crate::cli::{Failure, Result, Screen, Target, connect, exit, human};

/// The arguments of `tenure lease renew`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to renew
    #[arg(value_parser = super::key)]
    key: Key,
    /// Token of the lease
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Token,
    /// Generation of the lease
    #[arg(long, value_parser = super::generation)]
    generation: Generation,
    /// New TTL [default: unchanged]
    #[arg(long, value_parser = super::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct RenewedView {
    key: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let Args { key, token, generation, ttl, target } = args;
    let store = connect(&target).await?;
    let mut answers = store.renew(&[Renewal { key: key.clone(), token, generation, ttl }]).await?;
    let answer = answers.pop().transpose()?;
    let answer = answer.ok_or_else(|| Failure::internal("the store returned no result for the renewal"))?;
    let (outcome, remaining_ms, reason) = match answer {
        Renewed::Renewed { remaining } => ("renewed", Some(remaining.as_millis() as u64), None),
        Renewed::Lost(end) => ("lost", None, Some(end.as_str())),
    };
    if screen.is_json() {
        screen.json(&RenewedView { key: key.to_string(), outcome, remaining_ms, reason })?;
        return Ok(if reason.is_none() { exit::DONE } else { exit::LOST });
    }
    match answer {
        Renewed::Renewed { remaining } => {
            screen.line(format!("renewed {key} for {}", human::format_duration(remaining)))?;
            Ok(exit::DONE)
        }
        Renewed::Lost(end) => {
            let detail = format!("{key} is lost: the lease ended ({end})");
            Err(Failure::new(exit::LOST, "NOT_HELD", detail)
                .hint(format!("show its history: tenure lease history {key}{}", target.store_argument())))
        }
    }
}
