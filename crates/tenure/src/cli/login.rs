//! `tenure login`: a fresh address to log in to the console of the running server.

use std::time::Duration;

use lease::Clock;
use lease_store::BootClock;
use serde::Deserialize;

use super::target::{Place, Server};
use super::{Failure, Result, Screen, exit, human, remote};

/// How long the server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Which server.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

#[derive(Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct NewCode {
    url: String,
    expires_in_ms: u64,
}

/// What the server says when it refuses.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let place = args.server.place()?;
    let asked = tokio::select! {
        asked = ask(&place) => asked,
        () = BootClock.sleep_until(BootClock.now() + LIMIT) => Err(Failure::unavailable("no answer")),
    };
    let code = asked.map_err(|failure| failure.during(&format!("cannot ask {}", place.shown())))?;
    if screen.is_json() {
        screen.json(&code)?;
        return Ok(exit::DONE);
    }
    screen.line(&code.url)?;
    let life = human::duration(Duration::from_millis(code.expires_in_ms));
    screen.note(&format!("open it in a browser within {life}; it works once"));
    Ok(exit::DONE)
}

async fn ask(place: &Place) -> Result<NewCode> {
    let Place::Server { url, token, .. } = place else {
        return Err(Failure::internal("a store has no console"));
    };
    // One provider of cryptography for everything; somebody may have chosen it before us.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = reqwest::Client::builder();
    if let Some(pem) = place.trust()? {
        let trusted =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| Failure::usage(error.to_string()))?;
        builder = builder.tls_certs_only(trusted);
    }
    let client = builder.build().map_err(|error| Failure::internal(error.to_string()))?;
    let mut request = client.post(format!("{}/login/codes", remote::http(url)?));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.map_err(|error| unreachable(&error))?;
    let status = answer.status();
    if status.is_success() {
        return answer.json().await.map_err(|error| Failure::unavailable(error.to_string()));
    }
    let detail = match answer.json::<Problem>().await {
        Ok(problem) => problem.detail,
        Err(_) => format!("it answered {status}, which no Tenure server does"),
    };
    Err(if matches!(status.as_u16(), 401 | 403) {
        Failure::forbidden(detail)
    } else {
        Failure::unavailable(detail)
    })
}

/// The most telling cause: the outer ones say only that a request failed.
fn unreachable(error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Failure::unavailable(cause.to_string()).hint("is it running? `tenure up` starts one on this machine")
}
