//! The keys that tokens are checked with.

use std::sync::Arc;

use http::StatusCode;
use lease::{Clock, Tick};
use meet_wire::jwt::{Checker, Claims, Jwks, JwtError, KeySet};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::web::Page;
use crate::{BadAddress, limits};

/// Checks tokens with the keys of the authority, wherever that is. Cloning it shares the keys.
#[derive(Clone)]
pub struct Keyring {
    keys: Keys,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
enum Keys {
    Here(Arc<dyn Fn() -> Checker + Send + Sync>),
    Published(Arc<Published>),
}

/// What an authority elsewhere publishes.
struct Published {
    page: Page,
    checker: RwLock<Option<Checker>>,
    /// When it was asked, and when it answered; held while it is asked, so that one asks for all.
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    tried: Option<Tick>,
    answered: Option<Tick>,
}

impl Keyring {
    /// The keys of an authority in this process.
    pub fn here(clock: Arc<dyn Clock>, checker: impl Fn() -> Checker + Send + Sync + 'static) -> Self {
        Self { keys: Keys::Here(Arc::new(checker)), clock }
    }

    /// The keys that an authority publishes at this address (`…/.well-known/jwks.json`). They are kept for five minutes, and longer when
    /// it cannot be reached: a key is published for a week after it signed last.
    pub fn published(address: &str, insecure: bool, clock: Arc<dyn Clock>) -> Result<Self, BadAddress> {
        let page = Page::new(address, insecure, clock.clone())?;
        let published = Published { page, checker: RwLock::new(None), asked: Mutex::default() };
        Ok(Self { keys: Keys::Published(Arc::new(published)), clock })
    }

    /// The claims of a good token.
    pub async fn check<C: Claims>(&self, token: &str) -> Result<C, JwtError> {
        let wall = self.clock.wall();
        let published = match &self.keys {
            Keys::Here(checker) => return checker().check(token, wall),
            Keys::Published(published) => published,
        };
        if token.len() > meet_wire::limits::TOKEN {
            return Err(JwtError::TooLong);
        }
        published.refresh(&*self.clock, limits::KEYS).await;
        match published.check(token, wall) {
            Err(JwtError::UnknownKey) => {
                published.refresh(&*self.clock, limits::ASK_AGAIN).await;
                published.check(token, wall)
            }
            checked => checked,
        }
    }
}

impl Published {
    fn check<C: Claims>(&self, token: &str, wall: lease::Wall) -> Result<C, JwtError> {
        match &*self.checker.read() {
            Some(checker) => checker.check(token, wall),
            None => Err(JwtError::UnknownKey),
        }
    }

    /// Asks for the keys unless they are younger than `age`, or were asked for just now.
    async fn refresh(&self, clock: &dyn Clock, age: std::time::Duration) {
        let fresh = |at: Option<Tick>, age| at.is_some_and(|at| clock.now().since(at) < age);
        let mut asked = match self.asked.try_lock() {
            Ok(asked) => asked,
            // Somebody asks right now; who has keys goes on with them.
            Err(_) if self.checker.read().is_some() => return,
            Err(_) => self.asked.lock().await,
        };
        if fresh(asked.answered, age) || fresh(asked.tried, limits::ASK_AGAIN) {
            return;
        }
        asked.tried = Some(clock.now());
        match self.page.get().await {
            Ok((StatusCode::OK, body)) => match Jwks::parse(&body) {
                Some(set) => {
                    *self.checker.write() = Some(Checker::new(KeySet::from(&set)));
                    asked.answered = asked.tried;
                }
                None => tracing::warn!("the published keys cannot be read; the old ones stay"),
            },
            Ok((status, _)) => tracing::warn!(%status, "the published keys cannot be had; the old ones stay"),
            Err(why) => tracing::warn!(%why, "the published keys cannot be had; the old ones stay"),
        }
    }
}
