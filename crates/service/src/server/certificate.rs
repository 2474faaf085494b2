//! The TLS certificate, reloaded when its files change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::clock;
use crate::config::Tls;
use crate::shutdown::Shutdown;

/// How often the files are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file is missing, not readable or malformed.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// Certificate or key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate file has no certificate.
    #[error("{} contains no certificate", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The key is of an unknown kind, or does not match the certificate.
    #[error("certificate {} and key {} do not match", cert.display(), key.display())]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// The certificate in force.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Tls,
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Certificate {
    pub(super) fn load(files: &Tls) -> Result<Arc<Self>, CertificateError> {
        let current = ArcSwap::from_pointee(read_files(files)?);
        Ok(Arc::new(Self { files: files.clone(), current }))
    }

    /// The TLS side of HTTP/1.1 and HTTP/2 with this certificate.
    pub(super) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(ring::default_provider().into());
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Reloads the certificate until the shutdown. A bad one is reported once, and the old one stays in use.
    pub(super) async fn keep_fresh(self: Arc<Self>, shutdown: Shutdown) {
        let mut known = read_stamp(&self.files).ok();
        let mut pending = false;
        while clock::within(CHECK_INTERVAL, shutdown.wait()).await.is_none() {
            let now = read_stamp(&self.files).ok();
            let changed = now != known;
            if !changed && !pending {
                continue;
            }
            known = now;
            match read_files(&self.files) {
                Ok(certificate) => {
                    self.current.store(Arc::new(certificate));
                    pending = false;
                    tracing::info!(path = %self.files.cert.display(), "certificate reloaded");
                }
                // The files may be in the middle of being replaced: retry, and report once.
                Err(error) => {
                    pending = true;
                    if changed {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::error!(%error, cause, "cannot load the new certificate; keeping the old one");
                    }
                }
            }
        }
    }
}

fn read_files(files: &Tls) -> Result<CertifiedKey, CertificateError> {
    let fail = |what, path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::Read { what, path, source }
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(fail("the certificate", &files.cert))?;
    if chain.is_empty() {
        return Err(CertificateError::Empty { path: files.cert.clone() });
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(fail("the key", &files.key))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|source| CertificateError::Pair {
        cert: files.cert.clone(),
        key: files.key.clone(),
        source,
    })
}

/// The modification times and lengths of the files.
fn read_stamp(files: &Tls) -> io::Result<[(SystemTime, u64); 2]> {
    let one = |path: &Path| {
        let meta = fs::metadata(path)?;
        Ok::<_, io::Error>((meta.modified()?, meta.len()))
    };
    Ok([one(&files.cert)?, one(&files.key)?])
}
