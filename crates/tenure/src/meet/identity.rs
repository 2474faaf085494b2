//! Identities of the parts: ids, secrets, tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Entropy, Store};
use tenure_meet_ac::{Authority, Clients, Credentials, DirectoryVault, Seal, StoreVault, Vault};
use tenure_meet_rpc::{FetchedTokens, Keyring, MintedTokens, ServiceRole, TokenError, TokenSource};
use tenure_meet_wire::binding::{MasterSecret, Secrets};
use tenure_meet_wire::jwt::{GuestTokenRequest, MemberTokenRequest, ServiceType};

use super::secret_file::SecretFile;
use super::settings::Settings;
use super::{Plan, Role};
use crate::cli::{Failure, Result};

pub(super) const MC_CLIENT: &str = "meeting-controller";
pub(super) const MH_CLIENT: &str = "media-handler";
pub(super) const GC_CLIENT: &str = "global-controller";

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("meetings: {error}"))
}

/// Client secrets of the parts, known to the authority.
#[derive(Clone)]
pub(super) struct ClientSecrets {
    pub(super) gc: String,
    pub(super) mc: String,
    pub(super) mh: String,
}

pub(super) fn random_secret(bytes: usize) -> String {
    let mut secret = vec![0; bytes];
    OsEntropy.fill(&mut secret);
    URL_SAFE_NO_PAD.encode(secret)
}

impl ClientSecrets {
    /// From the settings, or from the data directory, where they are created if missing.
    pub(super) fn load(plan: &Plan, data_dir: &std::path::Path) -> Result<Self> {
        let one = |given: &Option<String>, name: &'static str| match given {
            Some(secret) => Ok(secret.clone()),
            None => {
                let content =
                    SecretFile::new(data_dir, name).read_or_create(|| random_secret(32).into_bytes())?;
                String::from_utf8(content).map_err(failed)
            }
        };
        let secrets = &plan.settings.secrets;
        if !plan.role.has_gc() {
            // The authority runs elsewhere; only the part's own secret is known here.
            return Ok(Self { gc: String::new(), mc: String::new(), mh: String::new() });
        }
        Ok(Self {
            gc: random_secret(32),
            mc: one(&secrets.mc_client, "meet-mc-client-secret")?,
            mh: one(&secrets.mh_client, "meet-mh-client-secret")?,
        })
    }

    fn clients(&self) -> Option<Clients> {
        let scopes = |parts: &[ServiceRole]| parts.iter().map(|part| part.scope()).collect::<Vec<_>>();
        let known = |client_id: &str, secret: &str| credentials(client_id, secret);
        Clients::default()
            .with(&known(GC_CLIENT, &self.gc), ServiceType::GlobalController, &scopes(&[ServiceRole::Mc]))?
            .with(
                &known(MC_CLIENT, &self.mc),
                ServiceType::MeetingController,
                &scopes(&[ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh]),
            )?
            .with(
                &known(MH_CLIENT, &self.mh),
                ServiceType::MediaHandler,
                &scopes(&[ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh]),
            )
    }
}

fn credentials(client_id: &str, client_secret: &str) -> Credentials {
    Credentials { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() }
}

pub(super) async fn authority(
    plan: &Plan,
    service: &tenure_service::Settings,
    store: &Arc<dyn Store>,
    secrets: &ClientSecrets,
) -> Result<Arc<Authority>> {
    let vault = match (plan.shared, &service.seal_key) {
        (true, Some(key)) => {
            let seal = Seal::new(key.as_bytes()).map_err(|error| Failure::usage(error.to_string()))?;
            Vault::Store(StoreVault::new(store.clone(), seal))
        }
        _ => Vault::Folder(DirectoryVault::new(&service.data_dir)),
    };
    let clients = secrets.clients().ok_or_else(|| failed("too many clients"))?;
    let authority = Authority::open(vault, clients, store.clock(), Arc::new(OsEntropy)).await;
    authority.map(Arc::new).map_err(failed)
}

