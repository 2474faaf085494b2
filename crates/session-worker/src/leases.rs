//! The leases of a session: its channel or recording first, then a tuner, all or none.

use std::time::Duration;

use lease::{Error as StoreError, Refusal, Token, Ttl};
use lease_keeper::{Bundle, Error, Guard, Policy, Terms};
use session::{Detail, Kind, Session};

use crate::keys;
use crate::world::World;

/// What came of taking them.
pub(crate) enum Taken {
    /// All are held.
    All { leases: Bundle, slot: Option<u32> },
    /// Somebody else has one; nothing is held.
    Busy(Detail),
    /// The store did not say; nothing is assumed held.
    Failed(String),
}

/// Takes the leases of a session. Nothing is waited for.
pub(crate) async fn take(world: &World, session: &Session) -> Taken {
    let dedup = match dedup(world, session).await {
        Ok(guard) => guard,
        Err(Error::Busy { .. }) => return Taken::Busy(Detail::RejectedBusy),
        Err(error) => return Taken::Failed(error.to_string()),
    };
    let mut leases = Bundle::from(vec![dedup]);
    if session.kind() == Kind::Recording {
        return Taken::All { leases, slot: None };
    }
    let terms = match terms(world, session) {
        Ok(terms) => terms,
        Err(error) => return Taken::Failed(error.to_string()),
    };
    match world.slots.take_from(0, terms, Duration::ZERO).await {
        Ok(slot) => {
            let index = slot.index();
            leases.add(slot.into_guard());
            Taken::All { leases, slot: Some(index) }
        }
        Err(error) => {
            // What cannot be given back now is the reaper's.
            drop(leases.release().await);
            match error {
                Error::Busy { .. } => Taken::Busy(Detail::RejectedNoTuner),
                error => Taken::Failed(error.to_string()),
            }
        }
    }
}

/// The lease of the channel. What the door took in phase 1 is gone on with; if it is over, the channel is asked for
/// like any other.
async fn dedup(world: &World, session: &Session) -> Result<Guard, Error> {
    let (key, terms) = (keys::dedup(&session.target)?, terms(world, session)?);
    let ticket = session.ticket.as_ref().and_then(|ticket| Token::parse(ticket.reveal()).ok());
    if let Some(token) = ticket {
        match world.keeper.try_acquire(key.clone(), terms.clone().token(token)).await {
            Err(Error::Store(StoreError::Refused(Refusal::TokenSpent)) | Error::Lost { .. }) => {}
            other => return other,
        }
    }
    world.keeper.try_acquire(key, terms).await
}

fn terms(world: &World, session: &Session) -> Result<Terms, Error> {
    let options = &world.options;
    let ttl = Ttl::from_millis(options.lease_ttl.as_millis() as u64)?;
    Ok(Terms::new(ttl)
        .heartbeat(options.heartbeat)
        .together(options.heartbeat / 2)
        .policy(Policy::Abort)
        .holder(keys::holder(&session.id)?))
}

/// Which lease a lost key was.
pub(crate) fn lost_detail(key: &lease::Key) -> Detail {
    match keys::slot_in(key) {
        Some(_) => Detail::TunerLeaseLost,
        None => Detail::ServiceLeaseLost,
    }
}
