//! The public keys that verify tokens.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::RwLock;
use tenure_lease::{Clock, Tick};
use tenure_meet_wire::jwt::{Checker, Claims, Jwks, JwtError, KeySet};
use tokio::sync::Mutex;

use crate::web::AuthorityEndpoint;
use crate::{BadAddress, limits};

/// Verifies tokens with the keys of the authority, local or remote. Clones share the keys.
#[derive(Clone)]
pub struct Keyring {
    keys: Keys,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
enum Keys {
    Local(Arc<dyn Fn() -> Checker + Send + Sync>),
    Published(Arc<PublishedKeys>),
}

/// The keys that a remote authority publishes.
struct PublishedKeys {
    endpoint: AuthorityEndpoint,
    checker: RwLock<Option<Checker>>,
    /// When the last request started and when it succeeded. Locked during a request, so that concurrent callers share it.
    last_request: Mutex<LastRequest>,
}

#[derive(Default)]
struct LastRequest {
    tried: Option<Tick>,
    answered: Option<Tick>,
}

impl Keyring {
    /// Uses the keys of an authority in this process.
    pub fn local(clock: Arc<dyn Clock>, checker: impl Fn() -> Checker + Send + Sync + 'static) -> Self {
        Self { keys: Keys::Local(Arc::new(checker)), clock }
    }

    /// Uses the keys that an authority publishes at this URL (`…/.well-known/jwks.json`). They are cached for five minutes, and longer
    /// while the authority is unreachable: a key stays published for a week after its last signature.
    pub fn published(address: &str, insecure: bool, clock: Arc<dyn Clock>) -> Result<Self, BadAddress> {
        let endpoint = AuthorityEndpoint::new(address, insecure, clock.clone())?;
        let published =
            PublishedKeys { endpoint, checker: RwLock::new(None), last_request: Mutex::default() };
        Ok(Self { keys: Keys::Published(Arc::new(published)), clock })
    }

    /// Verifies a token and returns its claims.
    pub async fn check<C: Claims>(&self, token: &str) -> Result<C, JwtError> {
        let wall = self.clock.wall();
        let published = match &self.keys {
            Keys::Local(checker) => return checker().check(token, wall),
            Keys::Published(published) => published,
        };
        if token.len() > tenure_meet_wire::limits::TOKEN {
            return Err(JwtError::TooLong);
        }
        published.refresh(&*self.clock, limits::KEYS).await;
        match published.check(token, wall) {
            Err(JwtError::UnknownKey) => {
                published.refresh(&*self.clock, limits::KEY_RETRY).await;
                published.check(token, wall)
            }
            checked => checked,
        }
    }
}

impl PublishedKeys {
    fn check<C: Claims>(&self, token: &str, wall: tenure_lease::Wall) -> Result<C, JwtError> {
        match &*self.checker.read() {
            Some(checker) => checker.check(token, wall),
            None => Err(JwtError::UnknownKey),
        }
    }

    /// Fetches the keys unless they are younger than `age` or a request was made recently.
    async fn refresh(&self, clock: &dyn Clock, age: std::time::Duration) {
        let fresh = |at: Option<Tick>, age| at.is_some_and(|at| clock.now().since(at) < age);
        let mut last_request = match self.last_request.try_lock() {
            Ok(last_request) => last_request,
            // A request is in flight. Callers that have keys continue with them.
            Err(_) if self.checker.read().is_some() => return,
            Err(_) => self.last_request.lock().await,
        };
        if fresh(last_request.answered, age) || fresh(last_request.tried, limits::KEY_RETRY) {
            return;
        }
        last_request.tried = Some(clock.now());
        match self.endpoint.get().await {
            Ok((StatusCode::OK, body)) => match Jwks::parse(&body) {
                Some(set) => {
                    *self.checker.write() = Some(Checker::new(KeySet::from(&set)));
                    last_request.answered = last_request.tried;
                }
                None => tracing::warn!("published keys malformed; keeping the cached ones"),
            },
            Ok((status, _)) => {
                tracing::warn!(%status, "cannot fetch published keys; keeping the cached ones")
            }
            Err(why) => tracing::warn!(%why, "cannot fetch published keys; keeping the cached ones"),
        }
    }
}
