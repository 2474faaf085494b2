//! Lines over the network and inside the process.

use std::sync::Arc;

use lease_store::TokioClock;
use meet_rpc::Lines;
use meet_wire::internal::RegisterMeetingRequest;
use meet_wire::internal::media_handler_service_client::MediaHandlerServiceClient;
use tonic::Code;

use crate::house::{Fixed, House, clock, minted, register};

#[tokio::test]
async fn a_call_inside_the_process_passes_the_same_gate() {
    let house = House::open().await;
    assert!(register(&house.lines, "inproc:mh", "m").await.unwrap().accepted);
    let handler = house.lines.speaking_as(minted(&house.authority, "mh"));
    let status = register(&handler, "inproc:mh", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    house.lines.withdraw("mh");
    let status = register(&house.lines, "inproc:mh", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_trace_goes_with_the_call_on_both_ways() {
    let house = House::open().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for endpoint in [house.endpoint.as_str(), "inproc:mh"] {
        let mut client = MediaHandlerServiceClient::new(house.lines.to(endpoint).unwrap());
        let mut request = tonic::Request::new(RegisterMeetingRequest::default());
        request.metadata_mut().insert("traceparent", trace.parse().unwrap());
        client.register_meeting(request).await.unwrap();
        let heard = house.handler.heard.lock().pop().unwrap();
        assert_eq!(heard.1.as_deref(), Some(trace), "{endpoint}");
    }
}

#[tokio::test]
async fn nobody_at_an_endpoint_is_unavailable() {
    let house = House::open().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let status = register(&house.lines, &endpoint, "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_ends_after_ten_seconds() {
    use meet_rpc::{Gatekeeper, Keyring, Part};
    use meet_wire::internal::media_handler_service_server::MediaHandlerServiceServer;
    use meet_wire::jwt::{Checker, Jwks, KeySet, Kind, ServiceClaims, ServiceType, SigningKey, sign};

    let clock = Arc::new(TokioClock::default());
    let now = lease::Clock::wall(&*clock).as_micros() / 1_000_000;
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
    let lines = Lines::new(Arc::new(Fixed(sign(&key, &claims).unwrap())), clock.clone(), None);
    let routes =
        tonic::service::Routes::new(MediaHandlerServiceServer::new(crate::house::Handler::default()));
    let keyring = Keyring::here(clock.clone(), move || Checker::new(keys.clone()));
    lines.offer("mh", Gatekeeper::new(Part::Mh, keyring).guard(routes));
    let sent = lease::Clock::now(&*clock);
    let status = register(&lines, "inproc:mh", "never").await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(lease::Clock::now(&*clock).since(sent).as_secs(), 10);
}

#[tokio::test]
async fn what_is_no_endpoint_is_said_before_any_call() {
    let house = House::open().await;
    for bad in ["", "mh", "ftp://127.0.0.1:1", "http://", &format!("http://{}:1", "h".repeat(2_000))] {
        assert!(house.lines.to(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn over_tls_only_a_certificate_of_the_given_authority_is_trusted() {
    service::install_crypto();
    let house = House::open().await;
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls =
        service::config::Tls { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&tls.cert, pair.cert.pem()).unwrap();
    std::fs::write(&tls.key, pair.signing_key.serialize_pem()).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let settings = service::Settings { listen, tls: Some(tls), ..service::Settings::default() };
    let server = service::Server::bind(&settings).await.unwrap();
    let endpoint = format!("https://localhost:{}", server.local_addr().port());
    let router = house.routes().into_axum_router();
    let mut servers = tokio::task::JoinSet::new();
    servers.spawn(async move { server.run(router, service::Shutdown::new()).await.unwrap() });
    let trusting = |pem: String| Lines::new(minted(&house.authority, "mc"), clock(), Some(pem.into_bytes()));
    assert!(register(&trusting(pair.cert.pem()), &endpoint, "m").await.unwrap().accepted);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let status = register(&trusting(other.cert.pem()), &endpoint, "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
