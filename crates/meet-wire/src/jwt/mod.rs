//! Who somebody is: JWTs with EdDSA and nothing else.
//!
//! A token names its key (`kid`), is at most 8 KiB long and says when it was made and when it ends. Whoever checks one gets either its
//! claims or a [`JwtError`], whose text is the same for every reason; the reason is for logs and metrics.

mod claims;
mod key;
mod token;

pub use claims::{
    Claims, GuestClaims, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType, UserClaims,
};
pub use key::{Jwk, Jwks, KeySet, SigningKey};
pub use token::{Checker, JwtError, sign};
