//! A process that accepts WebTransport sessions with one stream and does nothing else.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_lease::Clock as _;
use tenure_meet_client::Endpoint;
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic::{self, Timing};
use tenure_meet_wire::transport::{Listener as _, Session};
use tenure_store::BootClock;
use tenure_testkit::Process;
use tokio::task::JoinSet;

use super::server::{SERVER, dialer};
use crate::report;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Serves until standard input is closed.
pub(crate) fn serve(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall())?;
    let (der, key) = (pair.current().der()?, pair.current().private_key()?);
    let _inside = runtime.enter();
    let listener = quic::Listener::bind(ANY, vec![der], key, Arc::new(BootClock), Timing::default())?;
    let hash: String = pair.current().sha256()?.iter().map(|byte| format!("{byte:02x}")).collect();
    report::line(&format!("bare {} {hash}", listener.address()?));
    runtime.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Some(offer) = listener.offer().await {
            sessions.spawn(async move {
                let Ok(session) = offer.accept().await else { return };
                let Ok((_send, mut receive)) = session.accept_bi().await else { return };
                while let Ok(Some(_)) = receive.receive(1_024).await {}
            });
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A process that runs [`serve`].
pub(super) struct Bare {
    process: Process,
    place: Endpoint,
}

impl Bare {
    pub(super) fn start() -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER]).arg(std::env::current_exe()?).arg("meet-bare");
        command.stdin(std::process::Stdio::piped());
        let process = Process::spawn(command)?;
        let line = process.wait_for_line(|line| line.starts_with("bare "), Duration::from_secs(30))?;
        let mut words = line.split(' ').skip(1);
        let (address, hash) = (words.next().context("no address")?, words.next().context("no hash")?);
        let hash: Vec<u8> = (0..hash.len() / 2)
            .map(|n| u8::from_str_radix(&hash[n * 2..n * 2 + 2], 16))
            .collect::<Result<_, _>>()?;
        Ok(Self { process, place: Endpoint { url: format!("https://{address}/wt/mc"), hashes: vec![hash] } })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Opens sessions, each with a stream that has carried data.
    pub(super) async fn sessions(&self, count: usize) -> Result<Vec<Held>> {
        let dialer = dialer()?;
        let mut held = Vec::with_capacity(count);
        for _ in 0..count {
            let session = dialer.dial(&self.place.url, &self.place.hashes, None).await?;
            let (mut send, receive) = session.open_bi().await?;
            send.send(vec![1; 400].into()).await?;
            held.push(Held { _session: session, _streams: (send, receive) });
        }
        Ok(held)
    }
}

/// An open session.
pub(super) struct Held {
    _session: Arc<dyn Session>,
    _streams: tenure_meet_wire::transport::Streams,
}
