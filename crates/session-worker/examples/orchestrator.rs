//! Runs a worker with one session and reports its progress. The tests start and kill it.
//!
//! Usage: `orchestrator URL OUTPUT PROGRAM CHANNEL`. Prints `ready SESSION`, and `failed WHY` when the worker fails.
#![expect(clippy::print_stdout, reason = "output for the test that started it")]

use std::sync::Arc;

use tenure_session::{
    CorrelationId, IdempotencyKey, ProfileId, Session, SessionId, SessionLog, SessionState, Target, UnixMs,
};
use tenure_session_worker::{Ffmpeg, Options, Source, StoreSessionLog, Worker, default_profiles};

#[path = "../tests/it/launcher.rs"]
mod launcher;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, output, program, channel] = &args[..] else {
        anyhow::bail!("usage: orchestrator URL OUTPUT PROGRAM CHANNEL")
    };
    let store: Arc<dyn tenure_lease::Store> = tenure_store::Store::open(url).await?.into();
    let source = Source::Ffmpeg(Ffmpeg {
        program: program.into(),
        receiver_url: "http://127.0.0.1:1/{serviceRef}".to_owned(),
        recordings_dir: None,
        profiles: default_profiles(),
    });
    let options = Options::new([0].into(), output.into(), source);
    let worker = Worker::start(store.clone(), options, Arc::new(launcher::PlainLauncher)).await?;

    let log = StoreSessionLog::new(store);
    let session = Session::new(
        SessionId::new(format!("restart-{}", std::process::id()))?,
        Target::new(Some(channel), None, None)?,
        ProfileId::new("high")?,
        CorrelationId::new("c")?,
        IdempotencyKey::from_hex(&"0".repeat(64))?,
        UnixMs(0),
    );
    let mut changes = log.changes(&session.id).await?;
    log.create(&session, None).await?;
    while let Some(session) = changes.next().await? {
        if session.state == SessionState::Ready {
            println!("ready {}", session.id);
            break;
        }
    }
    println!("failed {}", worker.failed().await);
    Ok(())
}
