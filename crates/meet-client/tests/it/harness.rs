//! Serves the files of the page as the binary does.

use std::net::SocketAddr;
use std::path::Path as FilePath;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Scripts of the tests, for use inside a page: a media handler, and meeting controllers.
const SCRIPTS: [&str; 2] = ["loopback.js", "controllers.js"];

/// A file server on its own thread.
pub(crate) struct Harness {
    pub(crate) url: String,
    _runtime: Runtime,
}

impl Harness {
    pub(crate) fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = runtime.block_on(async {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let router = Router::new().route("/{file}", get(async |Path(name): Path<String>| file(&name)));
            runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
            url
        });
        Self { url, _runtime: runtime }
    }
}

fn file(name: &str) -> Response<Body> {
    let root = FilePath::new(env!("CARGO_MANIFEST_DIR"));
    let path = match name {
        _ if SCRIPTS.contains(&name) => root.join("tests/it").join(name),
        _ => root.join("../../web/console").join(name),
    };
    let Ok(bytes) = std::fs::read(path) else {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Body::empty()).unwrap();
    };
    let kind = match name.rsplit('.').next() {
        Some("js") => "text/javascript",
        _ => "image/svg+xml",
    };
    Response::builder().header(header::CONTENT_TYPE, kind).body(Body::from(bytes)).unwrap()
}
