//! Authorizes calls to a service.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderMap, header};
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::jwt::{JwtError, ServiceClaims, ServiceType};
use tonic::Status;
use tonic::service::Routes;

use crate::access::rule_of;
use crate::{Keyring, ServiceRole};

/// Guards the services of one role. A call needs a service token with the scope of the role, and must come from the service type
/// that the service's rule names. A service without a rule is not exposed.
#[derive(Clone)]
pub struct Gatekeeper {
    role: ServiceRole,
    keys: Keyring,
}

/// The authenticated caller, in the extensions of an admitted request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The client id.
    pub client_id: String,
    /// Its service type.
    pub service_type: ServiceType,
}

impl Gatekeeper {
    /// Creates a gatekeeper for the services of a role.
    pub fn new(role: ServiceRole, keys: Keyring) -> Self {
        Self { role, keys }
    }

    /// Wraps the services.
    pub fn guard(self, routes: Routes) -> Routes {
        let keeper = Arc::new(self);
        let layer = from_fn(move |request: Request, next: Next| {
            let keeper = keeper.clone();
            async move { keeper.pass(request, next).await }
        });
        Routes::from(routes.into_axum_router().layer(layer))
    }

    async fn pass(&self, request: Request, next: Next) -> Response {
        let (mut parts, body) = request.into_parts();
        match self.judge(parts.uri.path(), bearer(&parts.headers)).await {
            Ok(peer) => {
                parts.extensions.insert(peer);
                next.run(Request::from_parts(parts, body)).await
            }
            Err(status) => status.into_http(),
        }
    }

    async fn judge(&self, path: &str, token: Option<&str>) -> Result<Peer, Status> {
        let rule = rule_of(path).filter(|rule| rule.offered_by == self.role);
        let rule = rule.ok_or_else(|| Status::unimplemented("unknown service"))?;
        let invalid = |reason| {
            self.role.validated("failure", reason);
            tracing::debug!(reason, service = rule.service, "call rejected");
            Status::unauthenticated("Invalid token")
        };
        let token = token.ok_or_else(|| invalid("missing"))?;
        let claims: ServiceClaims =
            self.keys.check(token).await.map_err(|why: JwtError| invalid(why.as_str()))?;
        if !claims.allows(self.role.scope()) {
            return Err(invalid("scope"));
        }
        self.role.validated("success", "none");
        if !rule.admits(claims.service_type) && !broken(Break::AdmitsAnyCaller) {
            self.role.wrong_caller(rule.service, rule.caller, claims.service_type);
            return Err(Status::permission_denied("this service type may not call the service"));
        }
        Ok(Peer { client_id: claims.sub, service_type: claims.service_type })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
