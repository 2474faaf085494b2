//! Polls a real server on this machine.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response as ServerResponse};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tenure_store::BootClock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

struct TestServer {
    addr: SocketAddr,
    _task: JoinSet<()>,
}

async fn serve(router: Router) -> TestServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move { axum::serve(listener, router).await.unwrap() });
    TestServer { addr, _task: task }
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

async fn poll(fetcher: &Fetcher, url: &str) -> Result<FetchedResponse, FetchError> {
    fetcher.poll(&target(url, json!({})), &AGENT, &Validators::default(), || true).await
}

/// The headers of a request, one per line.
async fn echo(request: Request) -> String {
    let lines =
        request.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    lines.collect()
}

#[tokio::test]
async fn a_poll_sends_the_user_agent_and_the_target_s_headers() {
    let server = serve(Router::new().route("/", get(echo))).await;
    let target =
        target(&format!("http://{}/", server.addr), json!({"bearer": "b", "headers": {"x-key": "k"}}));
    let reply = fetcher(|_| ()).poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    let text = String::from_utf8(reply.body).unwrap();
    for line in [
        "user-agent: test (node; generation 7)",
        "authorization: Bearer b",
        "x-key: k",
        "accept-encoding: gzip",
    ] {
        assert!(text.contains(line), "{line} missing in {text}");
    }
}

#[tokio::test]
async fn an_unchanged_response_is_not_sent_again() {
    async fn page(headers: HeaderMap) -> ServerResponse {
        if headers.get(header::IF_NONE_MATCH).is_some_and(|etag| etag == "\"v1\"")
            && headers.contains_key(header::IF_MODIFIED_SINCE)
        {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let headers = [(header::ETAG, "\"v1\""), (header::LAST_MODIFIED, "Sun, 15 Nov 2026 00:00:00 GMT")];
        (headers, "whole").into_response()
    }
    let server = serve(Router::new().route("/", get(page))).await;
    let (fetcher, target) = (fetcher(|_| ()), target(&format!("http://{}/", server.addr), json!({})));
    let first = fetcher.poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    assert_eq!((first.status.as_u16(), first.body.as_slice()), (200, &b"whole"[..]));
    let second = fetcher.poll(&target, &AGENT, &first.validators, || true).await.unwrap();
    assert_eq!((second.status.as_u16(), second.body.len()), (304, 0));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_even_if_compressed() {
    async fn compressed() -> ServerResponse {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&[b'x'; 100_000]).unwrap();
        let bytes = gzip.finish().unwrap();
        assert!(bytes.len() < 1_000);
        ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response()
    }
    let router = Router::new()
        .route("/compressed", get(compressed))
        .route("/large", get(async || "x".repeat(1_001)))
        .route("/fits", get(async || "x".repeat(1_000)));
    let (server, fetcher) = (serve(router).await, fetcher(|_| ()));
    for path in ["compressed", "large"] {
        let refused = poll(&fetcher, &format!("http://{}/{path}", server.addr)).await;
        assert!(matches!(refused, Err(FetchError::TooLarge(1_000))), "{path}: {refused:?}");
    }
    assert_eq!(poll(&fetcher, &format!("http://{}/fits", server.addr)).await.unwrap().body.len(), 1_000);
}

#[tokio::test]
async fn compressed_responses_are_decompressed() {
    async fn compressed() -> ServerResponse {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"{\"a\": 1}").unwrap();
        ([(header::CONTENT_ENCODING, "gzip")], gzip.finish().unwrap()).into_response()
    }
    let server = serve(Router::new().route("/", get(compressed))).await;
    let reply = poll(&fetcher(|_| ()), &format!("http://{}/", server.addr)).await.unwrap();
    assert_eq!(reply.body, b"{\"a\": 1}");
}

#[tokio::test]
async fn redirects_are_limited_and_each_needs_a_permit() {
    let router = Router::new()
        .route("/3", get(async || Redirect::temporary("/2")))
        .route("/2", get(async || Redirect::permanent("/1")))
        .route("/1", get(async || Redirect::to("/0")))
        .route("/0", get(async || "end"))
        .route("/loop", get(async || Redirect::to("/loop")))
        .route("/out", get(async || Redirect::to("ftp://h/")))
        .route("/nowhere", get(async || StatusCode::FOUND));
    let (server, fetcher) = (serve(router).await, fetcher(|_| ()));
    let url = |path: &str| format!("http://{}/{path}", server.addr);
    assert_eq!(poll(&fetcher, &url("3")).await.unwrap().body, b"end");
    assert!(matches!(poll(&fetcher, &url("loop")).await, Err(FetchError::Redirects(3))));
    for path in ["out", "nowhere"] {
        assert!(matches!(poll(&fetcher, &url(path)).await, Err(FetchError::InvalidRedirect)), "{path}");
    }
    let left = std::cell::Cell::new(2);
    let permitted = || left.replace(left.get() - 1) > 0;
    let cut = fetcher.poll(&target(&url("3"), json!({})), &AGENT, &Validators::default(), permitted).await;
    assert!(matches!(cut, Err(FetchError::NotPermitted)), "{cut:?}");
}

