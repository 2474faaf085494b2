//! The authority of meetings: who signs, and what is signed.
//!
//! - [`Keys`] are the signing keys: one signs, the others are still or already published. They turn by time alone ([`Keys::turned`]).
//! - A [`Vault`] keeps them: a folder that only its owner can touch, or a shared store in which they are sealed.
//! - The [`Authority`] holds both, turns the keys when it is time and makes tokens for services, users, guests and seats.
//! - [`routes`] publish the key set and give service tokens for client credentials.

mod authority;
mod clients;
mod http;
mod keys;
mod seal;
mod vault;

pub use authority::{Authority, Error, Invitation, Seat};
pub use clients::{Client, Clients, Credentials};
pub use http::routes;
pub use keys::Keys;
pub use seal::{Seal, WeakSeal};
pub use vault::{FolderVault, StoreVault, Vault};

/// Bounds and lives, by name.
pub mod limits {
    use std::time::Duration;

    /// How long a key signs.
    pub const SIGNS: Duration = Duration::from_secs(7 * 86_400);
    /// How long it is published after that: longer than any token lives.
    pub const OVERLAP: Duration = Duration::from_secs(7 * 86_400);
    /// How long it is published before it signs: longer than anybody keeps the set without asking again.
    pub const LEAD: Duration = Duration::from_secs(600);
    /// How long the set may be kept without asking again.
    pub const CACHE: Duration = Duration::from_secs(300);
    /// The life of a service token.
    pub const SERVICE: Duration = Duration::from_secs(3_600);
    /// The life of a user token.
    pub const USER: Duration = Duration::from_secs(3_600);
    /// The life of a meeting or guest token.
    pub const MEETING: Duration = Duration::from_secs(900);
    /// How long after its end a guest token still shows who asks for the next one.
    pub const GUEST_RENEWAL: Duration = Duration::from_secs(3_600);
    /// The longest file or record of keys.
    pub const KEPT: u64 = 64 * 1024;
    /// The shortest key that seals, in bytes.
    pub const SEAL: usize = 32;
    /// The longest body of a request for a token.
    pub const BODY: usize = 4 * 1024;
    /// The shortest and the longest name of a guest, in bytes.
    pub const GUEST_NAME: (usize, usize) = (2, 100);
    /// Most clients.
    pub const CLIENTS: usize = 1_024;
    /// How often the keys are looked at again.
    pub const LOOK: Duration = Duration::from_secs(60);
}
