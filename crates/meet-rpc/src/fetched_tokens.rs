//! Service tokens fetched from a remote authority.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use tenure_lease::Clock;
use tokio::task::JoinSet;

use crate::tokens::CachedToken;
use crate::web::AuthorityEndpoint;
use crate::{BadAddress, ServiceRole, TokenError, TokenSource, limits};

/// Client credentials for the authority.
#[derive(Clone)]
pub struct Credentials {
    /// The role of this client, for metrics.
    pub role: ServiceRole,
    /// The URL of the token endpoint, `…/oauth/token`.
    pub address: String,
    /// The client id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: String,
    /// Whether to allow plain HTTP to another host.
    pub insecure: bool,
}

/// Tokens fetched with client credentials and renewed in the background before they expire. Dropping the last handle stops the renewal.
pub struct FetchedTokens {
    fetcher: Arc<TokenFetcher>,
    _renewing: JoinSet<()>,
}

struct TokenFetcher {
    credentials: Credentials,
    endpoint: AuthorityEndpoint,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cached: Option<CachedToken>,
    /// Why the last renewal failed.
    last_error: Option<TokenError>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: u64,
}

impl FetchedTokens {
    /// Fetches the first token. Rejected credentials fail the start. If the authority is unreachable, the source retries in the
    /// background and has no token until a retry succeeds.
    pub async fn start(credentials: Credentials, clock: Arc<dyn Clock>) -> Result<Arc<Self>, StartError> {
        let endpoint = AuthorityEndpoint::new(&credentials.address, credentials.insecure, clock.clone())?;
        let fetcher = Arc::new(TokenFetcher { credentials, endpoint, clock, state: Mutex::default() });
        let (mut pause, longest) = limits::RETRY;
        for left in (0..limits::START_ATTEMPTS).rev() {
            match fetcher.fetch().await {
                Ok(()) => break,
                Err(refused @ TokenError::Refused(_)) => return Err(refused.into()),
                Err(TokenError::Unavailable(_)) if left > 0 => {
                    fetcher.pause(pause).await;
                    pause = (pause * 2).min(longest);
                }
                Err(TokenError::Unavailable(why)) => {
                    tracing::warn!(%why, "no service token yet; retrying in the background");
                }
            }
        }
        let mut renewing = JoinSet::new();
        renewing.spawn(keep_renewing(fetcher.clone()));
        Ok(Arc::new(Self { fetcher, _renewing: renewing }))
    }
}

/// Why a token source could not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartError {
    /// The URL cannot be used.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The authority rejected the credentials.
    #[error(transparent)]
    Refused(#[from] TokenError),
}

impl TokenFetcher {
    /// Fetches a token once. If that fails, a token that is still valid stays in use.
    async fn fetch(&self) -> Result<(), TokenError> {
        let sent = self.clock.now();
        let result = self.request_token().await;
        let status = match &result {
            Ok(_) => "success",
            Err(TokenError::Refused(_)) => "refused",
            Err(TokenError::Unavailable(_)) => "unavailable",
        };
        self.credentials.role.refreshed(status);
        let mut state = self.state.lock();
        match result {
            Ok(granted) => {
                let life = Duration::from_secs(granted.expires_in);
                state.cached = Some(CachedToken::new(granted.access_token, sent, life));
                state.last_error = None;
                Ok(())
            }
            Err(why) => {
                state.last_error = Some(why.clone());
                Err(why)
            }
        }
    }

    async fn request_token(&self) -> Result<TokenResponse, TokenError> {
        let Credentials { client_id, client_secret, .. } = &self.credentials;
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", client_id.as_str()),
            ("client_secret", client_secret.as_str()),
        ];
        let (status, body) = self.endpoint.post(&fields).await.map_err(TokenError::Unavailable)?;
        if matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(TokenError::Refused(status.to_string()));
        }
        if status != StatusCode::OK {
            return Err(TokenError::Unavailable(status.to_string()));
        }
        let granted: Option<TokenResponse> = serde_json::from_slice(&body).ok();
        let good = |granted: &TokenResponse| {
            let length = granted.access_token.len();
            granted.expires_in > 0 && (1..=tenure_meet_wire::limits::TOKEN).contains(&length)
        };
        granted.filter(good).ok_or_else(|| TokenError::Unavailable("response without a token".to_owned()))
    }

    async fn pause(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }
}

/// Renews the token until cancelled, with backoff after failures.
async fn keep_renewing(fetcher: Arc<TokenFetcher>) {
    let (first, longest) = limits::RETRY;
    let mut pause = first;
    loop {
        let renew = fetcher.state.lock().cached.as_ref().map(|cached| cached.renew);
        match renew {
            Some(renew) if fetcher.clock.now() < renew => fetcher.clock.sleep_until(renew).await,
            _ => fetcher.pause(pause).await,
        }
        match fetcher.fetch().await {
            Ok(()) => pause = first,
            Err(why) => {
                tracing::warn!(%why, "service token renewal failed");
                pause = (pause * 2).min(longest);
            }
        }
    }
}

#[async_trait]
impl TokenSource for FetchedTokens {
    async fn bearer(&self) -> Result<String, TokenError> {
        let now = self.fetcher.clock.now();
        let state = self.fetcher.state.lock();
        match state.cached.as_ref().filter(|cached| now < cached.end) {
            Some(cached) => Ok(cached.token.clone()),
            None => Err(state
                .last_error
                .clone()
                .unwrap_or_else(|| TokenError::Unavailable("token expired and not renewed yet".to_owned()))),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("role", &self.role)
            .field("client_id", &self.client_id)
            .field("client_secret", &"hidden")
            .finish_non_exhaustive()
    }
}