#[tokio::test]
async fn secrets_are_not_sent_to_another_origin() {
    let other = serve(Router::new().route("/", get(echo))).await;
    let location = format!("http://{}/", other.addr);
    let first = serve(Router::new().route("/", get(async move || Redirect::to(&location)))).await;
    let target =
        target(&format!("http://{}/", first.addr), json!({"bearer": "hush", "headers": {"x-key": "hush"}}));
    let reply = fetcher(|_| ()).poll(&target, &AGENT, &Validators::default(), || true).await.unwrap();
    let text = String::from_utf8(reply.body).unwrap();
    assert!(text.contains("user-agent") && !text.contains("hush"), "{text}");
}

#[tokio::test]
async fn a_server_that_does_not_respond_times_out() {
    let router = Router::new().route("/", get(async || std::future::pending::<&str>().await));
    let server = serve(router).await;
    let impatient = fetcher(|settings| settings.timeout = Duration::from_millis(50));
    let url = format!("http://{}/", server.addr);
    assert!(matches!(poll(&impatient, &url).await, Err(FetchError::Timeout(_))));
    let fetcher = fetcher(|_| ());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = poll(&fetcher, &format!("http://me:hush@{closed}/hush")).await.unwrap_err();
    assert!(matches!(refused, FetchError::Failed(_)) && !refused.to_string().contains("hush"), "{refused}");
}

#[tokio::test]
async fn a_probe_reads_no_body() {
    let server = serve(Router::new().route("/", get(async || "x".repeat(5_000)))).await;
    let target = target(&format!("http://{}/", server.addr), json!({}));
    assert_eq!(fetcher(|_| ()).probe(&target, &AGENT, || true).await.unwrap(), StatusCode::OK);
}

/// A TLS server with a self-signed certificate, for HTTP/1.1 or HTTP/2.
async fn serve_tls(protocol: &'static [u8]) -> (TestServer, String) {
    tenure_service::install_crypto();
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
            // A client may disconnect at any time.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (TestServer { addr, _task: task }, pem)
}

#[tokio::test]
async fn tls_works_over_http_1_and_2_with_a_trusted_ca() {
    for (protocol, version) in [(&b"h2"[..], "HTTP/2.0"), (b"http/1.1", "HTTP/1.1")] {
        let (server, pem) = serve_tls(protocol).await;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let url = format!("https://localhost:{}/", server.addr.port());
        let trusting = fetcher(|settings| settings.ca = Some(path));
        assert_eq!(poll(&trusting, &url).await.unwrap().body, version.as_bytes());
        let down = poll(&trusting, &format!("{url}down")).await;
        assert!(matches!(down, Err(FetchError::Downgrade)), "{down:?}");
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused() {
    let (server, _) = serve_tls(b"http/1.1").await;
    let url = format!("https://localhost:{}/", server.addr.port());
    assert!(matches!(poll(&fetcher(|_| ()), &url).await, Err(FetchError::Failed(_))));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_denied_address_is_not_connected_to() {
    let server = serve(Router::new().route("/", get(echo))).await;
    let url = format!("http://localhost:{}/", server.addr.port());
    assert!(poll(&fetcher(|_| ()), &url).await.is_ok(), "loopback is allowed by default");
    let strict = fetcher(|settings| settings.addresses.deny_private = true);
    for url in [url, format!("http://{}/", server.addr)] {
        let denied = poll(&strict, &url).await;
        assert!(matches!(denied, Err(FetchError::Denied(_))), "{url}: {denied:?}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_denied_address_is_not_followed() {
    let router = Router::new()
        .route("/metadata", get(async || Redirect::to("http://169.254.169.254/latest/")))
        .route("/mapped", get(async || Redirect::to("http://[::ffff:169.254.169.254]/latest/")));
    let server = serve(router).await;
    for path in ["metadata", "mapped"] {
        let denied = poll(&fetcher(|_| ()), &format!("http://{}/{path}", server.addr)).await;
        assert!(matches!(denied, Err(FetchError::Denied(_))), "{path}: {denied:?}");
    }
}
