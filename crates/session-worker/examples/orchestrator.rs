//! Runs one session with a program of the caller's choice, saying how far it is. The tests start it and kill it.
//!
//! Usage: `orchestrator URL OUTPUT PROGRAM CHANNEL`. Prints `ready SESSION`, and `failed WHY` when it cannot go on.
#![expect(clippy::print_stdout, reason = "it reports to the test that started it")]

use std::sync::Arc;

use session::{
    CorrelationId, IdempotencyKey, ProfileId, Session, SessionId, SessionLog, State, Target, UnixMs,
};
use session_worker::{Ffmpeg, Log, Options, Source, Worker, default_profiles};

#[path = "../tests/it/launcher.rs"]
mod launcher;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, output, program, channel] = &args[..] else {
        anyhow::bail!("usage: orchestrator URL OUTPUT PROGRAM CHANNEL")
    };
    let store: Arc<dyn lease::Store> = lease_store::Store::open(url).await?.into();
    let source = Source::Ffmpeg(Ffmpeg {
        program: program.into(),
        receiver_url: "http://127.0.0.1:1/{serviceRef}".to_owned(),
        recordings_dir: None,
        profiles: default_profiles(),
    });
    let options = Options::new([0].into(), output.into(), source);
    let worker = Worker::start(store.clone(), options, Arc::new(launcher::Plain)).await?;

    let log = Log::new(store);
    let session = Session::new(
        SessionId::new(format!("victim-{}", std::process::id()))?,
        Target::new(Some(channel), None, None)?,
        ProfileId::new("high")?,
        CorrelationId::new("c")?,
        IdempotencyKey::from_hex(&"0".repeat(64))?,
        UnixMs(0),
    );
    let mut changes = log.changes(&session.id).await?;
    log.create(&session, None).await?;
    while let Some(session) = changes.next().await? {
        if session.state == State::Ready {
            println!("ready {}", session.id);
            break;
        }
    }
    println!("failed {}", worker.failed().await);
    Ok(())
}
