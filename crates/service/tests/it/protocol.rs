//! HTTP/1.1, HTTP/2 and streams that go on, at the same port.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post};
use bytes::Bytes;
use http::Version;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::support::{moment, soon, start};

fn router() -> Router {
    Router::new()
        .route("/version", get(|request: Request| async move { format!("{:?}", request.version()) }))
        .route(
            "/collect",
            post(|request: Request| async move {
                let body = request.into_body().collect().await.map(|body| body.to_bytes());
                body.map_err(|error| error.to_string())
            }),
        )
}

fn client() -> reqwest::ClientBuilder {
    tenure_service::install_crypto();
    reqwest::Client::builder().no_proxy()
}

#[tokio::test]
async fn both_http_versions_are_served_on_one_port() {
    let server = start(|_| {}, router()).await;
    let url = format!("{}/version", server.url);
    let one = client().http1_only().build().unwrap();
    let two = client().http2_prior_knowledge().build().unwrap();
    assert_eq!(one.get(&url).send().await.unwrap().text().await.unwrap(), "HTTP/1.1");
    let response = two.get(&url).send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "HTTP/2.0");
}

#[tokio::test]
async fn a_grpc_stream_outlives_the_limits_of_plain_bodies() {
    let change = |settings: &mut tenure_service::Settings| {
        settings.limits.body_timeout_ms = 10;
        settings.limits.max_body_bytes = 1_024;
    };
    let server = start(change, router()).await;
    let client = client().http2_prior_knowledge().build().unwrap();
    let (chunks, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    let body = futures_util::stream::unfold(body, |mut body| async move { Some((body.recv().await?, body)) });
    let request = client
        .post(format!("{}/collect", server.url))
        .header("content-type", "application/grpc")
        .body(reqwest::Body::wrap_stream(body));
    let feed = async {
        for _ in 0..3 {
            chunks.send(Ok(Bytes::from(vec![b'x'; 1_000]))).await.unwrap();
            moment().await;
        }
        drop(chunks);
    };
    let (response, ()) = soon(async { tokio::join!(request.send(), feed) }).await;
    assert_eq!(response.unwrap().bytes().await.unwrap().len(), 3_000);
}

#[tokio::test]
async fn a_shutdown_lets_http_2_requests_finish() {
    let (begun, mut begins) = mpsc::channel(1);
    let (go_on, goes) = tokio::sync::watch::channel(false);
    let router = Router::new().route(
        "/hold",
        get(move || {
            let (begun, mut goes) = (begun.clone(), goes.clone());
            async move {
                begun.send(()).await.unwrap();
                goes.wait_for(|go| *go).await.unwrap();
                Body::from("finished")
            }
        }),
    );
    let mut server = start(|_| {}, router).await;
    let client = client().http2_prior_knowledge().build().unwrap();
    let url = format!("{}/hold", server.url);
    let shutdown = async {
        begins.recv().await.unwrap();
        server.shutdown.trigger();
        while tokio::net::TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        go_on.send(true).unwrap();
    };
    let (response, ()) = soon(async { tokio::join!(client.get(&url).send(), shutdown) }).await;
    assert_eq!(response.unwrap().text().await.unwrap(), "finished");
    server.ended().await;
}
