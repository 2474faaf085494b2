//! Phase 1 of the migration: the door takes the lease of the channel before it records the session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Acquired, Claim, Happened, Release, Store, Token, Ttl};
use lease_keeper::OsEntropy;
use session::{Admission, Admitted, Error, Result, SessionId, Target, Ticket};

use crate::keys;
use crate::log::error;

/// Takes `lease:service:{serviceRef}` (or that of the recording) for a session that is about to be recorded. The worker
/// goes on with the same token, which travels in the record.
#[derive(Clone)]
pub struct LeaseAdmission {
    store: Arc<dyn Store>,
    ttl: Duration,
}

impl LeaseAdmission {
    /// An admission in this store; what it takes lasts for `service_ttl` until the worker goes on with it.
    pub fn new(store: Arc<dyn Store>, service_ttl: Duration) -> Self {
        Self { store, ttl: service_ttl }
    }
}

#[async_trait]
impl Admission for LeaseAdmission {
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<Admitted> {
        let ttl = Ttl::from_millis(self.ttl.as_millis() as u64).map_err(error)?;
        let (key, holder) = (keys::dedup(target).map_err(error)?, keys::holder(session).map_err(error)?);
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), holder, token.clone(), ttl);
        match self.store.acquire(claim).await {
            Ok(Acquired::Granted(_)) => Ok(Admitted::Yes(Ticket::new(token.reveal()))),
            Ok(Acquired::Busy(_)) => Ok(Admitted::Busy),
            Err(unheard) => {
                if unheard.happened() == Happened::Maybe {
                    // What this may have brought is given back, or ends with its TTL.
                    drop(self.store.release(Release::new(key, token)).await);
                }
                Err(error(unheard))
            }
        }
    }

    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()> {
        let token = Token::parse(ticket.reveal())
            .map_err(|_| Error::Unavailable("the ticket is not one of this house".to_owned()))?;
        let release = Release::new(keys::dedup(target).map_err(error)?, token);
        self.store.release(release).await.map(drop).map_err(error)
    }
}
