//! The REST proof of ownership as a tower layer, for this API and for others.
//!
//! The class table is an argument of the layer. Routes that are not in the table count as mutating.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::Response;
use futures_util::future::{Either, Ready, ready};
use http::{HeaderMap, Method, Request};
use tenure_service::Caller;
use tower::{Layer, Service};

use crate::class::{Class, InputSource};
use crate::service::{ControlService, LEASE_HEADER, LEASE_ID_HEADER, Requester};
use crate::wire;

/// The classes of routes.
#[derive(Clone, Debug, Default)]
pub struct RouteClasses {
    routes: HashMap<String, Vec<(Method, Class)>>,
    reading: Vec<Method>,
}

impl RouteClasses {
    /// A table in which unlisted routes are mutating.
    pub fn new() -> Self {
        Self::default()
    }

    /// A table in which unlisted GET and HEAD routes only read.
    pub fn by_method() -> Self {
        Self { reading: vec![Method::GET, Method::HEAD], ..Self::default() }
    }

    /// Sets the class of a route, given by its method and its router pattern.
    #[must_use]
    pub fn route(mut self, method: Method, pattern: &str, class: Class) -> Self {
        self.routes.entry(pattern.to_owned()).or_default().push((method, class));
        self
    }

    /// The class of a route. HEAD has the class of GET; OPTIONS is never mutating.
    pub fn class(&self, method: &Method, pattern: &str) -> Class {
        if method == Method::OPTIONS {
            return Class::Exempt;
        }
        let like = |known: &Method| known == method || (method == Method::HEAD && known == Method::GET);
        let listed =
            self.routes.get(pattern).and_then(|methods| methods.iter().find(|(known, _)| like(known)));
        match listed {
            Some((_, class)) => *class,
            None if self.reading.contains(method) => Class::Read,
            None => Class::Mutate,
        }
    }

    /// Every route in the table.
    pub fn routes(&self) -> impl Iterator<Item = (&str, &Method, Class)> {
        self.routes.iter().flat_map(|(pattern, methods)| {
            methods.iter().map(move |(method, class)| (pattern.as_str(), method, *class))
        })
    }
}

/// While the lease is active, lets mutating requests pass only with proof of ownership.
#[derive(Clone)]
pub struct GateLayer {
    service: Arc<ControlService>,
    classes: Arc<RouteClasses>,
}

impl GateLayer {
    pub(crate) fn new(service: Arc<ControlService>, classes: RouteClasses) -> Self {
        Self { service, classes: Arc::new(classes) }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, service: S) -> Gate<S> {
        Gate { layer: self.clone(), service }
    }
}

/// A service behind the gate.
#[derive(Clone)]
pub struct Gate<S> {
    layer: GateLayer,
    service: S,
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let GateLayer { service, classes } = &self.layer;
        let matched = request.extensions().get::<MatchedPath>();
        let pattern = matched.map_or(request.uri().path(), MatchedPath::as_str);
        if classes.class(request.method(), pattern) == Class::Mutate {
            let requester = requester_of(request.headers(), request.extensions().get::<Caller>());
            let judged =
                service.check_serving().and_then(|()| service.authorize_request(&requester, pattern));
            if let Err(refusal) = judged {
                return Either::Left(ready(Ok(wire::rest_error(&refusal, service.now()))));
            }
        }
        Either::Right(self.service.call(request))
    }
}

/// The requester of an HTTP request.
pub(crate) fn requester_of(headers: &HeaderMap, caller: Option<&Caller>) -> Requester {
    // A header that is not text is a wrong token, which differs from a missing one.
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned());
    Requester {
        source: InputSource::Rest,
        client: None,
        token: text(LEASE_HEADER),
        lease_id: text(LEASE_ID_HEADER),
        principal: caller.map_or("", |caller| caller.name.as_str()).into(),
        write: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_routes_are_mutating() {
        let strict = RouteClasses::new().route(Method::GET, "/a", Class::Read);
        assert_eq!(strict.class(&Method::GET, "/a"), Class::Read);
        assert_eq!(strict.class(&Method::HEAD, "/a"), Class::Read);
        assert_eq!(strict.class(&Method::POST, "/a"), Class::Mutate);
        assert_eq!(strict.class(&Method::GET, "/b"), Class::Mutate);
        assert_eq!(strict.class(&Method::OPTIONS, "/b"), Class::Exempt);
        let by_method = RouteClasses::by_method().route(Method::GET, "/trigger", Class::Mutate);
        assert_eq!(by_method.class(&Method::GET, "/b"), Class::Read);
        assert_eq!(by_method.class(&Method::GET, "/trigger"), Class::Mutate);
        assert_eq!(by_method.class(&Method::DELETE, "/b"), Class::Mutate);
    }
}
