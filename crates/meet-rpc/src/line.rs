//! One line: a call with a token and a trace, answered in time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use lease::{Clock, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{Service, ServiceExt as _};

use crate::lines::Exchange;
use crate::{Tokens, limits};

/// The way to one endpoint, for the generated clients: `MeetingControllerServiceClient::new(line)`. It bears unary calls.
#[derive(Clone)]
pub struct Line {
    way: Way,
    tokens: Arc<dyn Tokens>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
pub(crate) enum Way {
    Dialled(Channel),
    Here(Arc<Exchange>, String),
}

impl Line {
    pub(crate) fn new(way: Way, tokens: Arc<dyn Tokens>, clock: Arc<dyn Clock>) -> Self {
        Self { way, tokens, clock }
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Body>, Status> {
        let late = self.clock.sleep_until(self.clock.now() + limits::CALL);
        let mut late = Box::pin(late);
        let answer = tokio::select! {
            biased;
            answer = async {
                self.sign(&mut request).await?;
                self.way.carry(request).await
            } => answer?,
            () = &mut late => return Err(too_late()),
        };
        Ok(answer.map(|body| Body::new(Timed { body, late })))
    }

    async fn sign(&self, request: &mut Request<Body>) -> Result<(), Status> {
        let token = self.tokens.bearer().await.map_err(|why| Status::unavailable(why.to_string()))?;
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| Status::internal("the service token is no text"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
        // A caller that answers no request of the server knows its trace itself.
        if !request.headers().contains_key("traceparent") {
            service::telemetry::inject(request.headers_mut());
        }
        Ok(())
    }
}

impl Way {
    async fn carry(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        match self {
            Self::Dialled(channel) => {
                let unreachable = |error: tonic::transport::Error| Status::from_error(Box::new(error));
                let mut channel = channel.clone();
                channel.ready().await.map_err(unreachable)?.call(request).await.map_err(unreachable)
            }
            Self::Here(exchange, name) => {
                let gone = || Status::unavailable(format!("nobody answers to inproc:{name}"));
                let routes = exchange.offered(name).ok_or_else(gone)?;
                match routes.oneshot(request).await {
                    Ok(answer) => Ok(answer),
                    Err(never) => match never {},
                }
            }
        }
    }
}

fn too_late() -> Status {
    Status::deadline_exceeded(format!("no answer within {} s", limits::CALL.as_secs()))
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// The body of an answer, which is late together with it.
struct Timed {
    body: Body,
    late: Pin<Box<Sleep>>,
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.late.as_mut().poll(context).map(|()| Some(Err(too_late())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
