//! `tenure login`: a new sign-in link for the console of the running server.

use std::time::Duration;

use serde::Deserialize;
use tenure_lease::Clock;
use tenure_store::BootClock;

use super::target::{Server, StoreLocation};
use super::{Failure, Result, Screen, exit, human, remote};

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments of `tenure login`.
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

/// An error response of the server.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let location = args.server.locate()?;
    let response = tokio::select! {
        response = request_code(&location) => response,
        () = BootClock.sleep_until(BootClock.now() + TIMEOUT) => Err(Failure::unavailable("timed out")),
    };
    let code = response.map_err(|failure| {
        failure.during(&format!("cannot get a sign-in link from {}", location.display_url()))
    })?;
    if screen.is_json() {
        screen.json(&code)?;
        return Ok(exit::DONE);
    }
    screen.line(&code.url)?;
    let life = human::format_duration(Duration::from_millis(code.expires_in_ms));
    screen.note(&format!("open it in a browser within {life}; the link works once"));
    Ok(exit::DONE)
}

async fn request_code(location: &StoreLocation) -> Result<NewCode> {
    let StoreLocation::Server { url, token, .. } = location else {
        return Err(Failure::internal("only a server has a console"));
    };
    // Fails if a provider is installed already, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = reqwest::Client::builder();
    if let Some(pem) = location.read_ca()? {
        let trusted =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| Failure::usage(error.to_string()))?;
        builder = builder.tls_certs_only(trusted);
    }
    let client = builder.build().map_err(|error| Failure::internal(error.to_string()))?;
    let mut request = client.post(format!("{}/login/codes", remote::http(url)?));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    if status.is_success() {
        return response.json().await.map_err(|error| Failure::unavailable(error.to_string()));
    }
    let detail = match response.json::<Problem>().await {
        Ok(problem) => problem.detail,
        Err(_) => format!("unexpected response {status}; is this a Tenure server?"),
    };
    Err(if matches!(status.as_u16(), 401 | 403) {
        Failure::forbidden(detail)
    } else {
        Failure::unavailable(detail)
    })
}

/// The innermost cause: the outer ones only say that a request failed.
fn unreachable(error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Failure::unavailable(cause.to_string())
        .hint("check that the server is running; `tenure up` starts one on this machine")
}
