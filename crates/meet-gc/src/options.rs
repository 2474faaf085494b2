//! Dependencies and settings of a global controller.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Entropy, Store};
use tenure_meet_rpc::{ChannelPool, Keyring};
use tenure_meet_wire::jwt::{GuestTokenRequest, MemberTokenRequest};

/// The dependencies of a global controller.
pub struct Options {
    /// Its id, as controllers see it.
    pub id: String,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The source of codes, ids and random choices.
    pub entropy: Arc<dyn Entropy>,
    /// Signs tokens.
    pub signer: Arc<dyn Signer>,
    /// Verifies tokens.
    pub keys: Keyring,
    /// Channels to the controllers, with the tokens of a global controller.
    pub channels: ChannelPool,
    /// The settings.
    pub rules: Rules,
}

/// The settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// Base URL of join links: `https://meet.example.com`. If empty, links are paths.
    pub public_url: String,
    /// The region whose controllers are preferred. If empty, all are equal.
    pub region: String,
    /// Burst of guest tokens per address.
    pub guest_burst: u32,
    /// Interval of further guest tokens.
    pub guest_refill: Duration,
    /// Burst of joins per user. Many participants may share one user.
    pub join_burst: u32,
    /// Interval of further joins.
    pub join_refill: Duration,
    /// Inactivity after which a meeting is closed.
    pub inactive_after: Duration,
    /// How long a closed meeting is kept.
    pub kept_for: Duration,
    /// Sweep interval.
    pub sweep_every: Duration,
}

impl Default for Rules {
    /// Closes meetings after an hour of inactivity and keeps them for a week. Allows 30 guests per address at once, then
    /// one every two seconds, and 1,000 joins per user at once, then 100 a second.
    fn default() -> Self {
        Self {
            public_url: String::new(),
            region: String::new(),
            guest_burst: 30,
            guest_refill: Duration::from_secs(2),
            join_burst: 1_000,
            join_refill: Duration::from_millis(10),
            inactive_after: Duration::from_secs(3_600),
            kept_for: Duration::from_secs(7 * 86_400),
            sweep_every: Duration::from_secs(3_600),
        }
    }
}

/// Signs tokens. Implemented by the authority in the same process.
pub trait Signer: Send + Sync + 'static {
    /// Signs a member token.
    fn sign_member(&self, request: &MemberTokenRequest) -> Result<Signed, NotSigned>;

    /// Signs a guest token.
    fn sign_guest(&self, request: &GuestTokenRequest) -> Result<Signed, NotSigned>;
}

/// A token and its lifetime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// The token.
    pub token: String,
    /// Its lifetime.
    pub life: Duration,
}

/// Why a token was not signed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotSigned {
    /// The claims are invalid.
    #[error("{0}")]
    Invalid(String),
    /// Signing is unavailable.
    #[error("cannot sign a token: {0}")]
    Unavailable(String),
}
