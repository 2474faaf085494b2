//! What the door is built with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use service::{Clock, Shutdown};
use session::{Admission, Bus, Error, ProfileId, Result, Secret, Secrets, ServiceRef, SessionLog};
use tokio_util::task::TaskTracker;

use crate::lan::Lan;
use crate::limits;

/// The world behind the door.
#[derive(Clone)]
pub struct Ports {
    /// Where sessions are kept.
    pub log: Arc<dyn SessionLog>,
    /// What wakes workers.
    pub bus: Arc<dyn Bus>,
    /// Phase 1 of the migration when it is there: asked before anything is looked up or recorded.
    pub admission: Option<Arc<dyn Admission>>,
}

/// What the door is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What idempotency keys are made with.
    pub secrets: Secrets,
    /// How many tuners are configured; with none, live channels are refused.
    pub slots: usize,
    /// The qualities that can be asked for.
    pub profiles: Profiles,
    /// The pictures of a session are in the folder of its id below this one.
    pub output_dir: PathBuf,
    /// What can be watched live, for people to choose from.
    pub channels: Vec<Channel>,
    /// Most sessions that are kept, those that ended in the last day included.
    pub max_records: usize,
    /// How long a session lives without being watched.
    pub session_lease_ttl: Duration,
    /// How often a client says that it watches.
    pub heartbeat_interval: Duration,
    /// Who may come in.
    pub lan: Lan,
    /// Streams of events at once.
    pub max_watchers: usize,
    /// Ends the streams of events.
    pub shutdown: Shutdown,
    /// What time it is.
    pub clock: Clock,
    /// What goes on though its client is gone: a start that is being recorded. Wait for it at the end.
    pub tasks: TaskTracker,
}

/// A channel, as people know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// What the receiver calls it.
    pub service_ref: ServiceRef,
    /// What people call it.
    pub name: String,
    /// Where its picture is.
    pub logo: Option<String>,
}

/// The qualities that can be asked for. Other words for one are made the one before anything is hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profiles {
    default: ProfileId,
    names: Vec<ProfileId>,
    aliases: BTreeMap<String, ProfileId>,
}

impl Options {
    /// The defaults, with no tuner and no channel.
    pub fn new(secrets: Secrets, output_dir: impl Into<PathBuf>) -> Self {
        Self {
            secrets,
            slots: 0,
            profiles: Profiles::default(),
            output_dir: output_dir.into(),
            channels: Vec::new(),
            max_records: limits::KEPT,
            session_lease_ttl: Duration::from_secs(120),
            heartbeat_interval: Duration::from_secs(30),
            lan: Lan::default(),
            max_watchers: 1_024,
            shutdown: Shutdown::new(),
            clock: Clock::default(),
            tasks: TaskTracker::new(),
        }
    }
}

/// The secrets of the settings. Without a current one it is random, which is told once and loudly: then a wish is not
/// recognized by another process or after a restart.
pub fn secrets(current: Option<&str>, previous: Option<&str>) -> Result<Secrets> {
    let previous = previous.map(Secret::new).transpose()?;
    let current = match current {
        Some(current) => Secret::new(current)?,
        None => {
            tracing::warn!(
                "XG2G_IDEM_SECRET is not set: the same wish is the same session only within this process; set it"
            );
            Secret::new(rand::random::<[u8; 32]>())?
        }
    };
    Ok(Secrets { current, previous })
}

impl Profiles {
    /// These profiles; the default is one of them.
    pub fn new(default: ProfileId, others: impl IntoIterator<Item = ProfileId>) -> Self {
        let mut names = vec![default.clone()];
        for name in others {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self { default, names, aliases: BTreeMap::new() }
    }

    /// Another word for a profile that is there.
    pub fn alias(mut self, word: impl Into<String>, profile: &ProfileId) -> Result<Self> {
        if !self.names.contains(profile) {
            return Err(unknown(profile.as_str(), &self.names));
        }
        self.aliases.insert(word.into().to_ascii_lowercase(), profile.clone());
        Ok(self)
    }

    /// What is used when nothing is asked for.
    pub fn default_profile(&self) -> &ProfileId {
        &self.default
    }

    /// Every profile once, the default first.
    pub fn names(&self) -> &[ProfileId] {
        &self.names
    }

    /// The profile that a request means.
    pub(crate) fn resolve(&self, word: Option<&str>) -> Result<ProfileId> {
        let Some(word) = word else { return Ok(self.default.clone()) };
        // Checked first, so that what cannot be a name is refused as such.
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
        // These are names; were one not, there would be no profile, and every request would say so.
        let names: Vec<ProfileId> =
            ["high", "low", "copy"].into_iter().filter_map(|name| ProfileId::new(name).ok()).collect();
        let Some(default) = names.first().cloned() else { unreachable!() };
        let aliases = ["default", "auto"].map(|word| (word.to_owned(), default.clone()));
        Self { default, names, aliases: aliases.into() }
    }
}

fn unknown(word: &str, names: &[ProfileId]) -> Error {
    let known: Vec<_> = names.iter().map(ProfileId::as_str).collect();
    Error::Invalid { field: "profileID", why: format!("{word} is none of {}", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_a_profile_are_that_profile() {
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
    fn every_profile_is_there_once_and_the_default_first() {
        let names = ["tv", "phone", "tv", "phone"].map(|name| ProfileId::new(name).unwrap());
        let profiles = Profiles::new(names[1].clone(), names.clone());
        assert_eq!(profiles.names(), [names[1].clone(), names[0].clone()]);
    }

    #[test]
    fn an_alias_leads_to_a_profile_that_is_there() {
        let [tv, phone] = ["tv", "phone"].map(|name| ProfileId::new(name).unwrap());
        let profiles = Profiles::new(tv.clone(), [phone.clone()]).alias("Small", &phone).unwrap();
        assert_eq!(profiles.resolve(Some("small")), Ok(phone));
        assert_eq!(profiles.resolve(None), Ok(tv));
        assert!(profiles.alias("x", &ProfileId::new("high").unwrap()).is_err());
    }

    #[test]
    fn a_secret_that_is_missing_is_random_and_one_that_is_empty_is_refused() {
        let (first, second) = (secrets(None, None).unwrap(), secrets(None, Some("old")).unwrap());
        assert!(first.current != second.current && second.previous.is_some());
        assert!(secrets(Some(""), None).is_err() && secrets(Some("new"), Some("")).is_err());
    }
}
