//! Who the parts are to each other: names, secrets, tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lease::{Clock, Entropy, Store};
use lease_keeper::OsEntropy;
use meet_ac::{Authority, Clients, Credentials, FolderVault, Seal, StoreVault, Vault};
use meet_rpc::{Fetched, Keyring, Minted, NoToken, Part, Tokens};
use meet_wire::binding::{MasterSecret, Secrets};
use meet_wire::jwt::ServiceType;

use super::keep::Kept;
use super::settings::Settings;
use super::{Plan, Role};
use crate::cli::{Failure, Result};

pub(super) const MC_CLIENT: &str = "meeting-controller";
pub(super) const MH_CLIENT: &str = "media-handler";
pub(super) const GC_CLIENT: &str = "global-controller";

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("meetings: {error}"))
}

/// The secrets of the parts that the authority knows.
#[derive(Clone)]
pub(super) struct ClientSecrets {
    pub(super) gc: String,
    pub(super) mc: String,
    pub(super) mh: String,
}

pub(super) fn fresh(bytes: usize) -> String {
    let mut secret = vec![0; bytes];
    OsEntropy.fill(&mut secret);
    URL_SAFE_NO_PAD.encode(secret)
}

impl ClientSecrets {
    /// From the settings; otherwise kept in the data directory, or made there.
    pub(super) fn read(plan: &Plan, data_dir: &std::path::Path) -> Result<Self> {
        let one = |given: &Option<String>, name: &'static str| match given {
            Some(secret) => Ok(secret.clone()),
            None => {
                let kept = Kept::new(data_dir, name).or_make(|| fresh(32).into_bytes())?;
                String::from_utf8(kept).map_err(failed)
            }
        };
        let secrets = &plan.settings.secrets;
        if !plan.role.has_gc() {
            // The authority is elsewhere, and only the own secret is known here.
            return Ok(Self { gc: String::new(), mc: String::new(), mh: String::new() });
        }
        Ok(Self {
            gc: fresh(32),
            mc: one(&secrets.mc_client, "meet-mc-client-secret")?,
            mh: one(&secrets.mh_client, "meet-mh-client-secret")?,
        })
    }

    fn clients(&self) -> Option<Clients> {
        let scopes = |parts: &[Part]| parts.iter().map(|part| part.scope()).collect::<Vec<_>>();
        let known = |client_id: &str, secret: &str| credentials(client_id, secret);
        Clients::default()
            .with(&known(GC_CLIENT, &self.gc), ServiceType::GlobalController, &scopes(&[Part::Mc]))?
            .with(
                &known(MC_CLIENT, &self.mc),
                ServiceType::MeetingController,
                &scopes(&[Part::Gc, Part::Mh]),
            )?
            .with(&known(MH_CLIENT, &self.mh), ServiceType::MediaHandler, &scopes(&[Part::Gc, Part::Mc]))
    }
}

fn credentials(client_id: &str, client_secret: &str) -> Credentials {
    Credentials { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() }
}

pub(super) async fn authority(
    plan: &Plan,
    service: &service::Settings,
    store: &Arc<dyn Store>,
    secrets: &ClientSecrets,
) -> Result<Arc<Authority>> {
    let vault = match (plan.shared, &service.seal_key) {
        (true, Some(key)) => {
            let seal = Seal::new(key.as_bytes()).map_err(|error| Failure::usage(error.to_string()))?;
            Vault::Store(StoreVault::new(store.clone(), seal))
        }
        _ => Vault::Folder(FolderVault::new(&service.data_dir)),
    };
    let clients = secrets.clients().ok_or_else(|| failed("too many clients of the authority"))?;
    let authority = Authority::open(vault, clients, store.clock(), Arc::new(OsEntropy)).await;
    authority.map(Arc::new).map_err(failed)
}

