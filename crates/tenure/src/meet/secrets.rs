//! The secrets that all nodes of an installation share.
//!
//! A missing secret is created in the data directory. On a shared store the first node does that, and the store keeps a
//! fingerprint: a later node without the secret does not start, and says which command prints it. A secret in the settings
//! overrides the file.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tenure_keeper::OsEntropy;
use tenure_lease::{Committed, Entropy as _, Key, Op, Store};

use super::identity::failed;
use super::secret_file::SecretFile;
use super::{Plan, Role};
use crate::cli::{Failure, Result};

/// Random bytes of a new secret.
const BYTES: usize = 48;

/// A shared secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SharedSecret {
    /// Issues binding tokens.
    Binding,
    /// Seals the signing keys in a shared store.
    Seal,
    /// The client secret of meeting controllers.
    McClient,
    /// The client secret of media handlers.
    MhClient,
}

impl SharedSecret {
    const ALL: [Self; 4] = [Self::Binding, Self::Seal, Self::McClient, Self::MhClient];

    const fn file(self) -> &'static str {
        match self {
            Self::Binding => "meet-binding-secret",
            Self::Seal => "meet-seal-key",
            Self::McClient => "meet-mc-client-secret",
            Self::MhClient => "meet-mh-client-secret",
        }
    }

    /// The variable that sets it in a process of this role.
    const fn variable(self, role: Role) -> &'static str {
        match (self, role) {
            (Self::Binding, _) => "MC_BINDING_TOKEN_SECRET",
            (Self::Seal, _) => "TENURE_SEAL_KEY",
            (Self::McClient, Role::Mc) => "MC_CLIENT_SECRET",
            (Self::MhClient, Role::Mh) => "MH_CLIENT_SECRET",
            (Self::McClient, _) => "TENURE_MEET__MC_CLIENT_SECRET",
            (Self::MhClient, _) => "TENURE_MEET__MH_CLIENT_SECRET",
        }
    }

    fn key(self) -> Result<Key> {
        Key::new(format!("gc:secret:{}", self.file())).map_err(failed)
    }

    /// What the store keeps: enough to tell secrets apart, and nothing to find them by.
    fn fingerprint(self, secret: &str) -> String {
        let digest =
            Sha256::new().chain_update(self.file()).chain_update([0]).chain_update(secret).finalize();
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The secrets that a process of this role uses.
pub(crate) const fn used_by(role: Role) -> &'static [SharedSecret] {
    match role {
        Role::All | Role::Gc => &SharedSecret::ALL,
        Role::Mc => &[SharedSecret::Binding, SharedSecret::McClient],
        Role::Mh => &[SharedSecret::MhClient],
    }
}

/// The variables with the secrets of a data directory that a process of this role uses.
pub(crate) fn export(data_dir: &Path, role: Role) -> Result<Vec<(&'static str, String)>> {
    let mut found = Vec::new();
    for secret in used_by(role) {
        if let Some(content) = SecretFile::new(data_dir, secret.file()).read()? {
            found.push((secret.variable(role), String::from_utf8(content).map_err(failed)?));
        }
    }
    Ok(found)
}

/// The secrets of this process.
#[derive(Clone, Default)]
pub(super) struct NodeSecrets {
    pub(super) binding: String,
    pub(super) seal: Option<String>,
    pub(super) mc_client: String,
    pub(super) mh_client: String,
}

/// Reads, creates and compares secrets.
struct Resolver<'a> {
    data_dir: &'a Path,
    role: Role,
    /// The store, if other processes use it too.
    shared: Option<&'a dyn Store>,
    missing: Vec<&'static str>,
}

/// Reads the secrets that this process needs, and creates those that do not exist yet. All that it lacks is reported at
/// once.
pub(super) async fn resolve(
    plan: &Plan,
    service: &tenure_service::Settings,
    store: &Arc<dyn Store>,
) -> Result<NodeSecrets> {
    let (role, given) = (plan.role, &plan.settings.secrets);
    let shared = plan.shared.then_some(&**store);
    let mut resolver = Resolver { data_dir: &service.data_dir, role, shared, missing: Vec::new() };
    let mut secrets = NodeSecrets::default();
    if role.has_mc() {
        secrets.binding = resolver.one(SharedSecret::Binding, given.binding.as_deref()).await?;
    } else if role == Role::Gc && shared.is_some() {
        // Created here already, so that one command prints everything that a controller needs.
        let _unused = resolver.one(SharedSecret::Binding, given.binding.as_deref()).await?;
        resolver.missing.clear();
    }
    if role.has_gc() {
        if shared.is_some() {
            secrets.seal = Some(resolver.one(SharedSecret::Seal, service.seal_key.as_deref()).await?);
        }
        secrets.mc_client = resolver.one(SharedSecret::McClient, given.mc_client.as_deref()).await?;
        secrets.mh_client = resolver.one(SharedSecret::MhClient, given.mh_client.as_deref()).await?;
    }
    resolver.finish()?;
    Ok(secrets)
}

