//! Meetings of the built binary: participants join over REST and real QUIC, and the process shuts down gracefully.

mod abuse;
mod bot;
mod client;
mod cluster;
mod collector;
mod compose;
mod handlers;
mod installation;
mod local_cluster;
mod resume;
mod secrets;
mod split_brain;
mod start;
mod survive;
mod trace;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tenure_meet_wire::signaling::ChatRequest;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::transport::Closed;
use tenure_testkit::{RedisServer, wait};

use crate::harness::{LIMIT, code};
use crate::meet::installation::{Installation, MeetingAccess, ServerProcess};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_meet_on_a_fresh_installation_and_see_its_end() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let made = server.create("standup").await;
    let code_of = made["meeting_code"].as_str().unwrap().to_owned();
    let place = server.place(&code_of, None).await;
    assert!(place.url.starts_with("https://127.0.0.1:") && place.url.ends_with("/wt/mc"), "{}", place.url);
    assert_eq!(place.hashes.len(), 2, "the certificate that serves and the next one");
    let (mut ada, welcome) = place.join("Ada").await;
    assert_eq!(welcome.media_servers.len(), 1);
    assert!(welcome.existing_participants.is_empty() && !welcome.binding_token.is_empty());
    // A guest only knows the code.
    let guest = server.guest(&code_of, "Bob").await;
    let (mut bob, second) = server.place(&code_of, Some(&guest)).await.join("Bob").await;
    assert_eq!(second.existing_participants.len(), 1);
    assert_eq!(second.existing_participants[0].name, "Ada");
    bob.ask(ClientPayload::ChatRequest(ChatRequest { text: "hello".to_owned() })).await;
    let heard = ada.until(|payload| match payload {
        Payload::ChatMessage(chat) => Some(chat.text.clone()),
        _ => None,
    });
    assert_eq!(heard.await, "hello");
    let ready = || server.get_blocking("/health/ready/meet").is_some_and(|(status, _)| status == 200);
    wait::until("the media handler is seen", LIMIT, ready).unwrap();
    for path in ["/health", "/health/live", "/ready", "/health/ready", "/health/ready/meet"] {
        // Readiness is refreshed periodically.
        let well = async || server.ask("GET", path, None, None).await.0 == 200;
        wait::until_async(path, LIMIT, well).await.unwrap();
    }
    let (_, ready) = server.ask("GET", "/health/ready", None, None).await;
    assert_eq!(ready["meet"]["state"], "healthy", "{ready}");
    let (_, metrics) = server.ask("GET", "/metrics", None, None).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("mc_session_joins_total{status=\"ok\"} 2"), "{metrics}");
    server.process.terminate().unwrap();
    assert_eq!(ada.session.closed().await, Closed::Code(4003));
    assert_eq!(code(&server.process), 0, "a graceful shutdown");
    // Meetings and secrets are kept: the next process knows the meeting.
    let server = installation.start(&["up", "--only", "meet"]);
    let (again, _) = server.place(&code_of, None).await.join("Ada").await;
    drop(again);
    for name in ["meet-keys", "meet-binding-secret", "meet-certificate", "meet-reset-key"] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = installation.dir.path().join("data").join(name);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths_and_foreign_tokens_are_refused() {
    let installation = Installation::new();
    let server = installation.start(&["up", "--only", "meet"]);
    let made = server.create("one").await;
    let place = server.place(made["meeting_code"].as_str().unwrap(), None).await;
    let elsewhere = MeetingAccess { url: place.url.replace("/wt/mc", "/wt/xx"), ..place.clone() };
    assert!(elsewhere.dial().await.is_err());
    let wrong_hashes = MeetingAccess { hashes: vec![vec![0; 32]], ..place.clone() };
    assert!(wrong_hashes.dial().await.is_err(), "an unknown certificate");
    let forged = MeetingAccess { token: "a.b.c".to_owned(), ..place.clone() };
    let refused = forged.ask_to_join("Eve").await.next().await;
    let Some(Payload::Error(refused)) = refused.payload else { panic!("admitted") };
    assert_eq!(refused.message, "The access token is invalid or expired");
    let (status, body) =
        server.ask("POST", "/api/v1/meetings", Some(json!({"display_name": "x"})), None).await;
    assert_eq!(status, 401, "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_run_as_separate_processes_on_one_redis() {
    let installation = Installation::on(RedisServer::start().unwrap());
    let gc = installation.start_with(&["gc"], &[("TENURE_MEET__GRPC_BIND_ADDRESS", "127.0.0.1:0")]);
    let (ac, gc_url) = (gc.address.clone(), gc.grpc.clone().unwrap());
    let part = |role: &'static str, secret_name: &'static str, secret: &'static str| {
        let variables = [
            ("TENURE_MEET__GRPC_BIND_ADDRESS", "127.0.0.1:0"),
            ("MC_WEBTRANSPORT_BIND_ADDRESS", "127.0.0.1:0"),
            ("AC_ENDPOINT", ac.as_str()),
            ("GC_GRPC_URL", gc_url.as_str()),
            (secret_name, secret),
        ];
        installation.start_with(&[role], &variables)
    };
    let mc = part("mc", "MC_CLIENT_SECRET", installation::MC_SECRET);
    // Without a media handler a controller is live but not ready.
    wait::until("the controller is not ready", LIMIT, || {
        mc.get_blocking("/health/ready")
            .is_some_and(|(status, body)| status == 503 && body.contains("media handler"))
    })
    .unwrap();
    assert_eq!(mc.get_blocking("/health/live").unwrap().0, 200);
    let mh = part("mh", "MH_CLIENT_SECRET", installation::MH_SECRET);
    wait::until("the controller is ready", LIMIT, || {
        mc.get_blocking("/ready").is_some_and(|(status, _)| status == 200)
    })
    .unwrap();
    let made = gc.create("far apart").await;
    let place = gc.place(made["meeting_code"].as_str().unwrap(), None).await;
    let (ada, welcome) = place.join("Ada").await;
    assert_eq!(welcome.media_servers.len(), 1);
    assert!(welcome.media_servers[0].media_handler_url.ends_with("/wt/mh"));
    assert_eq!(welcome.media_servers[0].certificate_sha256.len(), 2);
    mc.process.terminate().unwrap();
    assert_eq!(ada.session.closed().await, Closed::Code(4003));
    for server in [&mh, &gc] {
        server.process.terminate().unwrap();
    }
    for server in [&mc, &mh, &gc] {
        assert_eq!(code(&server.process), 0, "a graceful shutdown");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_process_is_live_but_not_ready_and_recovers() {
    let installation = Installation::on(RedisServer::start().unwrap());
    let server = installation.start(&["up", "--only", "meet"]);
    let is = |path: &'static str, wanted: u16| {
        server.get_blocking(path).is_some_and(|(status, _)| status == wanted)
    };
    wait::until("it is ready", LIMIT, || is("/health/ready/meet", 200)).unwrap();
    let redis = installation.redis.as_ref().unwrap();
    redis.pause().unwrap();
    wait::until("it is not ready", LIMIT, || is("/health/ready/meet", 503)).unwrap();
    assert!(is("/health/live", 200));
    redis.resume().unwrap();
    wait::until("it is ready again", LIMIT, || is("/health/ready/meet", 200)).unwrap();
    let made = server.create("after all").await;
    server.place(made["meeting_code"].as_str().unwrap(), None).await.join("Ada").await;
}

fn placed(answer: &serde_json::Value, server: &ServerProcess) -> MeetingAccess {
    let assignment = &answer["mc_assignment"];
    let hashes = assignment["certificate_hashes"].as_array().unwrap().iter();
    MeetingAccess {
        url: assignment["webtransport_endpoint"].as_str().unwrap().to_owned(),
        hashes: hashes.map(|hash| STANDARD.decode(hash.as_str().unwrap()).unwrap()).collect(),
        token: answer["token"].as_str().unwrap().to_owned(),
        meeting: answer["meeting_id"].as_str().unwrap().to_owned(),
        patience: Duration::from_secs(60).min(server.patience),
    }
}
