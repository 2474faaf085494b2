//! What the caller of a gRPC request may do.

use lease::{Key, Status};
use service::{Area, Caller, Code, Level, Problem};
use tonic::Request;

use crate::feed::Sight;
use crate::reserved;
use crate::trouble::Trouble;

/// The rights of one request, after the check of the level that the verb needs.
#[derive(Clone, Copy)]
pub(super) struct Rights {
    admin: bool,
}

impl Rights {
    /// The rights of whoever sent the request, if they include `level`.
    pub(super) fn check<T>(request: &Request<T>, level: Level) -> Result<Self, Trouble> {
        let caller = request.extensions().get::<Caller>().ok_or_else(|| {
            Problem::new(Code::UNAUTHENTICATED, "no valid token; send `authorization: Bearer TOKEN`")
        })?;
        caller.require(Area::Lease, level)?;
        Ok(Self { admin: caller.scopes.allows(Area::Lease, Level::Admin) })
    }

    /// Refuses a key of Tenure's own services, unless the caller may act for them.
    pub(super) fn key(self, key: &Key) -> Result<(), Trouble> {
        match self.admin {
            true => Ok(()),
            false => Ok(reserved::refuse(key)?),
        }
    }

    /// Whether the caller may read a record.
    pub(super) fn reads(self, key: &Key) -> bool {
        self.admin || !reserved::is_reserved(key)
    }

    /// What the caller may see of a key.
    pub(super) fn shown(self, status: Status) -> Status {
        if self.admin { status } else { reserved::hide(status) }
    }

    /// Refuses what only an operator or a service of Tenure may do.
    pub(super) fn force(self, what: &str) -> Result<(), Trouble> {
        match self.admin {
            true => Ok(()),
            false => {
                let detail = format!("{what} needs the scope lease:admin");
                Err(Problem::new(Code::FORBIDDEN, detail).with("requiredScope", "lease:admin").into())
            }
        }
    }

    /// What the caller's watches show.
    pub(super) const fn sight(self) -> Sight {
        if self.admin { Sight::Everything } else { Sight::Public }
    }
}