impl Resolver<'_> {
    /// The secret; empty if it is missing.
    async fn one(&mut self, secret: SharedSecret, given: Option<&str>) -> Result<String> {
        let file = SecretFile::new(self.data_dir, secret.file());
        let stored = file.read()?.map(String::from_utf8).transpose().map_err(failed)?;
        let Some(store) = self.shared else {
            return match given.map(str::to_owned).or(stored) {
                Some(value) => Ok(value),
                None => create(&file),
            };
        };
        let known = fingerprint_in(store, secret).await?;
        let own = given.map(str::to_owned).or(stored);
        match (own, known) {
            (Some(own), Some(known)) if secret.fingerprint(&own) == known => Ok(own),
            (Some(own), Some(_)) if given.is_some() => {
                tracing::warn!(
                    variable = secret.variable(self.role),
                    "another secret than the last node of this store used"
                );
                replace_fingerprint(store, secret, &own).await?;
                Ok(own)
            }
            (None, None) => {
                let fresh = create(&file)?;
                if claim_fingerprint(store, secret, &fresh).await? {
                    return Ok(fresh);
                }
                // Another node was first.
                file.remove()?;
                self.lacks(secret)
            }
            (Some(own), None) if claim_fingerprint(store, secret, &own).await? => Ok(own),
            (Some(_) | None, _) => self.lacks(secret),
        }
    }

    fn lacks(&mut self, secret: SharedSecret) -> Result<String> {
        self.missing.push(secret.variable(self.role));
        Ok(String::new())
    }

    fn finish(self) -> Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the meetings of this store use secrets that this node does not have: {}",
            self.missing.join(", ")
        );
        let role = self.role.as_str();
        Err(Failure::usage(message).hint(format!(
            "`tenure secrets export --role {role} --data-dir DIR` prints them, with the data directory of the node\n\
             that was started first (of `tenure gc`, if the roles run separately); set them as variables here"
        )))
    }
}

fn create(file: &SecretFile) -> Result<String> {
    let mut secret = [0; BYTES];
    OsEntropy.fill(&mut secret);
    let secret = STANDARD.encode(secret);
    file.write(secret.as_bytes())?;
    Ok(secret)
}

async fn fingerprint_in(store: &dyn Store, secret: SharedSecret) -> Result<Option<String>> {
    let record = store.get(&secret.key()?).await?;
    Ok(record.map(|record| String::from_utf8_lossy(&record.value).into_owned()))
}

/// Stores the fingerprint unless there is one. Returns whether the stored one is that of this secret.
async fn claim_fingerprint(store: &dyn Store, secret: SharedSecret, value: &str) -> Result<bool> {
    let own = secret.fingerprint(value);
    let put = Op::PutIfAbsent { key: secret.key()?, value: own.as_bytes().into(), ttl: None };
    match store.commit(&[put]).await {
        Ok(Committed::Written { .. }) => Ok(true),
        // The write may have taken effect.
        Ok(_) | Err(tenure_lease::Error::Unknown { .. }) => {
            Ok(fingerprint_in(store, secret).await? == Some(own))
        }
        Err(error) => Err(error.into()),
    }
}

async fn replace_fingerprint(store: &dyn Store, secret: SharedSecret, value: &str) -> Result<()> {
    let own = secret.fingerprint(value);
    let put = Op::Put { key: secret.key()?, value: own.as_bytes().into(), ttl: None };
    store.commit(&[put]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_store::Local;

    fn resolver<'a>(data_dir: &'a Path, store: Option<&'a dyn Store>) -> Resolver<'a> {
        Resolver { data_dir, role: Role::All, shared: store, missing: Vec::new() }
    }

    #[tokio::test]
    async fn the_first_node_creates_a_secret_and_the_second_one_names_what_it_lacks() {
        let (store, first, second) =
            (Local::memory(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut one = resolver(first.path(), Some(&store));
        let made = one.one(SharedSecret::Seal, None).await.unwrap();
        assert!(made.len() >= 32 && one.finish().is_ok());
        // The same node starts again.
        let mut again = resolver(first.path(), Some(&store));
        assert_eq!(again.one(SharedSecret::Seal, None).await.unwrap(), made);
        let mut two = resolver(second.path(), Some(&store));
        for secret in [SharedSecret::Seal, SharedSecret::Binding] {
            two.one(secret, None).await.unwrap();
        }
        let failure = two.finish().unwrap_err();
        assert!(failure.detail().ends_with("does not have: TENURE_SEAL_KEY"), "{}", failure.detail());
        assert!(failure.remedy().unwrap().contains("tenure secrets export --role up --data-dir DIR"));
        // With the exported secret it starts.
        let exported = export(first.path(), Role::All).unwrap();
        assert_eq!(exported, [("TENURE_SEAL_KEY", made.clone())]);
        let mut two = resolver(second.path(), Some(&store));
        assert_eq!(two.one(SharedSecret::Seal, Some(&made)).await.unwrap(), made);
    }

    #[tokio::test]
    async fn a_file_with_another_secret_is_refused_and_a_setting_with_another_one_replaces_it() {
        let (store, first, second) =
            (Local::memory(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        resolver(first.path(), Some(&store)).one(SharedSecret::Binding, None).await.unwrap();
        create(&SecretFile::new(second.path(), SharedSecret::Binding.file())).unwrap();
        let mut two = resolver(second.path(), Some(&store));
        two.one(SharedSecret::Binding, None).await.unwrap();
        assert_eq!(two.missing, ["MC_BINDING_TOKEN_SECRET"]);
        let mut given = resolver(second.path(), Some(&store));
        assert_eq!(given.one(SharedSecret::Binding, Some("rotated")).await.unwrap(), "rotated");
        assert!(given.missing.is_empty());
    }

    #[tokio::test]
    async fn without_a_shared_store_every_node_has_its_own_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let made = resolver(dir.path(), None).one(SharedSecret::McClient, None).await.unwrap();
        assert_eq!(resolver(dir.path(), None).one(SharedSecret::McClient, None).await.unwrap(), made);
        assert_eq!(
            export(dir.path(), Role::Mc).unwrap(),
            [("MC_CLIENT_SECRET", made)],
            "only what a controller uses"
        );
    }
}
