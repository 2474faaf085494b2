//! Reads nodes, targets and lease owners from the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tenure_lease::{Error, Phase, Query, Record, Result, Revision, Store};

use crate::{Settings, Target, TargetError, keys};

/// Timeout of one read.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveredNode {
    pub(crate) id: String,
    pub(crate) foreign: bool,
    pub(crate) about: NodeInfo,
}

/// What a Tenure node publishes about itself in `poll:about:{instance}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfo {
    pub(crate) name: Option<String>,
    pub(crate) version: String,
    /// Milliseconds since the epoch.
    pub(crate) started_at: u64,
    /// Targets whose ownership is uncertain, and since when.
    pub(crate) uncertain: BTreeMap<String, u64>,
}

/// What the surveyor found. One node scans every key on behalf of all; the others read its survey instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Survey {
    pub(crate) by: String,
    /// Digest of all target records.
    pub(crate) digest: String,
    /// Nodes of other programs.
    pub(crate) foreign: Vec<String>,
}

/// All target records, parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiscoveredTargets {
    pub(crate) valid: BTreeMap<String, Arc<Target>>,
    pub(crate) invalid: BTreeMap<String, TargetError>,
    pub(crate) digest: String,
}

/// The owner of a target's lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseOwner {
    pub(crate) id: String,
    pub(crate) holder: String,
    pub(crate) reserved: bool,
    /// A lease without a generation was written by another program.
    pub(crate) foreign: bool,
    pub(crate) remaining: Option<Duration>,
}

/// Runs a store call with a timeout.
pub(crate) async fn with_timeout<T>(store: &dyn Store, call: impl Future<Output = Result<T>>) -> Result<T> {
    let clock = store.clock();
    tokio::select! {
        biased;
        result = call => result,
        () = clock.sleep_until(clock.now() + TIMEOUT) => {
            Err(Error::unavailable(store.capabilities().engine, "timed out"))
        }
    }
}

/// Reads every target record, including those of other programs, and computes their digest.
pub(crate) async fn read_target_records(store: &dyn Store) -> Result<(Vec<Record>, String)> {
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

impl DiscoveredTargets {
    /// Parses all records. An unchanged target keeps its allocation.
    pub(crate) fn parse(records: Vec<Record>, digest: String, known: &BTreeMap<String, Arc<Target>>) -> Self {
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

/// Reads one target.
pub(crate) async fn read_target(
    store: &dyn Store,
    id: &str,
) -> Result<Option<Result<Arc<Target>, TargetError>>> {
    let record = store.get(&keys::target(id)?).await?;
    Ok(record.map(|record| Target::parse(id, &record.value).map(Arc::new)))
}

/// Reads the live Tenure nodes from the index. Nodes of other programs are in the survey.
pub(crate) async fn read_own_nodes(store: &dyn Store) -> Result<Vec<DiscoveredNode>> {
    parse_nodes(store, scan(store, keys::NODE).await?).await
}

/// Scans for every live node, including those of other programs.
pub(crate) async fn discover_nodes(store: &dyn Store) -> Result<Vec<DiscoveredNode>> {
    parse_nodes(store, store.discover(&keys::prefix(keys::NODE)?).await?).await
}

async fn parse_nodes(store: &dyn Store, records: Vec<Record>) -> Result<Vec<DiscoveredNode>> {
    let node_infos = scan(store, keys::ABOUT).await?;
    let mut node_infos: BTreeMap<&str, NodeInfo> = node_infos
        .iter()
        .filter_map(|record| Some((key_suffix(record, keys::ABOUT)?, parse_json(record)?)))
        .collect();
    let nodes = records.iter().filter_map(|record| {
        let id = key_suffix(record, keys::NODE)?;
        let foreign = record.revision == Revision::default();
        let about = node_infos.remove(id).filter(|_| !foreign).unwrap_or_default();
        Some(DiscoveredNode { id: id.to_owned(), foreign, about })
    });
    Ok(nodes.collect())
}

/// Reads every indexed record under a prefix.
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

fn key_suffix<'a>(record: &'a Record, prefix: &str) -> Option<&'a str> {
    record.key.as_str().strip_prefix(prefix).filter(|suffix| !suffix.is_empty())
}

fn parse_json<T: DeserializeOwned>(record: &Record) -> Option<T> {
    serde_json::from_slice(&record.value).ok()
}

/// Reads the latest survey, unless it has expired.
pub(crate) async fn read_survey(store: &dyn Store) -> Result<Option<Survey>> {
    let record = store.get(&keys::survey()?).await?;
    Ok(record.and_then(|record| parse_json(&record)))
}

/// How long a survey is valid.
pub(crate) fn survey_ttl(settings: &Settings) -> Duration {
    settings.sync_interval * 2 + settings.sync_interval / 2
}

/// Reads every target lease, and the revision from which a watch misses no change.
pub(crate) async fn read_owners(store: &dyn Store) -> Result<(Vec<LeaseOwner>, Revision)> {
    let mut query = Query::new(keys::prefix(keys::LEASE)?);
    let (mut owners, mut first) = (Vec::new(), None);
    loop {
        let page = store.list(&query).await?;
        first.get_or_insert(page.revision);
        for status in page.items {
            let Some(id) = status.key.as_str().strip_prefix(keys::LEASE) else { continue };
            let Some(holder) = status.holder else { continue };
            if matches!(status.phase, Phase::Held | Phase::Reserved) {
                owners.push(LeaseOwner {
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
