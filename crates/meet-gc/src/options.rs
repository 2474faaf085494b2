//! What a global controller is made of.

use std::sync::Arc;
use std::time::Duration;

use lease::{Entropy, Store};
use meet_rpc::{Keyring, Lines};

/// What a global controller is made of.
pub struct Options {
    /// Its name, for the controllers that it asks.
    pub id: String,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Where codes, ids and choices come from.
    pub entropy: Arc<dyn Entropy>,
    /// Who signs.
    pub signer: Arc<dyn Signer>,
    /// Who checks what was signed.
    pub keys: Keyring,
    /// The way to the controllers, with the tokens of a global controller.
    pub lines: Lines,
    /// What may be set.
    pub rules: Rules,
}

/// What may be set.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// What the link of a meeting begins with: `https://meet.example.com`. Empty, it is a path.
    pub public_url: String,
    /// The region whose controllers are taken first; empty, all are equal.
    pub region: String,
    /// Guests that an address may make at once.
    pub guest_burst: u32,
    /// And then one so often.
    pub guest_refill: Duration,
    /// Joins that a user may make at once: many seats may share one user.
    pub join_burst: u32,
    /// And then one so often.
    pub join_refill: Duration,
    /// A meeting in which nothing happened for so long is closed.
    pub inactive_after: Duration,
    /// A closed meeting is kept for so long.
    pub kept_for: Duration,
    /// How often meetings are looked through for that.
    pub sweep_every: Duration,
}

impl Default for Rules {
    /// An hour without activity, a week of keeping; 30 guests of an address at once and then one every two seconds, 1,000 joins of a user and
    /// then 100 a second.
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

/// Signs tokens: the authority, which is in the same process.
pub trait Signer: Send + Sync + 'static {
    /// A token for a member's seat.
    fn seat(&self, seat: &Seat) -> Result<Signed, NotSigned>;

    /// A token for a guest's seat.
    fn guest(&self, invitation: &Invitation) -> Result<Signed, NotSigned>;
}

/// A member's seat, to be signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The user.
    pub user: String,
    /// The meeting.
    pub meeting_id: String,
    /// The user's organisation.
    pub home_org_id: Option<String>,
    /// The meeting's organisation.
    pub meeting_org_id: String,
    /// Whether the user leads.
    pub host: bool,
}

/// A guest's seat, to be signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The meeting.
    pub meeting_id: String,
    /// The name that the guest gave.
    pub display_name: String,
    /// The guest's last token: good, or ended less than an hour ago, it stays the same guest.
    pub previous: Option<String>,
}

/// A token and how long it lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// The token.
    pub token: String,
    /// Its life.
    pub life: Duration,
}

/// Why there is no token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotSigned {
    /// No token may say that.
    #[error("{0}")]
    Invalid(String),
    /// Nothing can be signed now.
    #[error("no token can be signed: {0}")]
    Unavailable(String),
}
