//! Who is let in to a service.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderMap, header};
use meet_wire::jwt::{JwtError, ServiceClaims, ServiceType};
use tonic::Status;
use tonic::service::Routes;

use crate::access::rule_of;
use crate::{Keyring, Part};

/// Stands in front of the services of one part: a service token with the scope of that part, then the one kind of caller that a service
/// has. What no rule names is not offered.
#[derive(Clone)]
pub struct Gatekeeper {
    part: Part,
    keys: Keyring,
}

/// Who called, in the extensions of a request that was let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The client.
    pub client_id: String,
    /// Which part it is.
    pub service_type: ServiceType,
}

impl Gatekeeper {
    /// A gatekeeper for the services of a part.
    pub fn new(part: Part, keys: Keyring) -> Self {
        Self { part, keys }
    }

    /// The same services, behind it.
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
        let rule = rule_of(path).filter(|rule| rule.offered_by == self.part);
        let rule = rule.ok_or_else(|| Status::unimplemented("there is no such service here"))?;
        let invalid = |reason| {
            self.part.validated("failure", reason);
            tracing::debug!(reason, service = rule.service, "a call was refused");
            Status::unauthenticated("Invalid token")
        };
        let token = token.ok_or_else(|| invalid("missing"))?;
        let claims: ServiceClaims =
            self.keys.check(token).await.map_err(|why: JwtError| invalid(why.as_str()))?;
        if !claims.allows(self.part.scope()) {
            return Err(invalid("scope"));
        }
        self.part.validated("success", "none");
        if claims.service_type != rule.caller {
            self.part.wrong_caller(rule.service, rule.caller, claims.service_type);
            return Err(Status::permission_denied("not for this kind of caller"));
        }
        Ok(Peer { client_id: claims.sub, service_type: claims.service_type })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
