//! The control service of the built binary: alone, left out, killed, and on one Redis with another.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tenure_testkit::{Process, wait};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::harness::{Harness, LIMIT, tenure};

const TOKEN: &str = "test-admin-token-of-the-control-tests";

struct Up {
    process: Process,
    address: String,
    /// Everything it logs.
    log: PathBuf,
}

/// Starts it with `args` in `dir`, with one known token.
fn start(dir: &Path, name: &str, args: &[&str]) -> Up {
    let data = dir.join(name);
    let mut command: Command = tenure(dir, args);
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    command.env("TENURE_API_TOKENS", format!("{TOKEN}=control:admin,lease:admin"));
    command.env("TENURE_LOG__FILTER", "trace,h2=info,hyper=info,tungstenite=info,mio=info");
    // A stale address of an earlier process must not be taken for this one's.
    let _ = std::fs::remove_file(data.join("address"));
    let log = (0..).map(|n| dir.join(format!("{name}-{n}.log"))).find(|path| !path.exists()).unwrap();
    command.stderr(File::create(&log).unwrap());
    let process = Process::spawn(command).unwrap();
    let mut address = String::new();
    // The file is there before its content is.
    wait::until("it is up", LIMIT, || {
        address = std::fs::read_to_string(data.join("address")).unwrap_or_default();
        address.ends_with('\n')
    })
    .unwrap();
    Up { process, address: address.trim().strip_prefix("http://").unwrap().to_owned(), log }
}

impl Up {
    async fn ask(&self, method: &str, path: &str, body: Option<Value>, lease: Option<&str>) -> (u16, Value) {
        let url = format!("http://{}{path}", self.address);
        let mut request = reqwest::Client::new().request(method.parse().unwrap(), url).bearer_auth(TOKEN);
        if let Some(lease) = lease {
            request = request.header("X-Control-Lease", lease);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }

    async fn serving(&self) {
        wait::until_async("the device is served", LIMIT, async || {
            self.ask("GET", "/api/v1/control/status", None, None).await.0 == 200
        })
        .await
        .unwrap();
    }

    /// Takes the lease: the connection that owns it, and its token.
    async fn acquire(&self) -> (WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>, String) {
        let mut request = format!("ws://{}/ws", self.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        let message = json!({ "type": "control.acquire", "requestId": "a", "clientName": "phone" });
        socket.send(Message::text(message.to_string())).await.unwrap();
        loop {
            let heard = socket.next().await.unwrap().unwrap();
            let Ok(answer) = serde_json::from_str::<Value>(heard.to_text().unwrap()) else { continue };
            if answer["requestId"] == "a" {
                let token = answer["data"]["leaseToken"].as_str().unwrap_or_else(|| panic!("{answer}"));
                return (socket, token.to_owned());
            }
        }
    }
}

#[tokio::test]
async fn control_runs_alone_and_can_be_left_out() {
    tenure_service::install_crypto();
    let dir = tempfile::tempdir().unwrap();
    let alone = start(dir.path(), "alone", &["control"]);
    alone.serving().await;
    assert_eq!(alone.ask("GET", "/api/v1/effects", None, None).await.0, 200);
    let without = start(dir.path(), "without", &["up", "--only", "lease"]);
    assert_eq!(without.ask("GET", "/api/v1/control/status", None, None).await.0, 404);
    let wrong = crate::harness::run_command({
        let mut command = tenure(dir.path(), &["control", "--data-dir", "wrong"]);
        command.env("TENURE_CONTROL__TTL_MS", "1000").env("TENURE_CONTROL__HEARTBEAT_MS", "900");
        command
    });
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("heartbeat_ms"), "{}", wrong.err);
    alone.process.terminate().unwrap();
    assert_eq!(crate::harness::code(&alone.process), 0, "an orderly end");
}

#[tokio::test]
async fn kill_9_frees_the_device_and_keeps_what_was_acknowledged() {
    tenure_service::install_crypto();
    let dir = tempfile::tempdir().unwrap();
    let first = start(dir.path(), "data", &["up"]);
    first.serving().await;
    let (mut socket, token) = first.acquire().await;
    assert_eq!(first.ask("POST", "/api/v1/presets", Some(json!({ "name": "evening" })), None).await.0, 428);
    let saved = first.ask("POST", "/api/v1/presets", Some(json!({ "name": "evening" })), Some(&token)).await;
    assert_eq!(saved.0, 200, "{}", saved.1);
    let revoked = first.ask("GET", "/v1/leases/one?key=control:global", None, None).await.1;
    assert_eq!(revoked["state"], "held", "operators see it: {revoked}");
    first.process.kill9().unwrap();
    while socket.next().await.is_some_and(|heard| heard.is_ok()) {}

    let second = start(dir.path(), "data", &["up"]);
    second.serving().await;
    let status = second.ask("GET", "/api/v1/device/status", None, None).await.1;
    assert_eq!(status["data"]["controlLease"]["active"], false);
    assert_eq!(status["data"]["state"]["presets"][0]["name"], "evening");
    let (code, body) = second.ask("POST", "/api/v1/effects/next", None, Some(&token)).await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("LEASE_EXPIRED")));
    let (_socket, next) = second.acquire().await;
    assert_ne!(next, token);
    second.process.terminate().unwrap();
    crate::harness::code(&second.process);
    for up in [&first, &second] {
        let output = std::fs::read_to_string(&up.log).unwrap();
        assert!(output.contains("control.lease.acquired"), "the log is there");
        assert!(!output.contains(&token) && !output.contains(&next), "a token got out");
    }
}

#[tokio::test]
async fn another_process_on_the_same_redis_takes_the_device_over() {
    tenure_service::install_crypto();
    let harness = Harness::new();
    let store = harness.store();
    let args = ["up", "--only", "lease,control", "--store", &store];
    let first = start(harness.dir.path(), "first", &args);
    first.serving().await;
    let second = start(harness.dir.path(), "second", &args);
    let (code, body) = second.ask("GET", "/api/v1/device/status", None, None).await;
    assert_eq!((code, &body["error"]["code"]), (503, &json!("SYSTEM_NOT_READY")));
    let (_socket, token) = first.acquire().await;
    assert_eq!(
        first.ask("POST", "/api/v1/effects/set", Some(json!({ "effectId": 11 })), Some(&token)).await.0,
        200
    );
    assert_eq!(
        first.ask("POST", "/api/v1/presets", Some(json!({ "name": "kept" })), Some(&token)).await.0,
        200
    );
    first.process.kill9().unwrap();
    second.serving().await;
    let (code, body) = second.ask("POST", "/api/v1/effects/next", None, Some(&token)).await;
    assert_eq!(
        (code, &body["error"]["code"]),
        (409, &json!("LEASE_EXPIRED")),
        "a new server frees its predecessor's lease"
    );
    let presets = second.ask("GET", "/api/v1/presets", None, None).await.1;
    assert_eq!(presets["data"]["presets"][0]["name"], "kept");
    second.acquire().await;
}