/// Service tokens of a part in the authority's process.
pub(super) fn local_tokens(
    authority: &Arc<Authority>,
    client_id: &str,
    secret: &str,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn TokenSource> {
    let (authority, credentials) = (authority.clone(), credentials(client_id, secret));
    MintedTokens::new(clock.clone(), move || {
        authority.service(&credentials, None).map_err(|error| TokenError::Unavailable(error.to_string()))
    })
}

pub(super) async fn remote_tokens(
    part: ServiceRole,
    settings: &Settings,
    insecure: bool,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn TokenSource>> {
    let endpoint = settings.ac_endpoint.clone().unwrap_or_default();
    let address = if endpoint.contains("/oauth/") {
        endpoint
    } else {
        format!("{}/oauth/token", endpoint.trim_end_matches('/'))
    };
    let credentials = tenure_meet_rpc::Credentials {
        role: part,
        address,
        client_id: settings.client_id.clone().unwrap_or_default(),
        client_secret: settings.secrets.client.clone().unwrap_or_default(),
        insecure,
    };
    let tokens: Arc<dyn TokenSource> =
        FetchedTokens::start(credentials, clock.clone()).await.map_err(failed)?;
    Ok(tokens)
}

/// The keys published by a remote authority.
pub(super) fn remote_keyring(settings: &Settings, insecure: bool, clock: &Arc<dyn Clock>) -> Result<Keyring> {
    let base = settings.ac_endpoint.clone().unwrap_or_default();
    let base = base.trim_end_matches("/oauth/token").trim_end_matches('/').to_owned();
    let address = settings.ac_jwks_url.clone().unwrap_or_else(|| format!("{base}/.well-known/jwks.json"));
    Keyring::published(&address, insecure, clock.clone()).map_err(failed)
}

/// The secrets of binding tokens.
pub(super) fn binding_secrets(plan: &Plan, data_dir: &std::path::Path) -> Result<Secrets> {
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
            let content = SecretFile::new(data_dir, "meet-binding-secret").read_or_create(make)?;
            decode("meet-binding-secret", &String::from_utf8_lossy(&content))?
        }
    };
    match &given.binding_previous {
        Some(text) => Ok(Secrets::rotated(current, decode("MC_BINDING_TOKEN_SECRET_PREVIOUS", text)?)),
        None => Ok(Secrets::new(current)),
    }
}

/// The id of a node: configured, or generated.
pub(super) fn node_id(part: ServiceRole, settings: &Settings, role: Role) -> String {
    let prefix = if part == ServiceRole::Mc { "mc" } else { "mh" };
    match &settings.id {
        Some(id) if role == Role::All && part == ServiceRole::Mh => format!("{id}-mh"),
        Some(id) => id.clone(),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
            let host: String = host.chars().map(plain).take(40).collect();
            let mut bytes = [0; 4];
            OsEntropy.fill(&mut bytes);
            format!("{prefix}-{host}-{:08x}", u32::from_be_bytes(bytes))
        }
    }
}

/// The authority as the signer of the global controller.
pub(super) struct AuthoritySigner(pub(super) Arc<Authority>);

fn not_signed(error: tenure_meet_ac::Error) -> tenure_meet_gc::NotSigned {
    match error {
        tenure_meet_ac::Error::Invalid(why) => tenure_meet_gc::NotSigned::Invalid(why.to_owned()),
        other => tenure_meet_gc::NotSigned::Unavailable(other.to_string()),
    }
}

impl tenure_meet_gc::Signer for AuthoritySigner {
    fn sign_member(
        &self,
        request: &MemberTokenRequest,
    ) -> std::result::Result<tenure_meet_gc::Signed, tenure_meet_gc::NotSigned> {
        let token = self.0.sign_member(request).map_err(not_signed)?;
        Ok(tenure_meet_gc::Signed { token, life: tenure_meet_ac::limits::MEETING })
    }

    fn sign_guest(
        &self,
        request: &GuestTokenRequest,
    ) -> std::result::Result<tenure_meet_gc::Signed, tenure_meet_gc::NotSigned> {
        let token = self.0.sign_guest(request).map_err(not_signed)?;
        Ok(tenure_meet_gc::Signed { token, life: tenure_meet_ac::limits::MEETING })
    }
}
