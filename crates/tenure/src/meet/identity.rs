//! Identities of the parts: ids, secrets, tokens.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Entropy, Store};
use tenure_meet_ac::{Authority, Clients, Credentials, DirectoryVault, Seal, StoreVault, Vault};
use tenure_meet_rpc::{FetchedTokens, Keyring, MintedTokens, ServiceRole, TokenError, TokenSource};
use tenure_meet_wire::binding::{MasterSecret, Secrets};
use tenure_meet_wire::jwt::{GuestTokenRequest, MemberTokenRequest, ServiceType};

use super::Role;
use super::secrets::NodeSecrets;
use super::settings::Settings;
use crate::cli::{Failure, Result};

pub(super) const MC_CLIENT: &str = "meeting-controller";
pub(super) const MH_CLIENT: &str = "media-handler";
pub(super) const GC_CLIENT: &str = "global-controller";

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("meetings: {error}"))
}

/// The clients that the authority knows.
fn clients(gc: &str, secrets: &NodeSecrets) -> Option<Clients> {
    let scopes = |parts: &[ServiceRole]| parts.iter().map(|part| part.scope()).collect::<Vec<_>>();
    Clients::default()
        .with(&credentials(GC_CLIENT, gc), ServiceType::GlobalController, &scopes(&[ServiceRole::Mc]))?
        .with(
            &credentials(MC_CLIENT, &secrets.mc_client),
            ServiceType::MeetingController,
            &scopes(&[ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh]),
        )?
        .with(
            &credentials(MH_CLIENT, &secrets.mh_client),
            ServiceType::MediaHandler,
            &scopes(&[ServiceRole::Gc, ServiceRole::Mc, ServiceRole::Mh]),
        )
}

pub(super) fn random_secret(bytes: usize) -> String {
    let mut secret = vec![0; bytes];
    OsEntropy.fill(&mut secret);
    URL_SAFE_NO_PAD.encode(secret)
}

fn credentials(client_id: &str, client_secret: &str) -> Credentials {
    Credentials { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() }
}

pub(super) async fn authority(
    gc_secret: &str,
    secrets: &NodeSecrets,
    data_dir: &Path,
    store: &Arc<dyn Store>,
) -> Result<Arc<Authority>> {
    let vault = match &secrets.seal {
        Some(key) => {
            let seal = Seal::new(key.as_bytes()).map_err(|error| Failure::usage(error.to_string()))?;
            Vault::Store(StoreVault::new(store.clone(), seal))
        }
        None => Vault::Folder(DirectoryVault::new(data_dir)),
    };
    let clients = clients(gc_secret, secrets).ok_or_else(|| failed("too many clients"))?;
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

/// The id that the authority knows a part by.
const fn client_id(part: ServiceRole) -> &'static str {
    match part {
        ServiceRole::Gc => GC_CLIENT,
        ServiceRole::Mc => MC_CLIENT,
        ServiceRole::Mh => MH_CLIENT,
    }
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
        client_id: settings.client_id.clone().unwrap_or_else(|| client_id(part).to_owned()),
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

/// Decodes the secret of binding tokens, which a setting or file of this name has.
pub(super) fn master_secret(name: &str, text: &str) -> Result<MasterSecret, String> {
    let raw = STANDARD.decode(text.trim()).map_err(|_| format!("{name} is not base64"))?;
    MasterSecret::new(raw).map_err(|error| format!("{name}: {error}"))
}

/// The secrets of binding tokens.
pub(super) fn binding_secrets(current: &str, previous: Option<&str>) -> Result<Secrets> {
    let current = master_secret("MC_BINDING_TOKEN_SECRET", current).map_err(Failure::usage)?;
    let Some(previous) = previous else { return Ok(Secrets::new(current)) };
    let previous = master_secret("MC_BINDING_TOKEN_SECRET_PREVIOUS", previous).map_err(Failure::usage)?;
    Ok(Secrets::rotated(current, previous))
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
