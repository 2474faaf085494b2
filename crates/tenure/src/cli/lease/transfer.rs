//! `tenure lease transfer`.

use serde::Serialize;
use tenure_lease::{Generation, Holder, Key, Token, Transfer, Transferred};

use crate::cli::{Failure, Result, Screen, Target, connect, exit};

/// The arguments of `tenure lease transfer`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to transfer
    #[arg(value_parser = super::key)]
    key: Key,
    /// Token of the lease
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Token,
    /// Generation of the lease
    #[arg(long, value_parser = super::generation)]
    generation: Generation,
    /// Successor, which must be waiting for the key under this name
    #[arg(long, value_name = "HOLDER", value_parser = super::holder)]
    to: Holder,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct TransferredView {
    holder: String,
    generation: String,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let Args { key, token, generation, to, target } = args;
    let store = connect(&target).await?;
    let transfer = Transfer { key: key.clone(), token, generation, to: to.clone() };
    match store.transfer(transfer).await? {
        Transferred::Transferred(lease) => {
            let (holder, generation) = (lease.holder.to_string(), lease.generation.to_string());
            if screen.is_json() {
                screen.json(&TransferredView { holder, generation })?;
            } else {
                screen.line(format!("transferred {key} to {holder}, generation {generation}"))?;
            }
            Ok(exit::DONE)
        }
        Transferred::NotHeld => Err(super::not_held(&key)),
        Transferred::NoSuccessor => {
            let detail = format!("{to} is not waiting for {key}; nothing was transferred");
            Err(Failure::new(exit::NOT_NOW, "NO_SUCCESSOR", detail).hint(format!(
                "the successor waits with: tenure lease acquire {key} --holder {to} --wait 1m"
            )))
        }
    }
}
