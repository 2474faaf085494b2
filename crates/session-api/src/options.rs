//! Options and ports of the session API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure_service::{Clock, Shutdown};
use tenure_session::{Admission, Error, ProfileId, Result, Secret, Secrets, ServiceRef, SessionLog};
use tokio_util::task::TaskTracker;

use crate::lan::LanPolicy;
use crate::limits;

/// The ports that the API uses.
#[derive(Clone)]
pub struct Ports {
    /// Stores the sessions.
    pub log: Arc<dyn SessionLog>,
    /// Present in phase 1 of the migration: called before any lookup or write.
    pub admission: Option<Arc<dyn Admission>>,
}

/// The configuration of the API.
#[derive(Clone, Debug)]
pub struct Options {
    /// The secrets of idempotency keys.
    pub secrets: Secrets,
    /// Configured tuner slots; without any, live channels are rejected.
    pub slots: usize,
    /// The available profiles.
    pub profiles: Profiles,
    /// The directory that holds the HLS output of each session in a subdirectory named after its id.
    pub output_dir: PathBuf,
    /// The channels offered to clients.
    pub channels: Vec<Channel>,
    /// Most stored sessions, including those that ended within the retention time.
    pub max_records: usize,
    /// How long a session lives without a viewer.
    pub session_lease_ttl: Duration,
    /// How often a client sends a heartbeat.
    pub heartbeat_interval: Duration,
    /// The networks that clients may connect from.
    pub lan: LanPolicy,
    /// Most event streams at once.
    pub max_watchers: usize,
    /// Ends the event streams.
    pub shutdown: Shutdown,
    /// The clock.
    pub clock: Clock,
    /// Starts that are being recorded, which continue when their client disconnects. Wait for them at shutdown.
    pub tasks: TaskTracker,
}

/// A channel offered to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// The receiver's reference.
    pub service_ref: ServiceRef,
    /// The display name.
    pub name: String,
    /// The URL of its logo.
    pub logo: Option<String>,
}

/// The available profiles. Aliases are resolved before the idempotency key is computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profiles {
    default: ProfileId,
    names: Vec<ProfileId>,
    aliases: BTreeMap<String, ProfileId>,
}

impl Options {
    /// The defaults, without tuners and channels.
    pub fn new(secrets: Secrets, output_dir: impl Into<PathBuf>) -> Self {
        Self {
            secrets,
            slots: 0,
            profiles: Profiles::default(),
            output_dir: output_dir.into(),
            channels: Vec::new(),
            max_records: limits::MAX_RECORDS,
            session_lease_ttl: Duration::from_secs(120),
            heartbeat_interval: Duration::from_secs(30),
            lan: LanPolicy::default(),
            max_watchers: 1_024,
            shutdown: Shutdown::new(),
            clock: Clock::default(),
            tasks: TaskTracker::new(),
        }
    }
}

/// Builds the secrets from the settings. Without a current secret a random one is generated and a warning is logged: then
/// other processes, and this one after a restart, do not recognize repeated intents.
pub fn secrets(current: Option<&str>, previous: Option<&str>) -> Result<Secrets> {
    let previous = previous.map(Secret::new).transpose()?;
    let current = match current {
        Some(current) => Secret::new(current)?,
        None => {
            tracing::warn!(
                "XG2G_IDEM_SECRET is not set: repeated intents are recognized only by this process, until it restarts"
            );
            Secret::new(rand::random::<[u8; 32]>())?
        }
    };
    Ok(Secrets { current, previous })
}

impl Profiles {
    /// Creates the list of profiles; the default is one of them.
    pub fn new(default: ProfileId, others: impl IntoIterator<Item = ProfileId>) -> Self {
        let mut names = vec![default.clone()];
        for name in others {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self { default, names, aliases: BTreeMap::new() }
    }

    /// Adds an alias of an existing profile.
    pub fn alias(mut self, word: impl Into<String>, profile: &ProfileId) -> Result<Self> {
        if !self.names.contains(profile) {
            return Err(unknown(profile.as_str(), &self.names));
        }
        self.aliases.insert(word.into().to_ascii_lowercase(), profile.clone());
        Ok(self)
    }

    /// The profile of an intent that names none.
    pub fn default_profile(&self) -> &ProfileId {
        &self.default
    }

    /// Every profile once, the default first.
    pub fn names(&self) -> &[ProfileId] {
        &self.names
    }

    /// Resolves the name or alias in a request.
    pub(crate) fn resolve(&self, word: Option<&str>) -> Result<ProfileId> {
        let Some(word) = word else { return Ok(self.default.clone()) };
        // Validated first, so that an invalid name is reported as such.
        ProfileId::new(word)?;
        let same = |name: &&ProfileId| name.as_str().eq_ignore_ascii_case(word);
        let exact = self.names.iter().find(|name| name.as_str() == word);
        let found = exact
            .or_else(|| self.names.iter().find(same))
            .or_else(|| self.aliases.get(&word.to_ascii_lowercase()));
        found.cloned().ok_or_else(|| unknown(word, &self.names))
    }
}

impl Default for Profiles {
    /// `high`, which is also `default` and `auto`; `low`; `copy`.
    fn default() -> Self {
        // All of these are valid names.
        let names: Vec<ProfileId> =
            ["high", "low", "copy"].into_iter().filter_map(|name| ProfileId::new(name).ok()).collect();
        let Some(default) = names.first().cloned() else { unreachable!() };
        let aliases = ["default", "auto"].map(|word| (word.to_owned(), default.clone()));
        Self { default, names, aliases: aliases.into() }
    }
}

fn unknown(word: &str, names: &[ProfileId]) -> Error {
    let known: Vec<_> = names.iter().map(ProfileId::as_str).collect();
    Error::Invalid {
        field: "profileID",
        why: format!("unknown profile {word}; known profiles: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_resolve_to_their_profile() {
        let profiles = Profiles::default();
        let resolve = |word| profiles.resolve(word).map(|profile| profile.as_str().to_owned());
        for word in [None, Some("high"), Some("HIGH"), Some("default"), Some("Auto")] {
            assert_eq!(resolve(word).as_deref(), Ok("high"), "{word:?}");
        }
        assert_eq!(resolve(Some("copy")).as_deref(), Ok("copy"));
        for word in ["", "ultra", "a|b", ".."] {
            assert!(matches!(resolve(Some(word)), Err(Error::Invalid { field: "profileID", .. })), "{word}");
        }
    }

    #[test]
    fn profiles_are_unique_and_start_with_the_default() {
        let names = ["tv", "phone", "tv", "phone"].map(|name| ProfileId::new(name).unwrap());
        let profiles = Profiles::new(names[1].clone(), names.clone());
        assert_eq!(profiles.names(), [names[1].clone(), names[0].clone()]);
    }

    #[test]
    fn an_alias_must_name_an_existing_profile() {
        let [tv, phone] = ["tv", "phone"].map(|name| ProfileId::new(name).unwrap());
        let profiles = Profiles::new(tv.clone(), [phone.clone()]).alias("Small", &phone).unwrap();
        assert_eq!(profiles.resolve(Some("small")), Ok(phone));
        assert_eq!(profiles.resolve(None), Ok(tv));
        assert!(profiles.alias("x", &ProfileId::new("high").unwrap()).is_err());
    }

    #[test]
    fn a_missing_secret_is_random_and_an_empty_one_is_rejected() {
        let (first, second) = (secrets(None, None).unwrap(), secrets(None, Some("old")).unwrap());
        assert!(first.current != second.current && second.previous.is_some());
        assert!(secrets(Some(""), None).is_err() && secrets(Some("new"), Some("")).is_err());
    }
}
