//! Sources of service tokens.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};

/// Why a token is not available.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// The authority rejected the client id, its secret or the scope.
    #[error("the authority rejected the client credentials: {0}")]
    Refused(String),
    /// The authority is unreachable, or its response is invalid.
    #[error("no token from the authority: {0}")]
    Unavailable(String),
}

/// A source of service tokens.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Returns a valid token.
    async fn bearer(&self) -> Result<String, TokenError>;
}

/// A token and its lifetime.
#[derive(Clone)]
pub(crate) struct CachedToken {
    pub(crate) token: String,
    /// When to renew it.
    pub(crate) renew: Tick,
    /// When to stop using it.
    pub(crate) end: Tick,
}

impl CachedToken {
    /// A token requested at `sent`. It is used for nine tenths of its lifetime.
    pub(crate) fn new(token: String, sent: Tick, life: Duration) -> Self {
        Self { token, renew: sent + life * 3 / 4, end: sent + life * 9 / 10 }
    }
}

type Mint = dyn Fn() -> Result<(String, Duration), TokenError> + Send + Sync;

/// Tokens minted in this process, next to the authority. Each one is used for three quarters of its lifetime.
pub struct MintedTokens {
    mint: Box<Mint>,
    clock: Arc<dyn Clock>,
    cached: Mutex<Option<CachedToken>>,
}

impl MintedTokens {
    /// Mints tokens with this function, which returns a token and its lifetime.
    pub fn new(
        clock: Arc<dyn Clock>,
        mint: impl Fn() -> Result<(String, Duration), TokenError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { mint: Box::new(mint), clock, cached: Mutex::new(None) })
    }
}

#[async_trait]
impl TokenSource for MintedTokens {
    async fn bearer(&self) -> Result<String, TokenError> {
        let now = self.clock.now();
        let mut cached = self.cached.lock();
        if let Some(cached) = cached.as_ref().filter(|cached| now < cached.renew) {
            return Ok(cached.token.clone());
        }
        let (token, life) = (self.mint)()?;
        *cached = Some(CachedToken::new(token.clone(), now, life));
        Ok(token)
    }
}
