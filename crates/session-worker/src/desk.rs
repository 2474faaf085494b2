//! Where records are written: every write carries the guard's fence.

use std::time::Duration;

use lease::{Committed, End, Fence, Mode, Op, Revision, Ttl};
use lease_keeper::Lost;
use session::{Detail, Event, Reason, Session};

use crate::world::World;
use crate::{keys, limits, log, metric, rows};

/// Why a worker cannot go on with a session.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the guard is lost")]
    GuardLost,
    #[error("somebody else wrote the record")]
    Changed,
    #[error("{0}")]
    Store(String),
}

/// A session as this worker last wrote or read it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) session: Session,
    pub(crate) revision: Revision,
}

/// Why something happened to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: Reason,
    pub(crate) detail: Option<Detail>,
    pub(crate) words: Option<String>,
}

impl Cause {
    pub(crate) fn new(reason: Reason, detail: Option<Detail>, words: impl Into<Option<String>>) -> Self {
        Self { reason, detail, words: words.into() }
    }
}

impl Entry {
    /// What an event does to the session, written. An event that changes nothing writes nothing.
    pub(crate) async fn step(
        &mut self,
        world: &World,
        event: Event,
        cause: Option<Cause>,
    ) -> Result<(), Broken> {
        let next =
            self.session.after(event, world.wall()).map_err(|error| Broken::Store(error.to_string()))?;
        let Some(mut next) = next else { return Ok(()) };
        if let Some(Cause { reason, detail, words }) = cause {
            next = next.because(reason, detail, words);
        }
        let from = self.session.state;
        self.save(world, next).await?;
        metric::moved(&self.session, from);
        Ok(())
    }

    /// Writes the session as it should be now. Goes on trying for as long as the guard is held.
    pub(crate) async fn save(&mut self, world: &World, next: Session) -> Result<(), Broken> {
        let value = rows::session(&next).map_err(|error| Broken::Store(error.to_string()))?;
        let mut extras = self.extras(world, &next).await;
        let mut pause = Duration::from_millis(20);
        loop {
            let mut ops = vec![Op::PutIfRevision {
                key: key(keys::session(&next.id))?,
                value: value.clone(),
                ttl: retention(world, &next),
                revision: self.revision,
            }];
            ops.append(&mut extras.clone());
            let fence = fence(world)?;
            let written = world.ask(world.store.write_fenced(&fence, &ops)).await;
            match written {
                Ok(Committed::Written { revision }) => {
                    (self.session, self.revision) = (next, revision);
                    return Ok(());
                }
                Ok(Committed::FencedOut { .. }) => {
                    // The store knows better than this process.
                    world.loss.tell(Lost::Ended(End::Gone));
                    return Err(Broken::GuardLost);
                }
                Ok(Committed::Conflict { index, .. }) if index > 0 => extras.clear(),
                Ok(Committed::Conflict { .. }) => {
                    // Perhaps an earlier try of this very write, whose answer got lost.
                    let record = world.ask(world.store.get(ops[0].key())).await?;
                    let own = record.filter(|record| record.value == value).ok_or(Broken::Changed)?;
                    (self.session, self.revision) = (next, own.revision);
                    return Ok(());
                }
                Err(Broken::Store(why)) => {
                    tracing::warn!(target: metric::TARGET, session = %next.id, why, "the record could not be written yet");
                    tokio::select! {
                        biased;
                        _ = world.loss.told() => return Err(Broken::GuardLost),
                        () = world.pause(pause) => pause = (pause * 2).min(limits::BACK_OFF),
                    }
                }
                Err(broken) => return Err(broken),
            }
        }
    }

    /// What goes with the last write of a session: its mapping is kept no longer than itself, and what the door had to
    /// say beside it is of no use any more.
    async fn extras(&self, world: &World, next: &Session) -> Vec<Op> {
        if !next.state.is_terminal() {
            return Vec::new();
        }
        let beside = [keys::stop(&next.id), keys::seen(&next.id)].into_iter().flatten();
        let mut extras: Vec<Op> = beside.map(|key| Op::Delete { key }).collect();
        if let Ok(key) = keys::idem(&next.idempotency)
            && let Ok(Some(mapping)) = world.ask(world.store.get(&key)).await
            && rows::read_mapping(&mapping.value).is_ok_and(|id| id == next.id)
        {
            let (value, revision) = (mapping.value, mapping.revision);
            extras.push(Op::PutIfRevision { key, value, ttl: retention(world, next), revision });
        }
        extras
    }
}

/// The proof that every write carries.
fn fence(world: &World) -> Result<Fence, Broken> {
    let permit = world.guard.permit(Duration::ZERO).map_err(|_| Broken::GuardLost)?;
    Ok(permit.fence(Mode::Strict))
}

fn retention(world: &World, next: &Session) -> Option<Ttl> {
    let millis = world.options.retention.as_millis() as u64;
    next.state.is_terminal().then(|| Ttl::from_millis(millis).unwrap_or(Ttl::MAX))
}

fn key(key: lease::Result<lease::Key>) -> Result<lease::Key, Broken> {
    key.map_err(|error| Broken::Store(log::error(error).to_string()))
}
