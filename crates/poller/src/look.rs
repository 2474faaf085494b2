//! Looking at the store: who lives, what is to be polled, who has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Error, Phase, Query, Record, Result, Revision, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Settings, Target, TargetError, keys};

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A living node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) foreign: bool,
    pub(crate) about: About,
}

/// What a node of ours says about itself in `poll:about:{instance}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct About {
    pub(crate) name: Option<String>,
    pub(crate) version: String,
    /// Milliseconds since the epoch.
    pub(crate) started_at: u64,
    /// Targets in doubt, and since when.
    pub(crate) uncertain: BTreeMap<String, u64>,
}

/// What the one node that looks at every key found, for the others: hints that save them the look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Survey {
    pub(crate) by: String,
    /// Of all targets and their records.
    pub(crate) digest: String,
    /// Nodes that are not ours.
    pub(crate) foreign: Vec<String>,
}

/// All targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    pub(crate) valid: BTreeMap<String, Arc<Target>>,
    pub(crate) invalid: BTreeMap<String, TargetError>,
    pub(crate) digest: String,
}

/// Who has a target.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) id: String,
    pub(crate) holder: String,
    pub(crate) reserved: bool,
    /// Without a generation it is none of ours.
    pub(crate) foreign: bool,
    pub(crate) remaining: Option<Duration>,
}

/// A bounded look.
pub(crate) async fn bounded<T>(store: &dyn Store, look: impl Future<Output = Result<T>>) -> Result<T> {
    let clock = store.clock();
    tokio::select! {
        biased;
        found = look => found,
        () = clock.sleep_until(clock.now() + PATIENCE) => {
            Err(Error::unavailable(store.capabilities().engine, "no answer in time"))
        }
    }
}

/// Every target's record, whoever wrote it, and the digest of them all.
pub(crate) async fn records(store: &dyn Store) -> Result<(Vec<Record>, String)> {
    let records = store.discover(&keys::prefix(keys::TARGET)?).await?;
    let mut hash = Sha256::new();
    for Record { key, value, .. } in &records {
        hash.update((key.as_str().len() as u64).to_le_bytes());
        hash.update(key.as_str());
        hash.update((value.len() as u64).to_le_bytes());
        hash.update(value);
    }
    let digest = hash.finalize()[..12].iter().map(|b| format!("{b:02x}")).collect();
    Ok((records, digest))
}

impl Targets {
    /// Reads all records. A target that is what was known stays the same one.
    pub(crate) fn read(records: Vec<Record>, digest: String, known: &BTreeMap<String, Arc<Target>>) -> Self {
        let mut found = Self { digest, ..Self::default() };
        for Record { key, value, .. } in records {
            let Some(id) = key.as_str().strip_prefix(keys::TARGET).filter(|id| !id.is_empty()) else {
                continue;
            };
            match Target::parse(id, &value) {
                Ok(target) => {
                    let same = known.get(id).filter(|known| ***known == target);
                    found.valid.insert(id.to_owned(), same.cloned().unwrap_or_else(|| Arc::new(target)));
                }
                Err(error) => drop(found.invalid.insert(id.to_owned(), error)),
            }
        }
        found
    }
}

/// One target's record.
pub(crate) async fn target(store: &dyn Store, id: &str) -> Result<Option<Result<Arc<Target>, TargetError>>> {
    let record = store.get(&keys::target(id)?).await?;
    Ok(record.map(|record| Target::parse(id, &record.value).map(Arc::new)))
}

/// The living nodes of ours, from the index; foreign ones are in the survey.
pub(crate) async fn our_nodes(store: &dyn Store) -> Result<Vec<Seen>> {
    nodes(store, scan(store, keys::NODE).await?).await
}

/// Every living node, whoever beats for it.
pub(crate) async fn all_nodes(store: &dyn Store) -> Result<Vec<Seen>> {
    nodes(store, store.discover(&keys::prefix(keys::NODE)?).await?).await
}

async fn nodes(store: &dyn Store, records: Vec<Record>) -> Result<Vec<Seen>> {
    let abouts = scan(store, keys::ABOUT).await?;
    let mut abouts: BTreeMap<&str, About> =
        abouts.iter().filter_map(|record| Some((name(record, keys::ABOUT)?, read(record)?))).collect();
    let seen = records.iter().filter_map(|record| {
        let id = name(record, keys::NODE)?;
        let foreign = record.revision == Revision::default();
        let about = abouts.remove(id).filter(|_| !foreign).unwrap_or_default();
        Some(Seen { id: id.to_owned(), foreign, about })
    });
    Ok(seen.collect())
}

/// Every record of ours under a prefix, from the index.
async fn scan(store: &dyn Store, prefix: &str) -> Result<Vec<Record>> {
    let mut query = Query::new(keys::prefix(prefix)?);
    let mut records = Vec::new();
    loop {
        let page = store.scan(&query).await?;
        records.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(records),
        }
    }
}

fn name<'a>(record: &'a Record, prefix: &str) -> Option<&'a str> {
    record.key.as_str().strip_prefix(prefix).filter(|name| !name.is_empty())
}

fn read<T: DeserializeOwned>(record: &Record) -> Option<T> {
    serde_json::from_slice(&record.value).ok()
}

/// The last survey, if there is one of late.
pub(crate) async fn survey(store: &dyn Store) -> Result<Option<Survey>> {
    let record = store.get(&keys::survey()?).await?;
    Ok(record.and_then(|record| read(&record)))
}

/// How long a survey counts.
pub(crate) fn survey_life(settings: &Settings) -> Duration {
    settings.sync_interval * 2 + settings.sync_interval / 2
}

/// Every lease of a target, and the revision from which a watch misses nothing.
pub(crate) async fn owners(store: &dyn Store) -> Result<(Vec<Owner>, Revision)> {
    let mut query = Query::new(keys::prefix(keys::LEASE)?);
    let (mut owners, mut first) = (Vec::new(), None);
    loop {
        let page = store.list(&query).await?;
        first.get_or_insert(page.revision);
        for status in page.items {
            let Some(id) = status.key.as_str().strip_prefix(keys::LEASE) else { continue };
            let Some(holder) = status.holder else { continue };
            if matches!(status.phase, Phase::Held | Phase::Reserved) {
                owners.push(Owner {
                    id: id.to_owned(),
                    holder: holder.as_str().to_owned(),
                    reserved: status.phase == Phase::Reserved,
                    foreign: status.phase == Phase::Held && status.since.is_none(),
                    remaining: status.remaining,
                });
            }
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok((owners, first.unwrap_or_default())),
        }
    }
}
