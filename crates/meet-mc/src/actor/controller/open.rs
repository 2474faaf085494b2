//! Opening a meeting: claim its lease, then read its state.

use std::sync::Arc;

use tenure_keeper::{Error as KeeperError, Guard, Keeper, Terms};
use tenure_lease::{BusyReason, Generation, Key};
use tenure_meet_wire::MeetingId;
use tokio::sync::oneshot;

use super::{Assignment, Rejection};
use crate::actor::limits;
use crate::actor::meeting::{MeetingActor, MeetingOptions, SharedSecrets};
use crate::actor::moving::{Announced, Arrival, Arriving};
use crate::{ControllerState, Ledger, LedgerError, MeetingKeys, ledger, metric};

/// What a meeting is opened with.
pub(super) struct Opening {
    pub(super) keeper: Keeper,
    pub(super) terms: Terms,
    pub(super) shared: ControllerState,
    pub(super) secrets: SharedSecrets,
    pub(super) options: MeetingOptions,
    pub(super) claim: LeaseSource,
}

/// How the lease of a meeting is claimed, and where its settings come from.
pub(super) enum LeaseSource {
    /// GC assigned the meeting: its lease must be free, or held by the generation that GC found dead.
    Assigned(Assignment),
    /// Another controller transfers the lease.
    Announced { arriving: Arriving, arrival: Arc<Arrival>, reply: oneshot::Sender<Announced> },
}

impl Opening {
    pub(super) async fn run(self) -> Result<(Guard, MeetingActor), Rejection> {
        let Self { keeper, terms, shared, secrets, options, claim } = self;
        let (meeting, settings, handlers, guard) = match claim {
            LeaseSource::Assigned(Assignment { meeting, settings, mut handlers, instead_of }) => {
                handlers.truncate(limits::HANDLERS);
                let guard = acquire_assigned(&keeper, terms, &meeting, instead_of).await?;
                (meeting, settings, handlers, guard)
            }
            LeaseSource::Announced { arriving, arrival, reply } => {
                let Arriving { meeting, timeouts, .. } = arriving;
                let unread = |error| not_loaded(&meeting, &error);
                *arrival.seats.write() = ledger::read_seats(&shared, &meeting).await.map_err(unread)?;
                let _caller_gone = reply.send(Announced::Accepted { parked: 0 });
                let key = MeetingKeys::new(&meeting).lease().map_err(|_| Rejection::Unhealthy)?;
                let acquired = keeper.acquire(key, terms, limits::ARRIVAL).await;
                let guard = acquired.map_err(|error| not_acquired(&meeting, error))?;
                let settings = ledger::read_settings(&shared, &meeting, timeouts).await.map_err(unread)?;
                (meeting, settings, Vec::new(), guard)
            }
        };
        let opened = Ledger::open(shared.clone(), guard.share(), &meeting, &settings, &handlers).await;
        let opened = opened.map_err(|error| not_loaded(&meeting, &error))?;
        let actor = MeetingActor::new(shared, secrets, options, guard.share(), opened);
        Ok((guard, actor))
    }
}

/// Claims the lease, from the dead generation if one is named. If that one has ended meanwhile, a free lease is taken and
/// the owner of another generation is left alone.
async fn claim(
    keeper: &Keeper,
    key: Key,
    terms: Terms,
    instead_of: Option<Generation>,
) -> Result<Guard, KeeperError> {
    let Some(dead) = instead_of else { return keeper.try_acquire(key, terms).await };
    match keeper.replace(key.clone(), terms.clone(), dead).await {
        Err(KeeperError::Busy { busy, .. })
            if busy.reason == BusyReason::NotThatGeneration && busy.holder.is_none() =>
        {
            keeper.try_acquire(key, terms).await
        }
        claimed => claimed,
    }
}

async fn acquire_assigned(
    keeper: &Keeper,
    terms: Terms,
    meeting: &MeetingId,
    instead_of: Option<Generation>,
) -> Result<Guard, Rejection> {
    let key = MeetingKeys::new(meeting).lease().map_err(|_| Rejection::Unhealthy)?;
    let clock = keeper.clock().clone();
    let claimed = tokio::select! {
        biased;
        claimed = claim(keeper, key, terms, instead_of) => claimed,
        () = clock.sleep_until(clock.now() + limits::CLAIM) => return Err(Rejection::Unhealthy),
    };
    claimed.map_err(|error| not_acquired(meeting, error))
}

fn not_acquired(meeting: &MeetingId, error: KeeperError) -> Rejection {
    match error {
        KeeperError::Busy { busy, .. } => {
            Rejection::AlreadyOwned { owner: busy.holder.map(|holder| holder.to_string()) }
        }
        error => {
            tracing::warn!(target: metric::TARGET, %meeting, %error, "meeting lease not acquired");
            Rejection::Unhealthy
        }
    }
}

fn not_loaded(meeting: &MeetingId, error: &LedgerError) -> Rejection {
    tracing::warn!(target: metric::TARGET, %meeting, %error, "meeting state not loaded");
    Rejection::Unhealthy
}
