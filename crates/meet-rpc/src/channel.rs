//! A channel: one unary call with a token, a trace and a deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use tenure_lease::{Clock, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::transport;
use tower::{Service, ServiceExt as _};

use crate::channel_pool::Endpoints;
use crate::{TokenSource, limits};

/// A channel to one endpoint for the generated clients: `MeetingControllerServiceClient::new(channel)`. It carries unary
/// calls.
#[derive(Clone)]
pub struct Channel {
    transport: Transport,
    tokens: Arc<dyn TokenSource>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
pub(crate) enum Transport {
    Network(transport::Channel),
    InProcess(Arc<Endpoints>, String),
}

impl Channel {
    pub(crate) fn new(transport: Transport, tokens: Arc<dyn TokenSource>, clock: Arc<dyn Clock>) -> Self {
        Self { transport, tokens, clock }
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Body>, Status> {
        let deadline = self.clock.sleep_until(self.clock.now() + limits::CALL);
        let mut deadline = Box::pin(deadline);
        let answer = tokio::select! {
            biased;
            answer = async {
                self.sign(&mut request).await?;
                self.transport.call(request).await
            } => answer?,
            () = &mut deadline => return Err(deadline_exceeded()),
        };
        Ok(answer.map(|body| Body::new(Timed { body, deadline })))
    }

    async fn sign(&self, request: &mut Request<Body>) -> Result<(), Status> {
        let token = self.tokens.bearer().await.map_err(|why| Status::unavailable(why.to_string()))?;
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| Status::internal("service token is not a valid header value"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
        // A call made outside any server request starts its own trace.
        if !request.headers().contains_key("traceparent") {
            tenure_service::telemetry::inject(request.headers_mut());
        }
        Ok(())
    }
}

impl Transport {
    async fn call(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        match self {
            Self::Network(channel) => {
                let unreachable = |error: transport::Error| Status::from_error(Box::new(error));
                let mut channel = channel.clone();
                channel.ready().await.map_err(unreachable)?.call(request).await.map_err(unreachable)
            }
            Self::InProcess(endpoints, name) => {
                let gone = || Status::unavailable(format!("no service registered at inproc:{name}"));
                let routes = endpoints.offered(name).ok_or_else(gone)?;
                match routes.oneshot(request).await {
                    Ok(answer) => Ok(answer),
                    Err(never) => match never {},
                }
            }
        }
    }
}

fn deadline_exceeded() -> Status {
    Status::deadline_exceeded(format!("no response within {} s", limits::CALL.as_secs()))
}

impl Service<Request<Body>> for Channel {
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

/// A response body bound by the deadline of its call.
struct Timed {
    body: Body,
    deadline: Pin<Box<Sleep>>,
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
        self.deadline.as_mut().poll(context).map(|()| Some(Err(deadline_exceeded())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
