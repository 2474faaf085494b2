//! Which calls the gatekeeper admits, and how rejections are counted.

use std::sync::Arc;

use tenure_meet_rpc::{ChannelPool, Gatekeeper, Keyring, Peer, ServiceRole};
use tenure_meet_wire::internal::media_handler_service_server::MediaHandlerServiceServer;
use tenure_meet_wire::jwt::{Checker, KeySet, ServiceClaims};
use tenure_meet_wire::jwt::{Jwks, ServiceType, SigningKey, sign};
use tonic::Code;
use tonic::service::Routes;

use crate::harness::{Fixed, Handler, Harness, clock, foreign, minted, register};

/// Whether exactly one rejection with this reason was counted. Metrics are global to the process, and each test runs in its own.
fn refused(reason: &str) -> bool {
    let line = format!(
        "mh_jwt_validations_total{{result=\"failure\",token_type=\"service\",failure_reason=\"{reason}\"}} 1"
    );
    tenure_service::telemetry::metrics_text().contains(&line)
}

#[tokio::test]
async fn a_token_with_the_scope_from_the_right_caller_is_admitted() {
    let harness = Harness::open().await;
    let answer = harness.call(minted(&harness.authority, "mc")).await.unwrap();
    assert!(answer.accepted);
    let heard = harness.handler.heard.lock().clone();
    let peer = Peer { client_id: "mc".to_owned(), service_type: ServiceType::MeetingController };
    assert_eq!(heard, [(peer, None)]);
}

#[tokio::test]
async fn every_bad_token_gets_the_same_answer_and_its_reason_is_counted() {
    tenure_service::telemetry::metrics_text();
    let harness = Harness::open().await;
    let good = harness.claims("mc");
    let meeting = harness.authority.sign_member(&tenure_meet_wire::jwt::MemberTokenRequest {
        user: "u".to_owned(),
        meeting_id: "m".to_owned(),
        home_org_id: None,
        meeting_org_id: String::new(),
        host: true,
    });
    let (known, _) = harness.authority.service(&crate::harness::credentials("mc"), None).unwrap();
    let long = "x".repeat(8_193);
    let table = [
        ("unknown_key", foreign(&good)),
        ("scope", minted(&harness.authority, "weak")),
        ("token_type", Arc::new(Fixed(meeting.unwrap()))),
        ("too_long", Arc::new(Fixed(long))),
        ("malformed", Arc::new(Fixed("nonsense".to_owned()))),
        ("signature", Arc::new(Fixed(format!("{}AAAA", &known[..known.len() - 4])))),
    ];
    for (reason, tokens) in table {
        let status = harness.call(tokens).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "Invalid token"), "{reason}");
        assert!(refused(reason), "{reason} in {}", tenure_service::telemetry::metrics_text());
    }
    assert!(harness.handler.heard.lock().is_empty());
}

/// A handler that knows one key, with which the test signs its own tokens.
async fn own_key() -> (SigningKey, ChannelPool) {
    let key = SigningKey::from_seed(&[3; 32]).unwrap();
    let keys = KeySet::from(&Jwks { keys: vec![key.public()] });
    let keyring = Keyring::local(clock(), move || Checker::new(keys.clone()));
    let routes = Routes::new(MediaHandlerServiceServer::new(Handler::default()));
    let channels = ChannelPool::new(Arc::new(Fixed(String::new())), clock(), None);
    channels.offer("mh", Gatekeeper::new(ServiceRole::Mh, keyring).guard(routes));
    (key, channels)
}

#[tokio::test]
async fn a_token_from_the_future_or_the_past_is_refused() {
    tenure_service::telemetry::metrics_text();
    let harness = Harness::open().await;
    let (key, channels) = own_key().await;
    let now = clock().wall().as_micros() / 1_000_000;
    let good = harness.claims("mc");
    for (reason, iat, exp) in [("future", now + 900, now + 3_600), ("expired", now - 3_600, now - 1)] {
        let token = sign(&key, &ServiceClaims { iat, exp, ..good.clone() }).unwrap();
        let status =
            register(&channels.with_tokens(Arc::new(Fixed(token))), "inproc:mh", "m").await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{reason}");
        assert!(refused(reason), "{reason}");
    }
}

#[tokio::test]
async fn a_token_of_8192_bytes_is_accepted() {
    let harness = Harness::open().await;
    let (key, channels) = own_key().await;
    let good = harness.claims("mc");
    let sized = |len: usize| ServiceClaims { jti: "x".repeat(len), ..good.clone() };
    let token = (5_000..7_000).rev().find_map(|len| sign(&key, &sized(len)).ok()).unwrap();
    assert!(token.len() > 8_190);
    assert!(register(&channels.with_tokens(Arc::new(Fixed(token))), "inproc:mh", "m").await.is_ok());
}

#[tokio::test]
async fn the_wrong_service_type_is_rejected_despite_a_valid_token() {
    tenure_service::telemetry::metrics_text();
    let harness = Harness::open().await;
    let status = harness.call(minted(&harness.authority, "mh")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let metrics = tenure_service::telemetry::metrics_text();
    let line = "mh_caller_type_rejected_total{grpc_service=\"MediaHandlerService\",\
                expected_type=\"meeting-controller\",actual_type=\"media-handler\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_service_without_a_rule_is_not_exposed() {
    let harness = Harness::open().await;
    let keys = Keyring::local(clock(), || Checker::new(KeySet::default()));
    let routes = Routes::new(MediaHandlerServiceServer::new(Handler::default()));
    harness.channels.offer("gc", Gatekeeper::new(ServiceRole::Gc, keys).guard(routes));
    let status = register(&harness.channels, "inproc:gc", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn published_keys_are_cached_and_refetched_for_an_unknown_key() {
    let harness = Harness::open().await;
    let mut servers = tokio::task::JoinSet::new();
    let address =
        crate::harness::serve(tenure_meet_ac::routes(harness.authority.clone()), &mut servers).await;
    let url = format!("http://{address}/.well-known/jwks.json");
    let clock = Arc::new(tenure_store::TokioClock::default());
    let keys = Keyring::published(&url, false, clock.clone()).unwrap();
    // The test clock is set to 2023, and so is the token.
    let wall = tenure_lease::Clock::wall(&*clock).as_micros() / 1_000_000;
    let strange = ServiceClaims { iat: wall, exp: wall + 60, ..harness.claims("mc") };
    let foreign = sign(&SigningKey::from_seed(&[9; 32]).unwrap(), &strange).unwrap();
    let unknown = keys.check::<ServiceClaims>(&foreign).await.unwrap_err();
    assert_eq!(unknown.as_str(), "unknown_key");
    let (token, _) = harness.authority.service(&crate::harness::credentials("mc"), None).unwrap();
    let known = keys.check::<ServiceClaims>(&token).await.unwrap_err();
    assert_eq!(known.as_str(), "future", "the signature is verified");
    // The keys stay cached when the authority is gone.
    servers.shutdown().await;
    clock.step(std::time::Duration::from_secs(3_600));
    let known = keys.check::<ServiceClaims>(&token).await.unwrap_err();
    assert_eq!(known.as_str(), "future");
}
