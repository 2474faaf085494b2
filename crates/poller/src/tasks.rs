//! Store calls that run outside the event loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_keeper::{Error, Guard, Lost};
use tenure_lease::{Committed, Op, Ttl};

use crate::discovery::{self, DiscoveredNode, DiscoveredTargets, LeaseOwner, NodeInfo, Survey};
use crate::node::NodeState;
use crate::plan::Release;
use crate::{Target, TargetError, keys};

/// Consecutive reads that a node replaces by the survey before it reads the targets itself.
const SURVEYS_MAX: u32 = 60;
/// Maximum number of uncertain targets that a node publishes.
const UNCERTAIN_MAX: usize = 100;

/// The result of a task.
pub(crate) enum Completion {
    Owners(tenure_lease::Result<(Vec<LeaseOwner>, tenure_lease::Revision)>),
    Nodes(tenure_lease::Result<Vec<DiscoveredNode>>),
    Targets(tenure_lease::Result<TargetRefresh>),
    Target(String, tenure_lease::Result<Option<Result<Arc<Target>, TargetError>>>),
    Claimed(String, Result<Guard, Error>),
    Released(Release, Option<tenure_lease::Generation>, Result<tenure_lease::Released, Error>),
    Lost(String, Lost),
    Inspected(String, tenure_lease::Generation, Lost, tenure_lease::Result<tenure_lease::Status>),
    Heartbeat(tenure_lease::Result<()>),
}

/// The result of reading the targets.
pub(crate) enum TargetRefresh {
    /// Unchanged according to the survey.
    SurveyUnchanged,
    /// Unchanged.
    Unchanged,
    /// All targets, because at least one changed.
    Changed(DiscoveredTargets),
}

/// Writes this node's heartbeat and its information.
pub(crate) async fn write_heartbeat(state: &NodeState, about: &NodeInfo) -> tenure_lease::Result<()> {
    let ttl = Some(state.settings.heartbeat_ttl);
    let about = serde_json::to_vec(about).unwrap_or_default();
    let ops = [
        Op::Put { key: keys::about(&state.instance)?, value: about.into(), ttl },
        Op::Put { key: keys::node(&state.instance)?, value: (*b"1").into(), ttl },
    ];
    expect_written(discovery::with_timeout(&*state.store, state.store.commit(&ops)).await?)
}

/// Removes this node's heartbeat and its information.
pub(crate) async fn remove_heartbeat(state: &NodeState) -> tenure_lease::Result<()> {
    let ops =
        [Op::Delete { key: keys::node(&state.instance)? }, Op::Delete { key: keys::about(&state.instance)? }];
    expect_written(discovery::with_timeout(&*state.store, state.store.commit(&ops)).await?)
}

fn expect_written(answer: Committed) -> tenure_lease::Result<()> {
    match answer {
        Committed::Written { .. } => Ok(()),
        other => Err(tenure_lease::Error::unavailable("poll", format!("unexpected response: {other:?}"))),
    }
}

/// The targets of this node whose ownership is uncertain.
pub(crate) fn uncertain_targets(state: &NodeState) -> BTreeMap<String, u64> {
    let cluster = state.cluster.lock();
    let uncertain =
        cluster.statuses.iter().filter_map(|(id, status)| Some((id.clone(), status.uncertain_since()?)));
    uncertain.take(UNCERTAIN_MAX).collect()
}

/// Whether this node is the surveyor, which scans for records of other programs on behalf of all nodes: the live
/// Tenure node with the smallest instance id.
pub(crate) fn is_surveyor(state: &NodeState) -> bool {
    let cluster = state.cluster.lock();
    let first = cluster.peers.values().find(|peer| !peer.foreign && !cluster.silent.contains(&peer.id));
    first.is_none_or(|peer| peer.id == state.instance)
}

/// Reads the live nodes: Tenure nodes from the index and others from the survey. The surveyor scans for all of them.
pub(crate) async fn read_nodes(state: &NodeState) -> tenure_lease::Result<Vec<DiscoveredNode>> {
    discovery::with_timeout(&*state.store, async {
        let survey = match is_surveyor(state) {
            true => None,
            false => discovery::read_survey(&*state.store).await?,
        };
        let Some(survey) = survey else { return discovery::discover_nodes(&*state.store).await };
        let mut nodes = discovery::read_own_nodes(&*state.store).await?;
        for id in survey.foreign {
            if nodes.iter().all(|node| node.id != id) {
                nodes.push(DiscoveredNode { id, foreign: true, about: NodeInfo::default() });
            }
        }
        Ok(nodes)
    })
    .await
}

/// Reads the targets, unless they are unchanged.
pub(crate) async fn read_targets(
    state: &NodeState,
    surveys_used: u32,
) -> tenure_lease::Result<TargetRefresh> {
    discovery::with_timeout(&*state.store, async {
        let surveyor = is_surveyor(state);
        let known = state.cluster.lock().digest.clone();
        if !surveyor && surveys_used < SURVEYS_MAX && !known.is_empty() {
            let survey = discovery::read_survey(&*state.store).await?;
            if survey.is_some_and(|survey| survey.digest == known) {
                return Ok(TargetRefresh::SurveyUnchanged);
            }
        }
        let (records, digest) = discovery::read_target_records(&*state.store).await?;
        if surveyor {
            write_survey(state, &digest).await?;
        }
        if digest == known {
            return Ok(TargetRefresh::Unchanged);
        }
        let known = state.cluster.lock().targets.clone();
        Ok(TargetRefresh::Changed(DiscoveredTargets::parse(records, digest, &known)))
    })
    .await
}

/// Writes the survey for the other nodes.
async fn write_survey(state: &NodeState, digest: &str) -> tenure_lease::Result<()> {
    let foreign = {
        let cluster = state.cluster.lock();
        cluster.peers.values().filter(|peer| peer.foreign).map(|peer| peer.id.clone()).collect()
    };
    let survey = Survey { by: state.instance.clone(), digest: digest.to_owned(), foreign };
    let value = serde_json::to_vec(&survey).unwrap_or_default();
    let ttl = Ttl::from_millis(discovery::survey_ttl(&state.settings).as_millis() as u64)?;
    expect_written(
        state.store.commit(&[Op::Put { key: keys::survey()?, value: value.into(), ttl: Some(ttl) }]).await?,
    )
}
