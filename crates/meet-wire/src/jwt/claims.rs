//! What tokens say.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The kind of a token, its `token_type`. One kind is never taken for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A member's seat in one meeting.
    Meeting,
    /// A guest's seat in one meeting.
    Guest,
    /// A person, before any meeting.
    User,
    /// A part of the service.
    Service,
}

/// Claims that a token can carry.
pub trait Claims: Serialize + DeserializeOwned {
    /// The kind of token that carries them.
    const KIND: Kind;

    /// What the token says its kind is.
    fn kind(&self) -> Kind;

    /// When it was made, in seconds since 1970.
    fn iat(&self) -> u64;

    /// When it ends, in seconds since 1970.
    fn exp(&self) -> u64;
}

macro_rules! claims {
    ($type:ident, $kind:ident) => {
        impl Claims for $type {
            const KIND: Kind = Kind::$kind;

            fn kind(&self) -> Kind {
                self.token_type
            }

            fn iat(&self) -> u64 {
                self.iat
            }

            fn exp(&self) -> u64 {
                self.exp
            }
        }
    };
}

claims!(MeetingClaims, Meeting);
claims!(GuestClaims, Guest);
claims!(UserClaims, User);
claims!(ServiceClaims, Service);

/// What a participant may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Leads the meeting.
    Host,
    /// Takes part.
    Participant,
    /// Takes part without an account.
    Guest,
}

/// Where a participant comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantType {
    /// Of the organisation that the meeting belongs to.
    Member,
    /// Of another one.
    External,
    /// Of none.
    Guest,
}

/// Which part of the service somebody is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceType {
    /// GC.
    GlobalController,
    /// MC.
    MeetingController,
    /// MH.
    MediaHandler,
}

impl ServiceType {
    /// The word for tokens, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GlobalController => "global-controller",
            Self::MeetingController => "meeting-controller",
            Self::MediaHandler => "media-handler",
        }
    }
}

/// A member's seat in one meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeetingClaims {
    /// The user.
    pub sub: String,
    /// Always [`Kind::Meeting`].
    pub token_type: Kind,
    /// The meeting.
    pub meeting_id: String,
    /// The user's organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_org_id: Option<String>,
    /// The meeting's organisation.
    #[serde(default)]
    pub meeting_org_id: String,
    /// Where the user comes from.
    pub participant_type: ParticipantType,
    /// What the user may do.
    pub role: Role,
    /// What else the user may do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// When it was made.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// Its own id.
    pub jti: String,
}

/// A guest's seat in one meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestClaims {
    /// The guest; kept over renewals so that a guest can come back to its seat.
    pub sub: String,
    /// Always [`Kind::Guest`].
    pub token_type: Kind,
    /// The meeting.
    pub meeting_id: String,
    /// Always [`ParticipantType::Guest`].
    pub participant_type: ParticipantType,
    /// Always [`Role::Guest`].
    pub role: Role,
    /// The name that the guest gave.
    pub display_name: String,
    /// Whether the guest waits to be let in.
    #[serde(default)]
    pub waiting_room: bool,
    /// When it was made.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// Its own id.
    pub jti: String,
}

/// A person, before any meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserClaims {
    /// The user.
    pub sub: String,
    /// Always [`Kind::User`].
    pub token_type: Kind,
    /// The user's organisation.
    #[serde(default)]
    pub org_id: String,
    /// Where to write to the user.
    #[serde(default)]
    pub email: String,
    /// What the user may do.
    #[serde(default)]
    pub roles: Vec<String>,
    /// When it was made.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// Its own id.
    pub jti: String,
}

/// A part of the service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceClaims {
    /// The client id.
    pub sub: String,
    /// Always [`Kind::Service`].
    pub token_type: Kind,
    /// The scopes, with spaces between them.
    pub scope: String,
    /// Which part it is.
    pub service_type: ServiceType,
    /// When it was made.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// Its own id.
    pub jti: String,
}

impl ServiceClaims {
    /// Whether the token has a scope.
    pub fn allows(&self, scope: &str) -> bool {
        self.scope.split(' ').any(|held| held == scope)
    }
}
