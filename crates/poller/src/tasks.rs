//! What a node does with the store beside its loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use lease::{Committed, Op, Ttl};
use lease_keeper::{Error, Guard, Lost};

use crate::look::{self, About, Owner, Seen, Survey, Targets};
use crate::node::Desk;
use crate::plan::Move;
use crate::{Target, TargetError, keys};

/// Looks in a row that a node leaves to the surveyor before it makes one itself.
const TRUST: u32 = 60;
/// Most uncertain targets that a node tells of.
const TOLD: usize = 100;

/// What a task has found out.
pub(crate) enum Done {
    Owners(lease::Result<(Vec<Owner>, lease::Revision)>),
    Nodes(lease::Result<Vec<Seen>>),
    Targets(lease::Result<Looked>),
    Target(String, lease::Result<Option<Result<Arc<Target>, TargetError>>>),
    Claimed(String, Result<Guard, Error>),
    Left(Move, Option<lease::Generation>, Result<lease::Released, Error>),
    Ended(String, Lost),
    Looked(String, lease::Generation, Lost, lease::Result<lease::Status>),
    Beat(lease::Result<()>),
}

/// What a look at the targets has found.
pub(crate) enum Looked {
    /// Nothing changed, says the surveyor.
    Told,
    /// Nothing changed.
    Same,
    /// All of them.
    All(Targets),
}

/// Says that this node lives, and what it says about itself.
pub(crate) async fn beat(desk: &Desk, about: &About) -> lease::Result<()> {
    let ttl = Some(desk.settings.heartbeat_ttl);
    let about = serde_json::to_vec(about).unwrap_or_default();
    let ops = [
        Op::Put { key: keys::about(&desk.instance)?, value: about.into(), ttl },
        Op::Put { key: keys::node(&desk.instance)?, value: (*b"1").into(), ttl },
    ];
    committed(look::bounded(&*desk.store, desk.store.commit(&ops)).await?)
}

/// Says that this node is no more.
pub(crate) async fn farewell(desk: &Desk) -> lease::Result<()> {
    let ops =
        [Op::Delete { key: keys::node(&desk.instance)? }, Op::Delete { key: keys::about(&desk.instance)? }];
    committed(look::bounded(&*desk.store, desk.store.commit(&ops)).await?)
}

fn committed(answer: Committed) -> lease::Result<()> {
    match answer {
        Committed::Written { .. } => Ok(()),
        other => Err(lease::Error::unavailable("poll", format!("unexpected: {other:?}"))),
    }
}

/// The targets of this node that are in doubt.
pub(crate) fn uncertain(desk: &Desk) -> BTreeMap<String, u64> {
    let book = desk.book.lock();
    let doubts =
        book.statuses.iter().filter_map(|(id, status)| Some((id.clone(), status.uncertain_since()?)));
    doubts.take(TOLD).collect()
}

/// Whether this node is the one that looks for what others wrote, for all: the first of ours that lives.
pub(crate) fn is_surveyor(desk: &Desk) -> bool {
    let book = desk.book.lock();
    let first = book.peers.values().find(|peer| !peer.foreign && !book.silent.contains(&peer.id));
    first.is_none_or(|peer| peer.id == desk.instance)
}

/// The living: ours from the index and others from the survey, or all of them by whoever makes it.
pub(crate) async fn nodes(desk: &Desk) -> lease::Result<Vec<Seen>> {
    look::bounded(&*desk.store, async {
        let survey = match is_surveyor(desk) {
            true => None,
            false => look::survey(&*desk.store).await?,
        };
        let Some(survey) = survey else { return look::all_nodes(&*desk.store).await };
        let mut seen = look::our_nodes(&*desk.store).await?;
        for id in survey.foreign {
            if seen.iter().all(|node| node.id != id) {
                seen.push(Seen { id, foreign: true, about: About::default() });
            }
        }
        Ok(seen)
    })
    .await
}

/// The targets, unless they are what this node knows.
pub(crate) async fn targets(desk: &Desk, trusted: u32) -> lease::Result<Looked> {
    look::bounded(&*desk.store, async {
        let surveyor = is_surveyor(desk);
        let known = desk.book.lock().digest.clone();
        if !surveyor && trusted < TRUST && !known.is_empty() {
            let survey = look::survey(&*desk.store).await?;
            if survey.is_some_and(|survey| survey.digest == known) {
                return Ok(Looked::Told);
            }
        }
        let (records, digest) = look::records(&*desk.store).await?;
        if surveyor {
            tell(desk, &digest).await?;
        }
        if digest == known {
            return Ok(Looked::Same);
        }
        let known = desk.book.lock().targets.clone();
        Ok(Looked::All(Targets::read(records, digest, &known)))
    })
    .await
}

/// Writes the survey down for the others.
async fn tell(desk: &Desk, digest: &str) -> lease::Result<()> {
    let foreign = {
        let book = desk.book.lock();
        book.peers.values().filter(|peer| peer.foreign).map(|peer| peer.id.clone()).collect()
    };
    let survey = Survey { by: desk.instance.clone(), digest: digest.to_owned(), foreign };
    let value = serde_json::to_vec(&survey).unwrap_or_default();
    let ttl = Ttl::from_millis(look::survey_life(&desk.settings).as_millis() as u64)?;
    committed(
        desk.store.commit(&[Op::Put { key: keys::survey()?, value: value.into(), ttl: Some(ttl) }]).await?,
    )
}
