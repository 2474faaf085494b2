//! ChannelPool over the network and inside the process.

use std::sync::Arc;

use tenure_meet_rpc::ChannelPool;
use tenure_meet_wire::internal::RegisterMeetingRequest;
use tenure_meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tenure_store::TokioClock;
use tonic::Code;

use crate::harness::{Fixed, Harness, clock, minted, register};

#[tokio::test]
async fn a_call_inside_the_process_passes_the_same_gatekeeper() {
    let harness = Harness::open().await;
    assert!(register(&harness.channels, "inproc:mh", "m").await.unwrap().accepted);
    let handler = harness.channels.with_tokens(minted(&harness.authority, "mh"));
    let status = register(&handler, "inproc:mh", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    harness.channels.withdraw("mh");
    let status = register(&harness.channels, "inproc:mh", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn the_trace_propagates_over_the_network_and_inside_the_process() {
    let harness = Harness::open().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for endpoint in [harness.endpoint.as_str(), "inproc:mh"] {
        let mut client = MediaHandlerServiceClient::new(harness.channels.to(endpoint).unwrap());
        let mut request = tonic::Request::new(RegisterMeetingRequest::default());
        request.metadata_mut().insert("traceparent", trace.parse().unwrap());
        client.register_meeting(request).await.unwrap();
        let heard = harness.handler.heard.lock().pop().unwrap();
        assert_eq!(heard.1.as_deref(), Some(trace), "{endpoint}");
    }
}

#[tokio::test]
async fn an_endpoint_without_a_server_is_unavailable() {
    let harness = Harness::open().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let status = register(&harness.channels, &endpoint, "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_response_times_out_after_ten_seconds() {
    use tenure_meet_rpc::{Gatekeeper, Keyring, ServiceRole};
    use tenure_meet_wire::internal::media_handler_service_server::MediaHandlerServiceServer;
    use tenure_meet_wire::jwt::{Checker, Jwks, KeySet, Kind, ServiceClaims, ServiceType, SigningKey, sign};

    let clock = Arc::new(TokioClock::default());
    let now = tenure_lease::Clock::wall(&*clock).as_micros() / 1_000_000;
    let key = SigningKey::from_seed(&[3; 32]).unwrap();
    let keys = KeySet::from(&Jwks { keys: vec![key.public()] });
    let claims = ServiceClaims {
        sub: "mc".to_owned(),
        token_type: Kind::Service,
        scope: "service.write.mh".to_owned(),
        service_type: ServiceType::MeetingController,
        iat: now,
        exp: now + 60,
        jti: "j".to_owned(),
    };
    let channels = ChannelPool::new(Arc::new(Fixed(sign(&key, &claims).unwrap())), clock.clone(), None);
    let routes =
        tonic::service::Routes::new(MediaHandlerServiceServer::new(crate::harness::Handler::default()));
    let keyring = Keyring::local(clock.clone(), move || Checker::new(keys.clone()));
    channels.offer("mh", Gatekeeper::new(ServiceRole::Mh, keyring).guard(routes));
    let sent = tenure_lease::Clock::now(&*clock);
    let status = register(&channels, "inproc:mh", "never").await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(tenure_lease::Clock::now(&*clock).since(sent).as_secs(), 10);
}

#[tokio::test]
async fn an_invalid_endpoint_is_rejected_before_any_call() {
    let harness = Harness::open().await;
    for bad in ["", "mh", "ftp://127.0.0.1:1", "http://", &format!("http://{}:1", "h".repeat(2_000))] {
        assert!(harness.channels.to(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn over_tls_only_a_certificate_of_the_given_authority_is_trusted() {
    tenure_service::install_crypto();
    let harness = Harness::open().await;
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = tenure_service::config::Tls {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&tls.cert, pair.cert.pem()).unwrap();
    std::fs::write(&tls.key, pair.signing_key.serialize_pem()).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let settings = tenure_service::Settings { listen, tls: Some(tls), ..tenure_service::Settings::default() };
    let server = tenure_service::Server::bind(&settings).await.unwrap();
    let endpoint = format!("https://localhost:{}", server.local_addr().port());
    let router = harness.routes().into_axum_router();
    let mut servers = tokio::task::JoinSet::new();
    servers.spawn(async move { server.run(router, tenure_service::Shutdown::new()).await.unwrap() });
    let trusting =
        |pem: String| ChannelPool::new(minted(&harness.authority, "mc"), clock(), Some(pem.into_bytes()));
    assert!(register(&trusting(pair.cert.pem()), &endpoint, "m").await.unwrap().accepted);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let status = register(&trusting(other.cert.pem()), &endpoint, "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
