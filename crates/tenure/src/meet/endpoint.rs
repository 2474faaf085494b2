//! Where clients arrive over QUIC, and the certificate of that.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Entropy};
use lease_keeper::OsEntropy;
use meet_wire::transport::certificate::{Certificate, Pair};
use meet_wire::transport::quic::{Listener, Timing};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

use super::keep::Kept;
use crate::cli::{Failure, Result};

/// How often the certificate is looked at.
const LOOK: Duration = Duration::from_secs(60);
/// How long clients may take to hear that they are closed.
const FAREWELL: Duration = Duration::from_secs(2);

/// What an endpoint is opened with.
pub(super) struct Opening<'a> {
    /// Where to listen.
    pub(super) address: SocketAddr,
    /// Whether any port is as good when that one is taken.
    pub(super) any_port: bool,
    /// The host that clients are told, for the certificate.
    pub(super) host: String,
    /// A certificate from an authority, and its key.
    pub(super) files: Option<(PathBuf, PathBuf)>,
    /// Where the own certificate is kept.
    pub(super) data_dir: &'a std::path::Path,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// When a quiet connection is lost.
    pub(super) timing: Timing,
}

/// The endpoint of this process.
pub(super) struct Endpoint {
    pub(super) listener: Arc<Listener>,
    hashes: watch::Sender<Vec<Vec<u8>>>,
    source: Source,
    clock: Arc<dyn Clock>,
}

enum Source {
    /// From an authority that clients know.
    Files { cert: PathBuf, key: PathBuf, last: Mutex<Option<Vec<CertificateDer<'static>>>> },
    /// Made here; clients know it by its hash.
    Own { kept: Kept, names: Vec<String>, pair: Mutex<Pair> },
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("meetings: {error}"))
}

impl Endpoint {
    pub(super) fn open(opening: Opening<'_>) -> Result<Self> {
        let Opening { address, any_port, host, files, data_dir, clock, timing } = opening;
        let (source, (chain, key), hashes) = match files {
            Some((cert, key)) => {
                let chain = from_files(&cert, &key)?;
                let last = Mutex::new(Some(chain.0.clone()));
                (Source::Files { cert, key, last }, chain, Vec::new())
            }
            None => {
                let kept = Kept::new(data_dir, "meet-certificate");
                let names = names(&host, address.ip());
                let pair = own_pair(&kept, &names, &*clock)?;
                let (chain, hashes) = (of_pair(pair.current())?, hashes(&pair)?);
                (Source::Own { kept, names, pair: Mutex::new(pair) }, chain, hashes)
            }
        };
        let reset_key = reset_key(data_dir)?;
        let bind = |address| {
            let (chain, key) = (chain.clone(), key.clone_key());
            Listener::bind_with(address, chain, key, clock.clone(), timing, Some(&reset_key))
        };
        let listener = match bind(address) {
            Err(_) if any_port => bind(SocketAddr::new(address.ip(), 0)),
            bound => bound,
        };
        let listener = listener.map_err(|error| {
            failed(format!("{address} (UDP): {error}"))
                .hint("stop what listens there, or choose another --listen")
        })?;
        Ok(Self { listener: Arc::new(listener), hashes: watch::Sender::new(hashes), source, clock })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.listener.address().map_err(failed)
    }

    /// The hashes by which clients know the certificate, as they turn. None, if an authority vouches for it.
    pub(super) fn hashes(&self) -> watch::Receiver<Vec<Vec<u8>>> {
        self.hashes.subscribe()
    }

    /// Turns the certificate when it is time, and takes a new one when its files change, for ever.
    pub(super) async fn keep_fresh(&self) {
        loop {
            self.clock.sleep_until(self.clock.now() + LOOK).await;
            if let Err(failure) = self.look() {
                tracing::error!(why = failure.detail(), "the certificate of meetings stays as it is");
            }
        }
    }

    fn look(&self) -> Result<()> {
        let (chain, key) = match &self.source {
            Source::Files { cert, key, last } => {
                let fresh = from_files(cert, key)?;
                let mut last = last.lock();
                if last.as_ref() == Some(&fresh.0) {
                    return Ok(());
                }
                *last = Some(fresh.0.clone());
                fresh
            }
            Source::Own { kept, names, pair } => {
                let mut pair = pair.lock();
                let Some(turned) = pair.turned(names, self.clock.wall()).map_err(failed)? else {
                    return Ok(());
                };
                keep_pair(kept, &turned)?;
                *pair = turned;
                // Told before it serves: whoever asks from now on knows both.
                self.hashes.send_replace(hashes(&pair)?);
                of_pair(pair.current())?
            }
        };
        self.listener.renew(chain, key).map_err(failed)?;
        tracing::info!("a new certificate serves meetings");
        Ok(())
    }

    /// Takes nobody in any more, and waits a moment for those who are told that they are closed.
    pub(super) async fn close(&self) {
        tokio::select! {
            () = self.listener.settled() => {}
            () = self.clock.sleep_until(self.clock.now() + FAREWELL) => {}
        }
        self.listener.close();
    }
}

fn from_files(cert: &std::path::Path, key: &std::path::Path) -> Result<Chain> {
    let unreadable = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        failed(format!("the certificate: {}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable(cert, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
    Ok((chain, key))
}

fn of_pair(certificate: &Certificate) -> Result<Chain> {
    Ok((vec![certificate.der().map_err(failed)?], certificate.private_key().map_err(failed)?))
}

fn hashes(pair: &Pair) -> Result<Vec<Vec<u8>>> {
    Ok(pair.hashes().map_err(failed)?.iter().map(|hash| hash.to_vec()).collect())
}

fn keep_pair(kept: &Kept, pair: &Pair) -> Result<()> {
    kept.write(&serde_json::to_vec(pair).map_err(failed)?)
}

/// The pair that was kept, turned if it is time; or a new one. What cannot be read is replaced: clients ask for the hashes every time.
fn own_pair(kept: &Kept, names: &[String], clock: &dyn Clock) -> Result<Pair> {
    let known = kept.read()?.and_then(|content| serde_json::from_slice::<Pair>(&content).ok());
    let now = clock.wall();
    let fresh = match &known {
        Some(pair) => pair.turned(names, now).map_err(failed)?,
        None => Some(Pair::new(names, now).map_err(failed)?),
    };
    if let Some(fresh) = &fresh {
        keep_pair(kept, fresh)?;
    }
    fresh.or(known).ok_or_else(|| failed("there is no certificate"))
}

fn names(host: &str, ip: IpAddr) -> Vec<String> {
    let host = host.trim_matches(['[', ']']).to_owned();
    let own = [host, ip.to_string(), Ipv4Addr::LOCALHOST.to_string(), "localhost".to_owned()];
    let mut names: Vec<String> = Vec::new();
    for name in own.into_iter().filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The key of stateless resets: with the same one after a restart, clients of before learn at once that they are alone.
fn reset_key(data_dir: &std::path::Path) -> Result<[u8; 64]> {
    let kept = Kept::new(data_dir, "meet-reset-key");
    let make = || {
        let mut key = [0; 64];
        OsEntropy.fill(&mut key);
        key.to_vec()
    };
    let key = kept.or_make(make)?;
    match key.try_into() {
        Ok(key) => Ok(key),
        Err(_) => {
            let key = make();
            kept.write(&key)?;
            key.try_into().map_err(|_| failed("the reset key"))
        }
    }
}
