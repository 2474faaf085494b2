//! Service tokens from an authority elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use lease::Clock;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::tokens::Kept;
use crate::web::Page;
use crate::{BadAddress, NoToken, Part, Tokens, limits};

/// Who asks the authority for tokens.
#[derive(Clone)]
pub struct Credentials {
    /// Which part it is, for the metrics.
    pub part: Part,
    /// The whole address, `…/oauth/token`.
    pub address: String,
    /// The client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
    /// Whether plain HTTP to another machine is allowed.
    pub insecure: bool,
}

/// Tokens from the authority by client credentials, renewed in the background long before they end. Dropping the last handle ends that.
pub struct Fetched {
    desk: Arc<Desk>,
    _renewing: JoinSet<()>,
}

struct Desk {
    credentials: Credentials,
    page: Page,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<Kept>,
    /// Why there is no newer one.
    trouble: Option<NoToken>,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: u64,
}

impl Fetched {
    /// Asks for the first token. Credentials that are refused end the start; an authority that cannot be reached is asked again in the
    /// background, and until it answers there is no token.
    pub async fn start(credentials: Credentials, clock: Arc<dyn Clock>) -> Result<Arc<Self>, StartError> {
        let page = Page::new(&credentials.address, credentials.insecure, clock.clone())?;
        let desk = Arc::new(Desk { credentials, page, clock, state: Mutex::default() });
        let (mut pause, longest) = limits::RETRY;
        for left in (0..limits::FIRST_TRIES).rev() {
            match desk.ask().await {
                Ok(()) => break,
                Err(refused @ NoToken::Refused(_)) => return Err(refused.into()),
                Err(NoToken::Unavailable(_)) if left > 0 => {
                    desk.pause(pause).await;
                    pause = (pause * 2).min(longest);
                }
                Err(NoToken::Unavailable(why)) => {
                    tracing::warn!(%why, "no service token yet; asking on in the background");
                }
            }
        }
        let mut renewing = JoinSet::new();
        renewing.spawn(keep_renewing(desk.clone()));
        Ok(Arc::new(Self { desk, _renewing: renewing }))
    }
}

/// Why there is no source of tokens.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The authority refused.
    #[error(transparent)]
    Refused(#[from] NoToken),
}

impl Desk {
    /// Asks once and keeps the answer. A token that is still good stays when there is none.
    async fn ask(&self) -> Result<(), NoToken> {
        let sent = self.clock.now();
        let asked = self.granted().await;
        let status = match &asked {
            Ok(_) => "success",
            Err(NoToken::Refused(_)) => "refused",
            Err(NoToken::Unavailable(_)) => "unavailable",
        };
        self.credentials.part.refreshed(status);
        let mut state = self.state.lock();
        match asked {
            Ok(granted) => {
                let life = Duration::from_secs(granted.expires_in);
                state.kept = Some(Kept::new(granted.access_token, sent, life));
                state.trouble = None;
                Ok(())
            }
            Err(why) => {
                state.trouble = Some(why.clone());
                Err(why)
            }
        }
    }

    async fn granted(&self) -> Result<Granted, NoToken> {
        let Credentials { client_id, client_secret, .. } = &self.credentials;
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", client_id.as_str()),
            ("client_secret", client_secret.as_str()),
        ];
        let (status, body) = self.page.post(&fields).await.map_err(NoToken::Unavailable)?;
        if matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(NoToken::Refused(status.to_string()));
        }
        if status != StatusCode::OK {
            return Err(NoToken::Unavailable(status.to_string()));
        }
        let granted: Option<Granted> = serde_json::from_slice(&body).ok();
        let good = |granted: &Granted| {
            let length = granted.access_token.len();
            granted.expires_in > 0 && (1..=meet_wire::limits::TOKEN).contains(&length)
        };
        granted.filter(good).ok_or_else(|| NoToken::Unavailable("an answer without a token".to_owned()))
    }

    async fn pause(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }
}

/// Renews for ever; after a failure soon, then less and less often.
async fn keep_renewing(desk: Arc<Desk>) {
    let (first, longest) = limits::RETRY;
    let mut pause = first;
    loop {
        let renew = desk.state.lock().kept.as_ref().map(|kept| kept.renew);
        match renew {
            Some(renew) if desk.clock.now() < renew => desk.clock.sleep_until(renew).await,
            _ => desk.pause(pause).await,
        }
        match desk.ask().await {
            Ok(()) => pause = first,
            Err(why) => {
                tracing::warn!(%why, "the service token could not be renewed");
                pause = (pause * 2).min(longest);
            }
        }
    }
}

#[async_trait]
impl Tokens for Fetched {
    async fn bearer(&self) -> Result<String, NoToken> {
        let now = self.desk.clock.now();
        let state = self.desk.state.lock();
        match state.kept.as_ref().filter(|kept| now < kept.end) {
            Some(kept) => Ok(kept.token.clone()),
            None => Err(state.trouble.clone().unwrap_or_else(|| {
                NoToken::Unavailable("the last one has ended and there is no newer one".to_owned())
            })),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("part", &self.part)
            .field("client_id", &self.client_id)
            .field("client_secret", &"hidden")
            .finish_non_exhaustive()
    }
}
