//! What the caller of a gRPC request may do.

use tenure_lease::{Acquired, Key, Status};
use tenure_service::{Area, Caller, Code, Level, Problem};
use tonic::Request;

use crate::error::ApiError;
use crate::keyspace::Keyspace;
use crate::reserved;
use crate::service::LeaseService;
use crate::watch::Visibility;

/// The access of a caller whose level suffices for the verb.
#[derive(Clone, Copy)]
pub(super) struct Access {
    admin: bool,
}

impl Access {
    /// The access of the caller, if it includes `level`.
    pub(super) fn check<T>(request: &Request<T>, level: Level) -> Result<Self, ApiError> {
        let caller = request.extensions().get::<Caller>().ok_or_else(|| {
            Problem::new(Code::UNAUTHENTICATED, "no valid token; send `authorization: Bearer TOKEN`")
        })?;
        caller.require(Area::Lease, level)?;
        Ok(Self { admin: caller.scopes.allows(Area::Lease, Level::Admin) })
    }

    /// Refuses a reserved key unless the caller is an administrator.
    pub(super) fn require_key(self, key: &Key) -> Result<(), ApiError> {
        match self.admin {
            true => Ok(()),
            false => Ok(reserved::check(key)?),
        }
    }

    /// Whether the caller may read a record.
    pub(super) fn may_read(self, key: &Key) -> bool {
        self.admin || !reserved::is_reserved(key)
    }

    /// The part of a status that the caller may read.
    pub(super) fn redact(self, status: Status) -> Status {
        if self.admin { status } else { reserved::redact(status) }
    }

    /// The part of the answer to a claim that the caller may read.
    pub(super) fn redact_busy(self, acquired: Acquired) -> Acquired {
        match acquired {
            Acquired::Busy(busy) if !self.admin => Acquired::Busy(reserved::redact_busy(busy)),
            acquired => acquired,
        }
    }

    /// The keys of records that the caller names.
    pub(super) const fn keyspace(self, service: &LeaseService) -> Keyspace {
        service.keyspace(self.admin)
    }

    /// Refuses what only an operator or a service of Tenure may do.
    pub(super) fn require_admin(self, what: &str) -> Result<(), ApiError> {
        match self.admin {
            true => Ok(()),
            false => {
                let detail = format!("{what} needs the scope lease:admin");
                Err(Problem::new(Code::FORBIDDEN, detail).with("requiredScope", "lease:admin").into())
            }
        }
    }

    /// Which changes the caller may watch.
    pub(super) const fn visibility(self) -> Visibility {
        if self.admin { Visibility::All } else { Visibility::Public }
    }
}
