//! The token authority of a run: one key, known to all.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use tenure_lease::{Clock, Wall};
use tenure_meet_gc::{NotSigned, Signed, Signer};
use tenure_meet_rpc::{Keyring, ServiceRole, TokenError, TokenSource};
use tenure_meet_wire::jwt::{
    Checker, GuestTokenRequest, Jwks, KeySet, Kind, MeetingClaims, MemberTokenRequest, ParticipantType, Role,
    ServiceClaims, SigningKey, UserClaims, sign,
};

/// Longer than any run.
const LIFE: Duration = Duration::from_secs(3_600);

/// The key that signs all tokens. Every run has the same: a key costs more than a run.
static KEY: LazyLock<Option<SigningKey>> = LazyLock::new(|| SigningKey::from_seed(&[7; 32]));

fn seconds(wall: Wall) -> (u64, u64) {
    let now = wall.as_micros() / 1_000_000;
    (now, now + LIFE.as_secs())
}

fn key() -> Result<&'static SigningKey, String> {
    KEY.as_ref().ok_or_else(|| "no signing key".to_owned())
}

/// Verifies the tokens of this run on a host's clock.
pub(super) fn keyring(clock: Arc<dyn Clock>) -> Keyring {
    Keyring::local(clock, || {
        let keys = KEY.iter().map(SigningKey::public).collect();
        Checker::new(KeySet::from(&Jwks { keys }))
    })
}

/// The token of a user.
pub(super) fn user(user: &str, wall: Wall) -> Result<String, String> {
    let (iat, exp) = seconds(wall);
    let claims = UserClaims {
        sub: user.to_owned(),
        token_type: Kind::User,
        org_id: String::new(),
        email: String::new(),
        roles: Vec::new(),
        iat,
        exp,
        jti: "j".to_owned(),
    };
    sign(key()?, &claims).map_err(|error| error.to_string())
}

/// The service tokens of a role. Signed once: what a token says does not change within a run.
pub(super) struct ServiceTokens(Result<String, String>);

impl ServiceTokens {
    pub(super) fn new(role: ServiceRole, wall: Wall) -> Arc<Self> {
        let (iat, exp) = seconds(wall);
        let scope = [ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh].map(ServiceRole::scope).join(" ");
        let claims = ServiceClaims {
            sub: "sim".to_owned(),
            token_type: Kind::Service,
            scope,
            service_type: role.service_type(),
            iat,
            exp,
            jti: "j".to_owned(),
        };
        let signed = key().and_then(|key| sign(key, &claims).map_err(|error| error.to_string()));
        Arc::new(Self(signed))
    }
}

#[async_trait]
impl TokenSource for ServiceTokens {
    async fn bearer(&self) -> Result<String, TokenError> {
        self.0.clone().map_err(TokenError::Unavailable)
    }
}

/// Signs the tokens of members for the global controller.
pub(super) struct MeetingSigner(pub(super) Arc<dyn Clock>);

impl Signer for MeetingSigner {
    fn sign_member(&self, request: &MemberTokenRequest) -> Result<Signed, NotSigned> {
        let (iat, exp) = seconds(self.0.wall());
        let claims = MeetingClaims {
            sub: request.user.clone(),
            token_type: Kind::Meeting,
            meeting_id: request.meeting_id.clone(),
            home_org_id: None,
            meeting_org_id: String::new(),
            participant_type: ParticipantType::Member,
            role: if request.host { Role::Host } else { Role::Participant },
            capabilities: Vec::new(),
            iat,
            exp,
            jti: "j".to_owned(),
        };
        let signed = key().and_then(|key| sign(key, &claims).map_err(|error| error.to_string()));
        signed.map(|token| Signed { token, life: LIFE }).map_err(NotSigned::Unavailable)
    }

    fn sign_guest(&self, _request: &GuestTokenRequest) -> Result<Signed, NotSigned> {
        Err(NotSigned::Invalid("there are no guests in this run".to_owned()))
    }
}
