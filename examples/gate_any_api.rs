//! An HTTP API behind the control lease: only its holder may change things, other callers may only read.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::{SinkExt, StreamExt};
use http::Method;
use serde_json::{Value, json};
use tenure_control::{Class, Control, Options, RouteClasses};
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::Holder;
use tenure_service::{Caller, Scopes};
use tokio_tungstenite::tungstenite::Message;

#[tokio::main]
async fn main() -> Result<()> {
    tenure_service::install_crypto();
    let store = examples::store().await?;
    let control = Control::start(Options::default(), Keeper::new(store, Holder::unique("gate", &OsEntropy)?));
    control.serving().await;

    // The class table is a value: here GET only reads, and one POST is exempt.
    let classes = RouteClasses::by_method().route(Method::POST, "/blinds/{id}/identify", Class::Exempt);
    let blinds = Router::new()
        .route("/blinds/{id}", get(async || "half open").put(async || "moved"))
        .route("/blinds/{id}/identify", post(async || "blinked"))
        .layer(control.gate(classes));
    // A real server authenticates its callers; this one has only one.
    let me = Caller::bearer("me", Scopes::all_admin());
    let app = control.routes(Arc::new(|_| false)).merge(blinds).layer(Extension(me));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();

    tokio::select! {
        served = async { axum::serve(listener, app).await } => served?,
        visited = visit(&address) => visited?,
    }
    control.close().await;
    Ok(())
}

async fn visit(address: &str) -> Result<()> {
    let http = reqwest::Client::new();
    let blinds = format!("http://{address}/blinds/1");
    let moved = http.put(&blinds).send().await?.text().await?;
    println!("the lease is free: {moved}");

    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/ws")).await?;
    socket
        .send(Message::text(
            json!({ "type": "control.acquire", "requestId": 1, "clientName": "example" }).to_string(),
        ))
        .await?;
    let token = loop {
        let message = socket.next().await.context("the server closed the connection")??;
        let response: Value = serde_json::from_str(message.to_text()?)?;
        if response["requestId"] == 1 {
            break response["data"]["leaseToken"].as_str().context("no token")?.to_owned();
        }
    };
    let refused = http.put(&blinds).send().await?;
    ensure!(refused.status() == 428, "a change without the token is refused");
    println!("without the token: {}", refused.status());
    println!("a read: {}", http.get(&blinds).send().await?.text().await?);
    println!("exempt: {}", http.post(format!("{blinds}/identify")).send().await?.text().await?);
    println!(
        "with the token: {}",
        http.put(&blinds).header("X-Control-Lease", token).send().await?.text().await?
    );
    Ok(())
}
