//! A server on its own threads, so that its CPU time is measured apart from that of its clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::ws::Utf8Bytes;
use futures_util::{SinkExt, StreamExt};
use tenure_control::{Control, Options};
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::Holder;
use tenure_service::{ApiToken, Auth, Scopes, Server, Settings, Shutdown, auth_layer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::clock::pause;

/// The name of the server's threads.
pub(super) const THREADS: &str = "bench-server";
pub(super) const TOKEN: &str = "bench-token";

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Tenure,
    /// WebSockets, a broadcast channel and fixed responses: the same I/O and nothing else.
    Bare,
}

pub(super) struct BenchServer {
    pub(super) address: SocketAddr,
    shutdown: Shutdown,
    runtime: Option<Runtime>,
    _folder: tempfile::TempDir,
}

impl BenchServer {
    pub(super) fn start(kind: Kind, ddp: &[SocketAddr]) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().thread_name(THREADS).build()?;
        let (shutdown, folder) = (Shutdown::new(), tempfile::tempdir()?);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (end, path, ddp) = (shutdown.clone(), folder.path().to_owned(), ddp.to_vec());
        // Spawned, so that all of it runs on the threads of the server.
        runtime.handle().spawn(async move {
            let served = match kind {
                Kind::Tenure => tenure(sender, end, path, ddp).await,
                Kind::Bare => bare(sender, end).await,
            };
            if let Err(error) = served {
                crate::report::line(&format!("the server failed: {error:#}"));
            }
        });
        let address = receiver.recv_timeout(Duration::from_secs(30)).context("the server did not start")?;
        Ok(Self { address, shutdown, runtime: Some(runtime), _folder: folder })
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        self.shutdown.trigger();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

type Started = std::sync::mpsc::SyncSender<SocketAddr>;

async fn tenure(
    started: Started,
    shutdown: Shutdown,
    folder: std::path::PathBuf,
    ddp: Vec<SocketAddr>,
) -> Result<()> {
    let settings = Settings {
        listen: "127.0.0.1:0".parse()?,
        data_dir: folder,
        api_tokens: vec![ApiToken::new("bench", TOKEN, Scopes::all_admin())],
        ..Settings::default()
    };
    let server = Server::bind(&settings).await?;
    let auth = Arc::new(Auth::open(&settings, server.local_addr())?);
    let store: Arc<dyn tenure_lease::Store> = tenure_store::Store::open("memory:").await?.into();
    let options = Options { ddp, ..Options::default() };
    let control = Control::start(options, Keeper::new(store, Holder::unique("bench", &OsEntropy)?));
    control.serving().await;
    let router = control.routes(Arc::new(|_| false)).layer(auth_layer(auth));
    started.send(server.local_addr())?;
    server.run(router, shutdown).await?;
    control.close().await;
    Ok(())
}

/// A response and a broadcast of the same length as those of Tenure.
const ANSWER: &str = r#"{"data":{"brightness":1,"complexity":128,"intensity":200,"paletteId":2,"saturation":255,"speed":10,"variation":0},"requestId":"0000","success":true,"type":"setBrightness"}"#;
const NEWS: &str = r#"{"data":{"active":true,"heartbeatIntervalMs":1000,"leaseId":"cl_000000000000","ownerClientName":"bench","ownerInstanceId":"","ownerWsClientId":1,"remainingMs":5000,"scope":"global","takeoverAllowed":false,"ttlMs":5000},"event":"heartbeat","success":true,"type":"control.stateChanged"}"#;

const CHANGED: &str = r#"{"data":{"brightness":128,"effectId":2,"effectName":"rainbow","paletteId":2,"parameters":{"brightness":128,"complexity":128,"intensity":200,"paletteId":2,"saturation":255,"speed":10,"variation":0},"power":true,"transport":"playing"},"success":true,"type":"device.stateChanged"}"#;
/// Changes within this time are sent together, as in Tenure.
const TOGETHER: Duration = Duration::from_millis(100);

async fn bare(started: Started, shutdown: Shutdown) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    started.send(listener.local_addr()?)?;
    let news = broadcast::Sender::<Utf8Bytes>::new(256);
    let changes = Arc::new(Notify::new());
    let mut tasks = JoinSet::new();
    let (broadcasts, changed) = (news.clone(), changes.clone());
    tasks.spawn(async move {
        loop {
            changed.notified().await;
            pause(TOGETHER).await;
            let _ = broadcasts.send(CHANGED.into());
        }
    });
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            () = shutdown.wait() => return Ok(()),
        };
        stream.set_nodelay(true)?;
        tasks.spawn(bare_client(stream, news.clone(), changes.clone()));
    }
}

async fn bare_client(stream: TcpStream, news: broadcast::Sender<Utf8Bytes>, changes: Arc<Notify>) {
    let mut heard = news.subscribe();
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    loop {
        let sent = tokio::select! {
            text = heard.recv() => match text {
                Ok(text) => socket.send(Message::text(text.as_str())).await,
                Err(_) => return,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    let answer = socket.send(Message::text(ANSWER)).await;
                    if text.contains("control.heartbeat") {
                        let _ = news.send(NEWS.into());
                    } else if text.contains("setBrightness") {
                        changes.notify_one();
                    }
                    answer
                }
                Some(Ok(_)) => Ok(()),
                _ => return,
            },
        };
        if sent.is_err() {
            return;
        }
    }
}
