//! Who is let in, and what is counted when not.

use std::sync::Arc;

use meet_rpc::{Gatekeeper, Keyring, Lines, Part, Peer};
use meet_wire::internal::media_handler_service_server::MediaHandlerServiceServer;
use meet_wire::jwt::{Checker, KeySet, ServiceClaims};
use meet_wire::jwt::{Jwks, ServiceType, SigningKey, sign};
use tonic::Code;
use tonic::service::Routes;

use crate::house::{Fixed, Handler, House, clock, foreign, minted, register};

/// How often a token was refused for this reason. Metrics belong to the process, and each test is one.
fn refused(reason: &str) -> bool {
    let line = format!(
        "mh_jwt_validations_total{{result=\"failure\",token_type=\"service\",failure_reason=\"{reason}\"}} 1"
    );
    service::telemetry::metrics_text().contains(&line)
}

#[tokio::test]
async fn a_token_with_the_scope_from_the_right_caller_is_let_in() {
    let house = House::open().await;
    let answer = house.call(minted(&house.authority, "mc")).await.unwrap();
    assert!(answer.accepted);
    let heard = house.handler.heard.lock().clone();
    let peer = Peer { client_id: "mc".to_owned(), service_type: ServiceType::MeetingController };
    assert_eq!(heard, [(peer, None)]);
}

#[tokio::test]
async fn every_bad_token_gets_the_same_answer_and_its_reason_is_counted() {
    service::telemetry::metrics_text();
    let house = House::open().await;
    let good = house.claims("mc");
    let meeting = house.authority.seat(&meet_ac::Seat {
        user: "u".to_owned(),
        meeting_id: "m".to_owned(),
        home_org_id: None,
        meeting_org_id: String::new(),
        host: true,
    });
    let (known, _) = house.authority.service(&crate::house::credentials("mc"), None).unwrap();
    let long = "x".repeat(8_193);
    let table = [
        ("unknown_key", foreign(&good)),
        ("scope", minted(&house.authority, "weak")),
        ("token_type", Arc::new(Fixed(meeting.unwrap()))),
        ("too_long", Arc::new(Fixed(long))),
        ("malformed", Arc::new(Fixed("nonsense".to_owned()))),
        ("signature", Arc::new(Fixed(format!("{}AAAA", &known[..known.len() - 4])))),
    ];
    for (reason, tokens) in table {
        let status = house.call(tokens).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "Invalid token"), "{reason}");
        assert!(refused(reason), "{reason} in {}", service::telemetry::metrics_text());
    }
    assert!(house.handler.heard.lock().is_empty());
}

/// A handler that knows one key, whose tokens a test makes itself.
async fn own_key() -> (SigningKey, Lines) {
    let key = SigningKey::from_seed(&[3; 32]).unwrap();
    let keys = KeySet::from(&Jwks { keys: vec![key.public()] });
    let keyring = Keyring::here(clock(), move || Checker::new(keys.clone()));
    let routes = Routes::new(MediaHandlerServiceServer::new(Handler::default()));
    let lines = Lines::new(Arc::new(Fixed(String::new())), clock(), None);
    lines.offer("mh", Gatekeeper::new(Part::Mh, keyring).guard(routes));
    (key, lines)
}

#[tokio::test]
async fn a_token_from_the_future_or_the_past_is_refused() {
    service::telemetry::metrics_text();
    let house = House::open().await;
    let (key, lines) = own_key().await;
    let now = clock().wall().as_micros() / 1_000_000;
    let good = house.claims("mc");
    for (reason, iat, exp) in [("future", now + 900, now + 3_600), ("expired", now - 3_600, now - 1)] {
        let token = sign(&key, &ServiceClaims { iat, exp, ..good.clone() }).unwrap();
        let status =
            register(&lines.speaking_as(Arc::new(Fixed(token))), "inproc:mh", "m").await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{reason}");
        assert!(refused(reason), "{reason}");
    }
}

#[tokio::test]
async fn a_token_of_8192_bytes_is_taken() {
    let house = House::open().await;
    let (key, lines) = own_key().await;
    let good = house.claims("mc");
    let sized = |len: usize| ServiceClaims { jti: "x".repeat(len), ..good.clone() };
    let token = (5_000..7_000).rev().find_map(|len| sign(&key, &sized(len)).ok()).unwrap();
    assert!(token.len() > 8_190);
    assert!(register(&lines.speaking_as(Arc::new(Fixed(token))), "inproc:mh", "m").await.is_ok());
}

#[tokio::test]
async fn the_wrong_kind_of_caller_is_refused_although_its_token_is_good() {
    service::telemetry::metrics_text();
    let house = House::open().await;
    let status = house.call(minted(&house.authority, "mh")).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let metrics = service::telemetry::metrics_text();
    let line = "mh_caller_type_rejected_total{grpc_service=\"MediaHandlerService\",\
                expected_type=\"meeting-controller\",actual_type=\"media-handler\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_service_that_no_rule_names_is_not_offered() {
    let house = House::open().await;
    let keys = Keyring::here(clock(), || Checker::new(KeySet::default()));
    let routes = Routes::new(MediaHandlerServiceServer::new(Handler::default()));
    house.lines.offer("gc", Gatekeeper::new(Part::Gc, keys).guard(routes));
    let status = register(&house.lines, "inproc:gc", "m").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn published_keys_are_fetched_kept_and_asked_for_again_when_a_key_is_unknown() {
    let house = House::open().await;
    let mut servers = tokio::task::JoinSet::new();
    let address = crate::house::serve(meet_ac::routes(house.authority.clone()), &mut servers).await;
    let url = format!("http://{address}/.well-known/jwks.json");
    let clock = Arc::new(lease_store::TokioClock::default());
    let keys = Keyring::published(&url, false, clock.clone()).unwrap();
    // The clock of the test stands in 2023; the token is made for it.
    let wall = lease::Clock::wall(&*clock).as_micros() / 1_000_000;
    let strange = ServiceClaims { iat: wall, exp: wall + 60, ..house.claims("mc") };
    let foreign = sign(&SigningKey::from_seed(&[9; 32]).unwrap(), &strange).unwrap();
    let unknown = keys.check::<ServiceClaims>(&foreign).await.unwrap_err();
    assert_eq!(unknown.as_str(), "unknown_key");
    let (token, _) = house.authority.service(&crate::house::credentials("mc"), None).unwrap();
    let known = keys.check::<ServiceClaims>(&token).await.unwrap_err();
    assert_eq!(known.as_str(), "future", "its signature is known");
    // Gone, the authority's keys stay.
    servers.shutdown().await;
    clock.step(std::time::Duration::from_secs(3_600));
    let known = keys.check::<ServiceClaims>(&token).await.unwrap_err();
    assert_eq!(known.as_str(), "future");
}
