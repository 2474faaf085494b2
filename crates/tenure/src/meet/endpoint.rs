//! The QUIC endpoint for clients, and its certificate.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Entropy};
use tenure_meet_wire::transport::certificate::{Certificate, Pair};
use tenure_meet_wire::transport::quic::{Congestion, Listener, ListenerOptions, Timing};
use tokio::sync::watch;

use super::secret_file::SecretFile;
use crate::cli::{Failure, Result};

/// How often the certificate is checked.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long closes may take to be delivered.
const FAREWELL: Duration = Duration::from_secs(2);

/// Options of an endpoint.
pub(super) struct Opening<'a> {
    /// The address to listen on.
    pub(super) address: SocketAddr,
    /// Whether another port is used if this one is taken.
    pub(super) any_port: bool,
    /// The advertised host, for the certificate.
    pub(super) host: String,
    /// A certificate from an authority, and its key.
    pub(super) files: Option<(PathBuf, PathBuf)>,
    /// Where a self-signed certificate is stored.
    pub(super) data_dir: &'a std::path::Path,
    /// The clock.
    pub(super) clock: Arc<dyn Clock>,
    /// Idle timeout and keep-alive.
    pub(super) timing: Timing,
    /// How this end sends.
    pub(super) congestion: Congestion,
}

/// The endpoint of this process.
pub(super) struct Endpoint {
    pub(super) listener: Arc<Listener>,
    hashes: watch::Sender<Vec<Vec<u8>>>,
    source: Source,
    clock: Arc<dyn Clock>,
}

enum Source {
    /// Files, from an authority that clients trust.
    Files { cert: PathBuf, key: PathBuf, last: Mutex<Option<Vec<CertificateDer<'static>>>> },
    /// Self-signed; clients verify it by hash.
    Own { file: SecretFile, names: Vec<String>, pair: Mutex<Pair> },
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("meetings: {error}"))
}

impl Endpoint {
    pub(super) fn open(opening: Opening<'_>) -> Result<Self> {
        let Opening { address, any_port, host, files, data_dir, clock, timing, congestion } = opening;
        let (source, (chain, key), hashes) = match files {
            Some((cert, key)) => {
                let chain = load_chain(&cert, &key)?;
                let last = Mutex::new(Some(chain.0.clone()));
                (Source::Files { cert, key, last }, chain, Vec::new())
            }
            None => {
                let file = SecretFile::new(data_dir, "meet-certificate");
                let names = certificate_names(&host, address.ip());
                let pair = load_or_create_pair(&file, &names, &*clock)?;
                let (chain, hashes) = (chain_of(pair.current())?, hashes(&pair)?);
                (Source::Own { file, names, pair: Mutex::new(pair) }, chain, hashes)
            }
        };
        let reset_key = reset_key(data_dir)?;
        let bind = |address| {
            let (chain, key) = (chain.clone(), key.clone_key());
            let options = ListenerOptions { timing, congestion, reset_key: Some(&reset_key) };
            Listener::bind_with(address, chain, key, clock.clone(), options)
        };
        let listener = match bind(address) {
            Err(_) if any_port => bind(SocketAddr::new(address.ip(), 0)),
            bound => bound,
        };
        let listener = listener.map_err(|error| {
            failed(format!("{address} (UDP): {error}"))
                .hint("stop the process that uses the port, or choose another --listen")
        })?;
        Ok(Self { listener: Arc::new(listener), hashes: watch::Sender::new(hashes), source, clock })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.listener.address().map_err(failed)
    }

    /// The certificate hashes, updated with every rotation; empty for certificates from files.
    pub(super) fn hashes(&self) -> watch::Receiver<Vec<Vec<u8>>> {
        self.hashes.subscribe()
    }

    /// Rotates the certificate when it is due, or reloads it when its files change, forever.
    pub(super) async fn keep_fresh(&self) {
        loop {
            self.clock.sleep_until(self.clock.now() + INTERVAL).await;
            if let Err(failure) = self.refresh() {
                tracing::error!(why = failure.detail(), "meeting certificate not renewed");
            }
        }
    }

    fn refresh(&self) -> Result<()> {
        let (chain, key) = match &self.source {
            Source::Files { cert, key, last } => {
                let fresh = load_chain(cert, key)?;
                let mut last = last.lock();
                if last.as_ref() == Some(&fresh.0) {
                    return Ok(());
                }
                *last = Some(fresh.0.clone());
                fresh
            }
            Source::Own { file, names, pair } => {
                let mut pair = pair.lock();
                let Some(turned) = pair.turned(names, self.clock.wall()).map_err(failed)? else {
                    return Ok(());
                };
                store_pair(file, &turned)?;
                *pair = turned;
                // Published before it serves: clients learn both hashes.
                self.hashes.send_replace(hashes(&pair)?);
                chain_of(pair.current())?
            }
        };
        self.listener.renew(chain, key).map_err(failed)?;
        tracing::info!("meeting certificate renewed");
        Ok(())
    }

    /// Stops accepting sessions, after waiting a moment for closes to be delivered.
    pub(super) async fn close(&self) {
        tokio::select! {
            () = self.listener.settled() => {}
            () = self.clock.sleep_until(self.clock.now() + FAREWELL) => {}
        }
        self.listener.close();
    }
}

fn load_chain(cert: &std::path::Path, key: &std::path::Path) -> Result<Chain> {
    let unreadable = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        failed(format!("certificate: {}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable(cert, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
    Ok((chain, key))
}

fn chain_of(certificate: &Certificate) -> Result<Chain> {
    Ok((vec![certificate.der().map_err(failed)?], certificate.private_key().map_err(failed)?))
}

fn hashes(pair: &Pair) -> Result<Vec<Vec<u8>>> {
    Ok(pair.hashes().map_err(failed)?.iter().map(|hash| hash.to_vec()).collect())
}

fn store_pair(file: &SecretFile, pair: &Pair) -> Result<()> {
    file.write(&serde_json::to_vec(pair).map_err(failed)?)
}

/// The stored pair, rotated if due; or a new one. An unreadable pair is replaced: clients request the hashes every time.
fn load_or_create_pair(file: &SecretFile, names: &[String], clock: &dyn Clock) -> Result<Pair> {
    let known = file.read()?.and_then(|content| serde_json::from_slice::<Pair>(&content).ok());
    let now = clock.wall();
    let fresh = match &known {
        Some(pair) => pair.turned(names, now).map_err(failed)?,
        None => Some(Pair::new(names, now).map_err(failed)?),
    };
    if let Some(fresh) = &fresh {
        store_pair(file, fresh)?;
    }
    fresh.or(known).ok_or_else(|| failed("no certificate"))
}

fn certificate_names(host: &str, ip: IpAddr) -> Vec<String> {
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

/// The key of stateless resets. It is kept, so that clients notice a restart at once.
fn reset_key(data_dir: &std::path::Path) -> Result<[u8; 64]> {
    let file = SecretFile::new(data_dir, "meet-reset-key");
    let make = || {
        let mut key = [0; 64];
        OsEntropy.fill(&mut key);
        key.to_vec()
    };
    let key = file.read_or_create(make)?;
    match key.try_into() {
        Ok(key) => Ok(key),
        Err(_) => {
            let key = make();
            file.write(&key)?;
            key.try_into().map_err(|_| failed("invalid reset key"))
        }
    }
}
