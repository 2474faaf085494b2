//! TLS, and certificates that change while the server runs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tenure_service::config::Tls;
use tenure_service::{Server, ServerError, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Running, moment, soon, start};

type Pair = CertifiedKey<rcgen::KeyPair>;

fn pair() -> Pair {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

fn write(dir: &Path, pair: &Pair) -> Tls {
    let files = Tls { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
    fs::write(&files.cert, pair.cert.pem()).unwrap();
    fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    files
}

async fn serving(files: &Tls) -> Running {
    let router =
        Router::new().route("/", get(|request: Request| async move { format!("{:?}", request.version()) }));
    let files = files.clone();
    start(|settings| settings.tls = Some(files), router).await
}

/// A handshake that trusts these certificates and offers this protocol.
async fn handshake(
    server: &Running,
    trusted: &[&Pair],
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for pair in trusted {
        roots.add(pair.cert.der().clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

/// The certificate the server shows.
async fn served_certificate(server: &Running, trusted: &[&Pair]) -> CertificateDer<'static> {
    let stream = handshake(server, trusted, "http/1.1").await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn requests_go_through_tls_in_both_versions() {
    let (dir, pair) = (tempfile::tempdir().unwrap(), pair());
    let server = serving(&write(dir.path(), &pair)).await;
    assert!(server.url.starts_with("https://127.0.0.1:"));
    let mut stream = handshake(&server, &[&pair], "http/1.1").await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    soon(stream.read_to_string(&mut text)).await.unwrap();
    assert!(text.ends_with("HTTP/1.1"), "{text}");
    let stream = handshake(&server, &[&pair], "h2").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
}

#[tokio::test]
async fn a_new_certificate_is_loaded_without_a_restart() {
    let (dir, old, new) = (tempfile::tempdir().unwrap(), pair(), pair());
    let server = serving(&write(dir.path(), &old)).await;
    assert_eq!(&served_certificate(&server, &[&old, &new]).await, old.cert.der());
    let before = handshake(&server, &[&old], "http/1.1").await.unwrap();
    write(dir.path(), &new);
    soon(async { while &served_certificate(&server, &[&old, &new]).await != new.cert.der() {} }).await;
    let mut before = before;
    before.write_all(b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    soon(before.read_to_string(&mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "connections go on: {text}");
}

#[tokio::test]
async fn a_bad_certificate_keeps_the_old_one_in_use() {
    let (dir, old, new) = (tempfile::tempdir().unwrap(), pair(), pair());
    let files = write(dir.path(), &old);
    let server = serving(&files).await;
    fs::write(&files.cert, "no certificate").unwrap();
    // Long enough for the server to look at least once more.
    for _ in 0..10 {
        moment().await;
        assert_eq!(&served_certificate(&server, &[&old]).await, old.cert.der());
    }
    // A certificate whose key has not been replaced yet.
    fs::write(&files.cert, new.cert.pem()).unwrap();
    for _ in 0..10 {
        moment().await;
        assert_eq!(&served_certificate(&server, &[&old]).await, old.cert.der());
    }
    fs::write(&files.key, new.signing_key.serialize_pem()).unwrap();
    soon(async { while &served_certificate(&server, &[&old, &new]).await != new.cert.der() {} }).await;
}

#[tokio::test]
async fn a_server_does_not_start_with_a_bad_certificate() {
    let (dir, one, other) = (tempfile::tempdir().unwrap(), pair(), pair());
    let files = write(dir.path(), &one);
    let bind = || async {
        let listen = "127.0.0.1:0".parse().unwrap();
        Server::bind(&Settings { listen, tls: Some(files.clone()), ..Settings::default() }).await
    };
    assert!(bind().await.is_ok());
    fs::write(&files.key, other.signing_key.serialize_pem()).unwrap();
    let error = bind().await.unwrap_err();
    assert!(error.to_string().contains("do not match"), "{error}");
    fs::write(&files.cert, "").unwrap();
    assert!(matches!(bind().await, Err(ServerError::Certificate(_))));
    fs::remove_file(&files.cert).unwrap();
    let error = bind().await.unwrap_err();
    assert!(error.to_string().contains("cert.pem"), "{error}");
}

#[tokio::test]
async fn a_client_without_a_tls_handshake_is_dropped() {
    let (dir, pair) = (tempfile::tempdir().unwrap(), pair());
    let files = write(dir.path(), &pair);
    let server = start(
        |settings| {
            settings.tls = Some(files);
            settings.limits.header_timeout_ms = 100;
        },
        Router::new(),
    )
    .await;
    assert_eq!(server.connect().await.rest().await, "");
}
