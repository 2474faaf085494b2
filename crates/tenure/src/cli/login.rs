//! `tenure login`: a fresh address to log in to the console of the running server.

use serde::{Deserialize, Serialize};

use super::target::Place;
use super::{Failure, Result, Screen, exit};

/// Which server.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: super::target::Server,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Code {
    url: String,
    expires_in_ms: u64,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let Place::Server { url, token } = args.server.place()? else {
        return Err(Failure::usage("only a running server has a console"));
    };
    service::install_crypto();
    let request = reqwest::Client::new().post(format!("{}/login/codes", url.trim_end_matches('/')));
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    let answer = request.send().await.map_err(|error| {
        Failure::unavailable(format!("{url} does not answer: {}", crate::up::words(&error)))
            .hint("is it running? start one with `tenure up`")
    })?;
    if answer.status().is_client_error() {
        return Err(Failure::new(
            exit::PERMISSION,
            "UNAUTHENTICATED",
            format!("{url} does not know this token ({})", answer.status()),
        )
        .hint("set TENURE_TOKEN, or run this where `tenure up` was started"));
    }
    let code: Code = answer
        .json()
        .await
        .map_err(|error| Failure::unavailable(format!("{url} gave a strange answer: {error}")))?;
    if screen.is_json() {
        screen.json(&code)?;
    } else {
        screen.line(&code.url)?;
    }
    Ok(exit::DONE)
}
