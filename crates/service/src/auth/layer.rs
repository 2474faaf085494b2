//! The layer that adds a [`Caller`](crate::Caller) to requests with valid credentials.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use http::Request;
use tower::{Layer, Service};

use super::{Auth, Verdict};
use crate::caller::{Caller, Rejected};
use crate::context::Context;
use crate::net::ClientAddress;

/// Adds [`Caller`] to the extensions of requests with valid credentials and limits their rate. Other requests pass
/// without one: handlers that take a caller as an argument reject them.
pub fn auth_layer(auth: Arc<Auth>) -> AuthLayer {
    AuthLayer(auth)
}

/// See [`auth_layer`].
#[derive(Clone, Debug)]
pub struct AuthLayer(Arc<Auth>);

/// See [`auth_layer`].
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    auth: Arc<Auth>,
    inner: S,
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService { auth: self.0.clone(), inner }
    }
}

impl<S> Service<Request<Body>> for AuthService<S>
where
    S: Service<Request<Body>, Response = Response>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // Only this layer sets the caller.
        request.extensions_mut().remove::<Caller>();
        match self.auth.authenticate(request.method(), request.headers()) {
            Verdict::Anonymous => {}
            Verdict::InvalidToken => {
                let client = ClientAddress::of(request.extensions());
                if let Err(problem) = self.auth.reject_invalid_token(client) {
                    return Either::Left(ready(Ok(problem.into_response())));
                }
            }
            Verdict::Rejected(problem) => {
                request.extensions_mut().insert(Rejected(problem));
            }
            Verdict::Authenticated(caller) => {
                if let Some(context) = Context::current() {
                    context.set_caller(&caller.name);
                }
                if let Err(problem) = self.auth.admit(&caller) {
                    return Either::Left(ready(Ok(problem.into_response())));
                }
                request.extensions_mut().insert(caller);
            }
        }
        Either::Right(self.inner.call(request))
    }
}
