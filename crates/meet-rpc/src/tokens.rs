//! Where service tokens come from.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Clock, Tick};
use parking_lot::Mutex;

/// Why there is no token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoToken {
    /// The authority knows nobody of that name, or not with that secret, or not with that scope.
    #[error("the authority refuses the client's credentials: {0}")]
    Refused(String),
    /// The authority does not answer, or not as it should.
    #[error("the authority gives no token: {0}")]
    Unavailable(String),
}

/// A source of service tokens.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// A token that is good now.
    async fn bearer(&self) -> Result<String, NoToken>;
}

/// A token and when to stop using it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) token: String,
    /// From here on a new one is wanted.
    pub(crate) renew: Tick,
    /// From here on it is not used.
    pub(crate) end: Tick,
}

impl Kept {
    /// A token asked for at `sent`. A tenth of its life is given away.
    pub(crate) fn new(token: String, sent: Tick, life: Duration) -> Self {
        Self { token, renew: sent + life * 3 / 4, end: sent + life * 9 / 10 }
    }
}

type Mint = dyn Fn() -> Result<(String, Duration), NoToken> + Send + Sync;

/// Tokens made in this process, next to the authority. Each is used for three quarters of its life.
pub struct Minted {
    mint: Box<Mint>,
    clock: Arc<dyn Clock>,
    kept: Mutex<Option<Kept>>,
}

impl Minted {
    /// Tokens from a function that makes one and says how long it lives.
    pub fn new(
        clock: Arc<dyn Clock>,
        mint: impl Fn() -> Result<(String, Duration), NoToken> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { mint: Box::new(mint), clock, kept: Mutex::new(None) })
    }
}

#[async_trait]
impl Tokens for Minted {
    async fn bearer(&self) -> Result<String, NoToken> {
        let now = self.clock.now();
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.as_ref().filter(|kept| now < kept.renew) {
            return Ok(kept.token.clone());
        }
        let (token, life) = (self.mint)()?;
        *kept = Some(Kept::new(token.clone(), now, life));
        Ok(token)
    }
}
