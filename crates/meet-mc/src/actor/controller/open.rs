//! Opening a meeting: claim its lease, then read its state.

use tenure_keeper::{Error as KeeperError, Guard, Keeper, Terms};
use tenure_lease::{BusyReason, Generation, Key};

use super::{Assignment, Rejection};
use crate::actor::limits;
use crate::actor::meeting::{MeetingActor, MeetingOptions, SharedSecrets};
use crate::{ControllerState, Ledger, MeetingKeys, metric};

/// What a meeting is opened with.
pub(super) struct Opening {
    pub(super) keeper: Keeper,
    pub(super) terms: Terms,
    pub(super) shared: ControllerState,
    pub(super) secrets: SharedSecrets,
    pub(super) options: MeetingOptions,
    pub(super) assignment: Assignment,
}

impl Opening {
    pub(super) async fn run(self) -> Result<(Guard, MeetingActor), Rejection> {
        let Self { keeper, terms, shared, secrets, options, assignment } = self;
        let Assignment { meeting, settings, mut handlers, instead_of } = assignment;
        handlers.truncate(limits::HANDLERS);
        let key = MeetingKeys::new(&meeting).lease().map_err(|_| Rejection::Unhealthy)?;
        let clock = keeper.clock().clone();
        let claimed = tokio::select! {
            biased;
            claimed = claim(&keeper, key, terms, instead_of) => claimed,
            () = clock.sleep_until(clock.now() + limits::CLAIM) => return Err(Rejection::Unhealthy),
        };
        let guard = claimed.map_err(|error| match error {
            KeeperError::Busy { busy, .. } => {
                Rejection::AlreadyOwned { owner: busy.holder.map(|holder| holder.to_string()) }
            }
            error => {
                tracing::warn!(target: metric::TARGET, %meeting, %error, "meeting lease not acquired");
                Rejection::Unhealthy
            }
        })?;
        let opened = Ledger::open(shared.clone(), guard.share(), &meeting, &settings, &handlers).await;
        let opened = opened.map_err(|error| {
            tracing::warn!(target: metric::TARGET, %meeting, %error, "meeting state not loaded");
            Rejection::Unhealthy
        })?;
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
