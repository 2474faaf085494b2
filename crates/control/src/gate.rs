//! The REST proof of ownership as a tower layer, for this API and for any other.
//!
//! The class table is a value: which routes change something is said by whoever mounts the layer. A route that nobody
//! classed counts as a change.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::Response;
use futures_util::future::{Either, Ready, ready};
use http::{HeaderMap, Method, Request};
use service::Caller;
use tower::{Layer, Service};

use crate::class::{Class, Source};
use crate::desk::{Hand, Inner, LEASE_HEADER, LEASE_ID_HEADER};
use crate::wire;

/// Which routes change something.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    routes: HashMap<String, Vec<(Method, Class)>>,
    reading: Vec<Method>,
}

impl Classes {
    /// A table in which everything is a change until it is said otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// A table in which GET and HEAD look, unless a route says otherwise.
    pub fn by_method() -> Self {
        Self { reading: vec![Method::GET, Method::HEAD], ..Self::default() }
    }

    /// Classes a route by its method and its pattern, as the router has it.
    #[must_use]
    pub fn route(mut self, method: Method, pattern: &str, class: Class) -> Self {
        self.routes.entry(pattern.to_owned()).or_default().push((method, class));
        self
    }

    /// The class of a route. HEAD is what GET is; OPTIONS is never a change.
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

/// Lets a change through only with the proof of ownership, while somebody holds the lease.
#[derive(Clone)]
pub struct GateLayer {
    inner: Arc<Inner>,
    classes: Arc<Classes>,
}

impl GateLayer {
    pub(crate) fn new(inner: Arc<Inner>, classes: Classes) -> Self {
        Self { inner, classes: Arc::new(classes) }
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
        let GateLayer { inner, classes } = &self.layer;
        let matched = request.extensions().get::<MatchedPath>();
        let pattern = matched.map_or(request.uri().path(), MatchedPath::as_str);
        if classes.class(request.method(), pattern) == Class::Mutate {
            let hand = hand(request.headers(), request.extensions().get::<Caller>());
            let judged = inner.ready().and_then(|()| inner.judge(&hand, pattern));
            if let Err(refusal) = judged {
                return Either::Left(ready(Ok(wire::rest_error(&refusal, inner.now()))));
            }
        }
        Either::Right(self.service.call(request))
    }
}

/// Who a request comes from, and what it proves.
pub(crate) fn hand(headers: &HeaderMap, caller: Option<&Caller>) -> Hand {
    // A header that is no text proves nothing, and is not the same as none.
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned());
    Hand {
        source: Source::Rest,
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
    fn what_nobody_classed_is_a_change() {
        let strict = Classes::new().route(Method::GET, "/a", Class::Read);
        assert_eq!(strict.class(&Method::GET, "/a"), Class::Read);
        assert_eq!(strict.class(&Method::HEAD, "/a"), Class::Read);
        assert_eq!(strict.class(&Method::POST, "/a"), Class::Mutate);
        assert_eq!(strict.class(&Method::GET, "/b"), Class::Mutate);
        assert_eq!(strict.class(&Method::OPTIONS, "/b"), Class::Exempt);
        let easy = Classes::by_method().route(Method::GET, "/trigger", Class::Mutate);
        assert_eq!(easy.class(&Method::GET, "/b"), Class::Read);
        assert_eq!(easy.class(&Method::GET, "/trigger"), Class::Mutate);
        assert_eq!(easy.class(&Method::DELETE, "/b"), Class::Mutate);
    }
}
