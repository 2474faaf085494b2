//! Tokens from a remote authority, while it is reachable and while it is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use parking_lot::Mutex;
use tenure_lease::{Clock, Sleep, Tick, Wall};
use tenure_meet_rpc::{
    BadAddress, Credentials, FetchedTokens, MintedTokens, ServiceRole, StartError, TokenError, TokenSource,
    limits,
};
use tenure_store::TokioClock;
use tenure_testkit::wait;
use tokio::task::JoinSet;

use crate::harness::{Harness, SECRET, SOON, clock, serve};

fn asking(address: String) -> Credentials {
    let (client_id, client_secret) = ("mc".to_owned(), SECRET.to_owned());
    Credentials { role: ServiceRole::Mc, address, client_id, client_secret, insecure: false }
}

/// An authority with scripted responses.
#[derive(Clone, Default)]
struct Scripted {
    status: Arc<Mutex<StatusCode>>,
    given: Arc<AtomicU64>,
    life: u64,
}

impl Scripted {
    async fn open(life: u64, servers: &mut JoinSet<()>) -> (Self, String) {
        let scripted = Self { life, ..Self::default() };
        let state = scripted.clone();
        let router = axum::Router::new().route(
            "/oauth/token",
            post(move || async move {
                let status = *state.status.lock();
                if status != StatusCode::OK {
                    return status.into_response();
                }
                let given = state.given.fetch_add(1, Ordering::Relaxed) + 1;
                let token = format!("token-{given}");
                Json(serde_json::json!({"access_token": token, "expires_in": state.life})).into_response()
            }),
        );
        let address = format!("http://{}/oauth/token", serve(router, servers).await);
        (scripted, address)
    }

    fn say(&self, status: StatusCode) {
        *self.status.lock() = status;
    }
}

#[tokio::test]
async fn a_client_with_its_secret_gets_signed_tokens() {
    let harness = Harness::open().await;
    let mut servers = JoinSet::new();
    let address = serve(tenure_meet_ac::routes(harness.authority.clone()), &mut servers).await;
    let tokens =
        FetchedTokens::start(asking(format!("http://{address}/oauth/token")), clock()).await.unwrap();
    assert!(harness.call(tokens).await.unwrap().accepted);
}

#[tokio::test]
async fn wrong_credentials_fail_the_start() {
    let harness = Harness::open().await;
    let mut servers = JoinSet::new();
    let address = serve(tenure_meet_ac::routes(harness.authority.clone()), &mut servers).await;
    let mut wrong = asking(format!("http://{address}/oauth/token"));
    wrong.client_secret = "a wrong secret".to_owned();
    let shown = format!("{wrong:?}");
    assert!(!shown.contains("a wrong secret"), "{shown}");
    let error = FetchedTokens::start(wrong, clock()).await.err().unwrap();
    assert!(matches!(&error, StartError::Refused(TokenError::Refused(_))), "{error}");
    assert!(!error.to_string().contains("a wrong secret"), "{error}");
}

#[tokio::test]
async fn plain_http_to_another_host_fails_the_start() {
    let far = asking("http://ac.example.com/oauth/token".to_owned());
    let error = FetchedTokens::start(far, clock()).await.err().unwrap();
    assert!(matches!(error, StartError::Address(BadAddress::Insecure(_))), "{error}");
}

#[tokio::test]
async fn an_unavailable_authority_is_retried_until_it_responds() {
    let mut servers = JoinSet::new();
    let (authority, address) = Scripted::open(3_600, &mut servers).await;
    authority.say(StatusCode::SERVICE_UNAVAILABLE);
    let clock = Arc::new(Hasty::default());
    let tokens = FetchedTokens::start(asking(address), clock).await.unwrap();
    let none = tokens.bearer().await.unwrap_err();
    assert!(matches!(none, TokenError::Unavailable(_)), "{none}");
    authority.say(StatusCode::OK);
    let there = async || tokens.bearer().await.is_ok();
    wait::until_async("there is a token", SOON, there).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_authority_yields_no_token_and_no_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/oauth/token", listener.local_addr().unwrap());
    drop(listener);
    let tokens = FetchedTokens::start(asking(address), Arc::new(Hasty::default())).await.unwrap();
    assert!(matches!(tokens.bearer().await, Err(TokenError::Unavailable(_))));
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires_and_kept_when_renewal_fails() {
    let mut servers = JoinSet::new();
    let (authority, address) = Scripted::open(3_600, &mut servers).await;
    let clock = Arc::new(Hasty::default());
    let tokens = FetchedTokens::start(asking(address), clock.clone()).await.unwrap();
    assert_eq!(tokens.bearer().await.unwrap(), "token-1");
    clock.pass(2_600);
    assert_eq!(tokens.bearer().await.unwrap(), "token-1");
    clock.pass(200);
    let renewed = async || tokens.bearer().await.unwrap() != "token-1";
    wait::until_async("the token is renewed", SOON, renewed).await.unwrap();
    // While the authority is down, the token is used until a tenth of its lifetime is left.
    authority.say(StatusCode::INTERNAL_SERVER_ERROR);
    clock.pass(3_000);
    assert!(tokens.bearer().await.is_ok());
    clock.pass(300);
    assert!(tokens.bearer().await.is_err());
    authority.say(StatusCode::OK);
    let again = async || tokens.bearer().await.is_ok();
    wait::until_async("there is a token again", SOON, again).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_minted_token_is_used_for_three_quarters_of_its_lifetime() {
    let clock = Arc::new(TokioClock::default());
    let made = AtomicU64::new(0);
    let tokens = MintedTokens::new(clock.clone(), move || {
        Ok((made.fetch_add(1, Ordering::Relaxed).to_string(), Duration::from_secs(100)))
    });
    assert_eq!(tokens.bearer().await.unwrap(), "0");
    clock.step(Duration::from_secs(74));
    assert_eq!(tokens.bearer().await.unwrap(), "0");
    clock.step(Duration::from_secs(1));
    assert_eq!(tokens.bearer().await.unwrap(), "1");
}

/// A clock that the test advances. Retry pauses end at once; request deadlines use real time.
#[derive(Clone, Default)]
struct Hasty(Arc<AtomicU64>);

impl Hasty {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::Relaxed);
    }
}

impl Clock for Hasty {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Wall {
        clock().wall()
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        let (hasty, real) = (self.clone(), clock());
        let left = at.since(self.now());
        let moment = Duration::from_millis(5);
        Box::pin(async move {
            if left == limits::AUTHORITY {
                return real.sleep_until(real.now() + SOON).await;
            }
            if left <= limits::RETRY.1 {
                return real.sleep_until(real.now() + moment).await;
            }
            while !at.since(hasty.now()).is_zero() {
                real.sleep_until(real.now() + moment).await;
            }
        })
    }
}
