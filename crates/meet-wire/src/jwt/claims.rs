//! Token claims.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The kind of a token, its `token_type`. A token of one kind is never accepted as another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Access of a member to one meeting.
    Meeting,
    /// Access of a guest to one meeting.
    Guest,
    /// A user, independent of any meeting.
    User,
    /// A service.
    Service,
}

/// The claims of one kind of token.
pub trait Claims: Serialize + DeserializeOwned {
    /// The kind of token that carries them.
    const KIND: Kind;

    /// The `token_type` in the token.
    fn kind(&self) -> Kind;

    /// Issue time, in seconds since the Unix epoch.
    fn iat(&self) -> u64;

    /// Expiry, in seconds since the Unix epoch.
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

/// The role of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Host of the meeting.
    Host,
    /// A participant with an account.
    Participant,
    /// A guest without an account.
    Guest,
}

/// The origin of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantType {
    /// A member of the meeting's organization.
    Member,
    /// A member of another organization.
    External,
    /// Not a member of any organization.
    Guest,
}

/// The type of a service.
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
    /// The label for tokens, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GlobalController => "global-controller",
            Self::MeetingController => "meeting-controller",
            Self::MediaHandler => "media-handler",
        }
    }
}

/// Access of a member to one meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeetingClaims {
    /// The user.
    pub sub: String,
    /// Always [`Kind::Meeting`].
    pub token_type: Kind,
    /// The meeting.
    pub meeting_id: String,
    /// The user's organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_org_id: Option<String>,
    /// The meeting's organization.
    #[serde(default)]
    pub meeting_org_id: String,
    /// The origin of the user.
    pub participant_type: ParticipantType,
    /// The role of the user.
    pub role: Role,
    /// Additional capabilities.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Issue time.
    pub iat: u64,
    /// Expiry.
    pub exp: u64,
    /// Token id.
    pub jti: String,
}

/// Access of a guest to one meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestClaims {
    /// The guest. Stable across renewals, so that a guest can resume.
    pub sub: String,
    /// Always [`Kind::Guest`].
    pub token_type: Kind,
    /// The meeting.
    pub meeting_id: String,
    /// Always [`ParticipantType::Guest`].
    pub participant_type: ParticipantType,
    /// Always [`Role::Guest`].
    pub role: Role,
    /// The display name of the guest.
    pub display_name: String,
    /// Whether the guest waits to be admitted.
    #[serde(default)]
    pub waiting_room: bool,
    /// Issue time.
    pub iat: u64,
    /// Expiry.
    pub exp: u64,
    /// Token id.
    pub jti: String,
}

/// A user, independent of any meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserClaims {
    /// The user.
    pub sub: String,
    /// Always [`Kind::User`].
    pub token_type: Kind,
    /// The user's organization.
    #[serde(default)]
    pub org_id: String,
    /// The user's email address.
    #[serde(default)]
    pub email: String,
    /// The user's roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Issue time.
    pub iat: u64,
    /// Expiry.
    pub exp: u64,
    /// Token id.
    pub jti: String,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServiceClaims {
    /// The client id.
    pub sub: String,
    /// Always [`Kind::Service`].
    pub token_type: Kind,
    /// The scopes, separated by spaces.
    pub scope: String,
    /// The type of the service.
    pub service_type: ServiceType,
    /// Issue time.
    pub iat: u64,
    /// Expiry.
    pub exp: u64,
    /// Token id.
    pub jti: String,
}

impl ServiceClaims {
    /// Whether the token has a scope.
    pub fn allows(&self, scope: &str) -> bool {
        self.scope.split(' ').any(|held| held == scope)
    }
}
