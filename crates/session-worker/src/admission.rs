//! Phase 1 of the migration: the API acquires the lease of the channel before it records the session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_keeper::OsEntropy;
use tenure_lease::{Acquired, Claim, Outcome, Release, Store, Token, Ttl};
use tenure_session::{Admission, AdmissionOutcome, Error, Result, SessionId, Target, Ticket};

use crate::keys;
use crate::session_log::store_error;

/// Acquires `lease:service:{serviceRef}` (or that of the recording) for a session that is about to be recorded. The worker
/// continues the lease with the same token, which is stored in the record.
#[derive(Clone)]
pub struct LeaseAdmission {
    store: Arc<dyn Store>,
    ttl: Duration,
}

impl LeaseAdmission {
    /// Creates an admission in this store. A lease lasts for `service_ttl` until the worker continues it.
    pub fn new(store: Arc<dyn Store>, service_ttl: Duration) -> Self {
        Self { store, ttl: service_ttl }
    }
}

#[async_trait]
impl Admission for LeaseAdmission {
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<AdmissionOutcome> {
        let ttl = Ttl::from_millis(self.ttl.as_millis() as u64).map_err(store_error)?;
        let (key, holder) =
            (keys::dedup(target).map_err(store_error)?, keys::holder(session).map_err(store_error)?);
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), holder, token.clone(), ttl);
        match self.store.acquire(claim).await {
            Ok(Acquired::Granted(_)) => Ok(AdmissionOutcome::Granted(Ticket::new(token.reveal()))),
            Ok(Acquired::Busy(_)) => Ok(AdmissionOutcome::Busy),
            Err(failed) => {
                if failed.outcome() == Outcome::Indeterminate {
                    // The lease may have been granted: it is released here or expires.
                    drop(self.store.release(Release::new(key, token)).await);
                }
                Err(store_error(failed))
            }
        }
    }

    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()> {
        let token =
            Token::parse(ticket.reveal()).map_err(|_| Error::Unavailable("malformed ticket".to_owned()))?;
        let release = Release::new(keys::dedup(target).map_err(store_error)?, token);
        self.store.release(release).await.map(drop).map_err(store_error)
    }
}
