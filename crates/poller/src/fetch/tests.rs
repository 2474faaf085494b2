//! Polls of a real server on this machine.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response as Answer};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use lease_store::BootClock;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

struct Site {
    addr: SocketAddr,
    _task: JoinSet<()>,
}

async fn site(router: Router) -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Site { addr, _task: task }
}

fn fetcher(change: impl FnOnce(&mut Settings)) -> Fetcher {
    let mut settings = Settings { max_body: 1_000, max_redirects: 3, ..Settings::default() };
    change(&mut settings);
    Fetcher::new(&settings, Arc::new(BootClock)).unwrap()
}

fn target(url: &str, more: serde_json::Value) -> Target {
    let mut record = more.as_object().cloned().unwrap_or_default();
    record.insert("address".into(), url.into());
    Target::new("t", record).unwrap()
}

const AGENT: HeaderValue = HeaderValue::from_static("test (node; generation 7)");

async fn poll(fetcher: &Fetcher, url: &str) -> Result<Reply, FetchError> {
    fetcher.poll(&target(url, json!({})), &AGENT, &Validators::default(), || true).await
}

/// The headers of a request, one per line.
async fn echo(request: Request) -> String {
    let lines =
        request.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    lines.collect()
}

#[tokio::test]
async fn a_poll_says_who_asks_and_sends_what_the_target_says() {
    let site = site(Router::new().route("/", get(echo))).await;
    let target = target(&format!("http://{}/", site.addr), json!({"bearer": "b", "headers": {"x-key": "k"}}));
    let reply = fetcher(|_| ()).poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    let text = String::from_utf8(reply.body).unwrap();
    for line in [
        "user-agent: test (node; generation 7)",
        "authorization: Bearer b",
        "x-key: k",
        "accept-encoding: gzip",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn what_did_not_change_is_not_sent_again() {
    async fn page(headers: HeaderMap) -> Answer {
        if headers.get(header::IF_NONE_MATCH).is_some_and(|etag| etag == "\"v1\"")
            && headers.contains_key(header::IF_MODIFIED_SINCE)
        {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let headers = [(header::ETAG, "\"v1\""), (header::LAST_MODIFIED, "Sun, 15 Nov 2026 00:00:00 GMT")];
        (headers, "whole").into_response()
    }
    let site = site(Router::new().route("/", get(page))).await;
    let (fetcher, target) = (fetcher(|_| ()), target(&format!("http://{}/", site.addr), json!({})));
    let first = fetcher.poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    assert_eq!((first.status.as_u16(), first.body.as_slice()), (200, &b"whole"[..]));
    let second = fetcher.poll(&target, &AGENT, &first.validators, || true).await.unwrap();
    assert_eq!((second.status.as_u16(), second.body.len()), (304, 0));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_also_when_it_is_packed() {
    async fn packed() -> Answer {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&[b'x'; 100_000]).unwrap();
        let bytes = gzip.finish().unwrap();
        assert!(bytes.len() < 1_000);
        ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response()
    }
    let router = Router::new()
        .route("/packed", get(packed))
        .route("/large", get(async || "x".repeat(1_001)))
        .route("/fits", get(async || "x".repeat(1_000)));
    let (site, fetcher) = (site(router).await, fetcher(|_| ()));
    for path in ["packed", "large"] {
        let refused = poll(&fetcher, &format!("http://{}/{path}", site.addr)).await;
        assert!(matches!(refused, Err(FetchError::TooLarge(1_000))), "{path}: {refused:?}");
    }
    assert_eq!(poll(&fetcher, &format!("http://{}/fits", site.addr)).await.unwrap().body.len(), 1_000);
}

#[tokio::test]
async fn packed_answers_are_unpacked() {
    async fn packed() -> Answer {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"{\"a\": 1}").unwrap();
        ([(header::CONTENT_ENCODING, "gzip")], gzip.finish().unwrap()).into_response()
    }
    let site = site(Router::new().route("/", get(packed))).await;
    let reply = poll(&fetcher(|_| ()), &format!("http://{}/", site.addr)).await.unwrap();
    assert_eq!(reply.body, b"{\"a\": 1}");
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_bound_and_each_needs_a_permit() {
    let router = Router::new()
        .route("/3", get(async || Redirect::temporary("/2")))
        .route("/2", get(async || Redirect::permanent("/1")))
        .route("/1", get(async || Redirect::to("/0")))
        .route("/0", get(async || "end"))
        .route("/loop", get(async || Redirect::to("/loop")))
        .route("/out", get(async || Redirect::to("ftp://h/")))
        .route("/nowhere", get(async || StatusCode::FOUND));
    let (site, fetcher) = (site(router).await, fetcher(|_| ()));
    let url = |path: &str| format!("http://{}/{path}", site.addr);
    assert_eq!(poll(&fetcher, &url("3")).await.unwrap().body, b"end");
    assert!(matches!(poll(&fetcher, &url("loop")).await, Err(FetchError::Redirects(3))));
    for path in ["out", "nowhere"] {
        assert!(matches!(poll(&fetcher, &url(path)).await, Err(FetchError::Nowhere)), "{path}");
    }
    let left = std::cell::Cell::new(2);
    let permitted = || left.replace(left.get() - 1) > 0;
    let cut = fetcher.poll(&target(&url("3"), json!({})), &AGENT, &Validators::default(), permitted).await;
    assert!(matches!(cut, Err(FetchError::NotPermitted)), "{cut:?}");
}

#[tokio::test]
async fn another_server_never_sees_the_secrets_of_the_first() {
    let other = site(Router::new().route("/", get(echo))).await;
    let place = format!("http://{}/", other.addr);
    let first = site(Router::new().route("/", get(async move || Redirect::to(&place)))).await;
    let target =
        target(&format!("http://{}/", first.addr), json!({"bearer": "hush", "headers": {"x-key": "hush"}}));
    let reply = fetcher(|_| ()).poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    let text = String::from_utf8(reply.body).unwrap();
    assert!(text.contains("user-agent") && !text.contains("hush"), "{text}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let router = Router::new().route("/", get(async || std::future::pending::<&str>().await));
    let site = site(router).await;
    let hasty = fetcher(|settings| settings.timeout = Duration::from_millis(50));
    let url = format!("http://{}/", site.addr);
    assert!(matches!(poll(&hasty, &url).await, Err(FetchError::Timeout(_))));
    let fetcher = fetcher(|_| ());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = poll(&fetcher, &format!("http://me:hush@{closed}/hush")).await.unwrap_err();
    assert!(matches!(refused, FetchError::Failed(_)) && !refused.to_string().contains("hush"), "{refused}");
}

#[tokio::test]
async fn a_probe_reads_no_body() {
    let site = site(Router::new().route("/", get(async || "x".repeat(5_000)))).await;
    let target = target(&format!("http://{}/", site.addr), json!({}));
    assert_eq!(fetcher(|_| ()).probe(&target, &AGENT, || true).await.unwrap(), StatusCode::OK);
}

/// A server with a certificate that only its own authority vouches for, which speaks HTTP/2 where it is asked.
async fn secure_site(protocol: &'static [u8]) -> (Site, String) {
    service::install_crypto();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let version = async |request: Request| format!("{:?}", request.version());
    let router = Router::new()
        .route("/", get(version))
        .route("/down", get(async || Redirect::to("http://localhost/")));
    let mut task = JoinSet::new();
    task.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let service = TowerToHyperService::new(router.clone());
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // A client that goes away is no failure of the server.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (Site { addr, _task: task }, pem)
}

#[tokio::test]
async fn tls_is_spoken_over_http_1_and_2_with_authorities_that_are_trusted() {
    for (protocol, version) in [(&b"h2"[..], "HTTP/2.0"), (b"http/1.1", "HTTP/1.1")] {
        let (site, pem) = secure_site(protocol).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let url = format!("https://localhost:{}/", site.addr.port());
        let trusting = fetcher(|settings| settings.ca = Some(path));
        assert_eq!(poll(&trusting, &url).await.unwrap().body, version.as_bytes());
        let down = poll(&trusting, &format!("{url}down")).await;
        assert!(matches!(down, Err(FetchError::Downgrade)), "{down:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (site, _) = secure_site(b"http/1.1").await;
    let url = format!("https://localhost:{}/", site.addr.port());
    assert!(matches!(poll(&fetcher(|_| ()), &url).await, Err(FetchError::Failed(_))));
}
