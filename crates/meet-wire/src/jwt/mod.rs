//! Identity: JWTs with EdDSA and no other algorithm.
//!
//! A token names its key (`kid`), is at most 8 KiB long and carries its issue time and its expiry. A check returns its claims or
//! a [`JwtError`], whose text is the same for every reason; the reason is for logs and metrics.

mod claims;
mod key;
mod request;
mod token;

pub use claims::{
    Claims, GuestClaims, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType, UserClaims,
};
pub use key::{Jwk, Jwks, KeySet, SigningKey};
pub use request::{GuestTokenRequest, MemberTokenRequest};
pub use token::{Checker, JwtError, sign};