/// Tokens for a part in the process of the authority.
pub(super) fn minted(
    authority: &Arc<Authority>,
    client_id: &str,
    secret: &str,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Tokens> {
    let (authority, credentials) = (authority.clone(), credentials(client_id, secret));
    Minted::new(clock.clone(), move || {
        authority.service(&credentials, None).map_err(|error| NoToken::Unavailable(error.to_string()))
    })
}

pub(super) async fn fetched(
    part: Part,
    settings: &Settings,
    insecure: bool,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Tokens>> {
    let endpoint = settings.ac_endpoint.clone().unwrap_or_default();
    let address = if endpoint.contains("/oauth/") {
        endpoint
    } else {
        format!("{}/oauth/token", endpoint.trim_end_matches('/'))
    };
    let credentials = meet_rpc::Credentials {
        part,
        address,
        client_id: settings.client_id.clone().unwrap_or_default(),
        client_secret: settings.secrets.client.clone().unwrap_or_default(),
        insecure,
    };
    let tokens: Arc<dyn Tokens> = Fetched::start(credentials, clock.clone()).await.map_err(failed)?;
    Ok(tokens)
}

/// The keys that tokens are checked with.
pub(super) fn published(settings: &Settings, insecure: bool, clock: &Arc<dyn Clock>) -> Result<Keyring> {
    let base = settings.ac_endpoint.clone().unwrap_or_default();
    let base = base.trim_end_matches("/oauth/token").trim_end_matches('/').to_owned();
    let address = settings.ac_jwks_url.clone().unwrap_or_else(|| format!("{base}/.well-known/jwks.json"));
    Keyring::published(&address, insecure, clock.clone()).map_err(failed)
}

/// The secrets of bindings.
pub(super) fn binding(plan: &Plan, data_dir: &std::path::Path) -> Result<Secrets> {
    let decode = |name: &str, text: &str| {
        let raw =
            STANDARD.decode(text.trim()).map_err(|_| Failure::usage(format!("{name} is not base64")))?;
        MasterSecret::new(raw).map_err(|error| Failure::usage(format!("{name}: {error}")))
    };
    let given = &plan.settings.secrets;
    let current = match &given.binding {
        Some(text) => decode("MC_BINDING_TOKEN_SECRET", text)?,
        None => {
            let make = || {
                let mut secret = [0; 48];
                OsEntropy.fill(&mut secret);
                STANDARD.encode(secret).into_bytes()
            };
            let kept = Kept::new(data_dir, "meet-binding-secret").or_make(make)?;
            decode("meet-binding-secret", &String::from_utf8_lossy(&kept))?
        }
    };
    match &given.binding_previous {
        Some(text) => Ok(Secrets::rotated(current, decode("MC_BINDING_TOKEN_SECRET_PREVIOUS", text)?)),
        None => Ok(Secrets::new(current)),
    }
}

/// A name for a node that no other has.
pub(super) fn name(part: Part, settings: &Settings, role: Role) -> String {
    let word = if part == Part::Mc { "mc" } else { "mh" };
    match &settings.id {
        Some(id) if role == Role::All && part == Part::Mh => format!("{id}-mh"),
        Some(id) => id.clone(),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
            let host: String = host.chars().map(plain).take(40).collect();
            let mut bytes = [0; 4];
            OsEntropy.fill(&mut bytes);
            format!("{word}-{host}-{:08x}", u32::from_be_bytes(bytes))
        }
    }
}

/// The authority as the global controller knows it.
pub(super) struct Signs(pub(super) Arc<Authority>);

fn not_signed(error: meet_ac::Error) -> meet_gc::NotSigned {
    match error {
        meet_ac::Error::Invalid(why) => meet_gc::NotSigned::Invalid(why.to_owned()),
        other => meet_gc::NotSigned::Unavailable(other.to_string()),
    }
}

impl meet_gc::Signer for Signs {
    fn seat(&self, seat: &meet_gc::Seat) -> std::result::Result<meet_gc::Signed, meet_gc::NotSigned> {
        let seat = meet_ac::Seat {
            user: seat.user.clone(),
            meeting_id: seat.meeting_id.clone(),
            home_org_id: seat.home_org_id.clone(),
            meeting_org_id: seat.meeting_org_id.clone(),
            host: seat.host,
        };
        let token = self.0.seat(&seat).map_err(not_signed)?;
        Ok(meet_gc::Signed { token, life: meet_ac::limits::MEETING })
    }

    fn guest(
        &self,
        invitation: &meet_gc::Invitation,
    ) -> std::result::Result<meet_gc::Signed, meet_gc::NotSigned> {
        let invitation = meet_ac::Invitation {
            meeting_id: invitation.meeting_id.clone(),
            display_name: invitation.display_name.clone(),
            previous: invitation.previous.clone(),
        };
        let token = self.0.guest(&invitation).map_err(not_signed)?;
        Ok(meet_gc::Signed { token, life: meet_ac::limits::MEETING })
    }
}
