//! A server with sessions in this process, on its own runtime.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use tempfile::TempDir;
use tenure_lease::Store;
use tenure_service::{ApiToken, Auth, Scopes, Server, Settings, Shutdown, auth_layer};
use tenure_session::{SessionFilter, SessionLog, SessionState};
use tenure_session_api::Ports;
use tenure_session_worker::{
    Command, Launcher, Options, Process, Source, StopTimes, StoreSessionLog, Worker,
};
use tokio::runtime::Runtime;

pub(super) const TOKEN: &str = "bench-token";

/// More tuners than sessions are started.
const SLOTS: u32 = 1_024;

pub(super) struct BenchServer {
    pub(super) address: SocketAddr,
    store: Arc<dyn Store>,
    shutdown: Shutdown,
    runtime: Option<Runtime>,
    _folder: TempDir,
}

type Started = std::sync::mpsc::SyncSender<Result<(SocketAddr, Arc<dyn Store>)>>;

impl BenchServer {
    /// Starts the session API over an embedded store in `folder`, and a worker if `worker` is set.
    pub(super) fn start(folder: TempDir, worker: bool) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("bench-server").build()?;
        let shutdown = Shutdown::new();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (end, path) = (shutdown.clone(), folder.path().to_owned());
        runtime.handle().spawn(async move {
            if let Err(error) = serve(&sender, end, path, worker).await {
                let _receiver_is_gone = sender.try_send(Err(error));
            }
        });
        let started = receiver.recv_timeout(Duration::from_secs(30)).context("the server did not start")?;
        let (address, store) = started?;
        Ok(Self { address, store, shutdown, runtime: Some(runtime), _folder: folder })
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The number of sessions in state READY.
    pub(super) async fn ready(&self) -> Result<usize> {
        let listed = StoreSessionLog::new(self.store.clone())
            .list(SessionFilter::All, 0, 10_000)
            .await
            .map_err(|error| anyhow!("{error}"))?;
        Ok(listed.sessions.iter().filter(|session| session.state == SessionState::Ready).count())
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        self.shutdown.trigger();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

async fn serve(started: &Started, shutdown: Shutdown, folder: PathBuf, worker: bool) -> Result<()> {
    let settings = Settings {
        listen: "127.0.0.1:0".parse()?,
        data_dir: folder.clone(),
        api_tokens: vec![ApiToken::new("bench", TOKEN, Scopes::all_admin())],
        ..Settings::default()
    };
    let server = Server::bind(&settings).await?;
    let auth = Arc::new(Auth::open(&settings, server.local_addr())?);
    let url = format!("embedded:{}", folder.join("store").display());
    let store: Arc<dyn Store> = tenure_store::Store::open(&url).await?.into();
    let log = Arc::new(StoreSessionLog::new(store.clone()));
    let ports = Ports { log, admission: None };
    let secrets = tenure_session_api::secrets(Some("bench"), None).map_err(|error| anyhow!("{error}"))?;
    let day = Duration::from_secs(86_400);
    let options = tenure_session_api::Options {
        slots: SLOTS as usize,
        // More than the clients create: the rejection of intents is not measured.
        max_records: 10_000_000,
        session_lease_ttl: day,
        shutdown: shutdown.clone(),
        ..tenure_session_api::Options::new(secrets, folder.join("hls"))
    };
    let router = tenure_session_api::routes(ports, options).layer(auth_layer(auth));
    let worker = match worker {
        true => {
            let options = Options {
                idle_timeout: day,
                session_lease_ttl: day,
                ..Options::new((0..SLOTS).collect(), folder.join("hls"), Source::Pattern)
            };
            Some(Worker::start(store.clone(), options, Arc::new(NoopLauncher)).await?)
        }
        false => None,
    };
    started.send(Ok((server.local_addr(), store)))?;
    server.run(router, shutdown).await?;
    if let Some(worker) = worker {
        worker.close().await;
    }
    Ok(())
}

/// The test pattern needs no process.
struct NoopLauncher;

#[async_trait]
impl Launcher for NoopLauncher {
    async fn launch(&self, _: Command, _: StopTimes) -> std::io::Result<Box<dyn Process>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
