//! The authority of meetings: signs tokens and publishes its keys.
//!
//! - [`Keys`] are the signing keys: one signs, the others are published before or after their turn. Rotation depends on time alone
//!   ([`Keys::turned`]). A [`Vault`] stores them: a directory that only its owner can access, or a shared store with sealed records.
//! - The [`Authority`] holds both, rotates the keys and issues tokens for services, users, guests and members.
//! - [`routes`] publishes the key set and issues service tokens for client credentials.

mod authority;
mod clients;
mod http;
mod keys;
mod seal;
mod vault;

pub use authority::{Authority, Error};
pub use clients::{Client, Clients, Credentials};
pub use http::routes;
pub use keys::Keys;
pub use seal::{Seal, WeakSeal};
pub use vault::{DirectoryVault, StoreVault, Vault};

/// Limits and lifetimes.
pub mod limits {
    use std::time::Duration;

    /// How long a key signs.
    pub const SIGNS: Duration = Duration::from_secs(7 * 86_400);
    /// How long a key stays published after that. Longer than any token is valid.
    pub const OVERLAP: Duration = Duration::from_secs(7 * 86_400);
    /// How long a key is published before it signs. Longer than verifiers cache the set.
    pub const LEAD: Duration = Duration::from_secs(600);
    /// How long verifiers may cache the set.
    pub const CACHE: Duration = Duration::from_secs(300);
    /// Lifetime of a service token.
    pub const SERVICE: Duration = Duration::from_secs(3_600);
    /// Lifetime of a user token.
    pub const USER: Duration = Duration::from_secs(3_600);
    /// Lifetime of a meeting or guest token.
    pub const MEETING: Duration = Duration::from_secs(900);
    /// How long an expired guest token still identifies the guest.
    pub const GUEST_RENEWAL: Duration = Duration::from_secs(3_600);
    /// Maximum size of the stored keys.
    pub const KEPT: u64 = 64 * 1024;
    /// Minimum length of the sealing secret, in bytes.
    pub const SEAL: usize = 32;
    /// Maximum body of a token request.
    pub const BODY: usize = 4 * 1024;
    /// Bounds of a guest name, in bytes.
    pub const GUEST_NAME: (usize, usize) = (2, 100);
    /// Maximum clients.
    pub const CLIENTS: usize = 1_024;
    /// Interval at which the keys are refreshed.
    pub const LOOK: Duration = Duration::from_secs(60);
}
