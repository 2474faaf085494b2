//! Request bodies with a bound on their size and on the time they take.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::future::ready;
use futures_util::stream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use crate::clock;
use crate::code::Code;
use crate::problem::Problem;

/// Why a body was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// More bytes than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// Incomplete at the timeout.
    #[error("the body did not arrive within {} ms", limit.as_millis())]
    TooSlow {
        /// The limit.
        limit: Duration,
    },
}

impl BodyError {
    /// The problem for an error that has a body error among its causes.
    pub(crate) fn problem_of(error: &(dyn std::error::Error + 'static)) -> Option<Problem> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(own) = error.downcast_ref::<Self>() {
                return Some(own.problem());
            }
            cause = error.source();
        }
        None
    }

    /// A body that fails with this error at the first read, so that authentication and routing come first.
    pub(crate) fn body(self) -> Body {
        Body::from_stream(stream::once(ready(Err::<Bytes, _>(self))))
    }

    pub(crate) fn problem(self) -> Problem {
        match self {
            Self::TooLarge { limit } => {
                Problem::new(Code::BODY_TOO_LARGE, self.to_string()).with("limitBytes", limit)
            }
            Self::TooSlow { limit } => Problem::new(Code::REQUEST_TIMEOUT, self.to_string())
                .with("limitMs", u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// A body that ends in a [`BodyError`] when it is too large or too slow.
pub(crate) struct Bounded<B> {
    inner: B,
    left: u64,
    limit: u64,
    time: Duration,
    /// Starts with the first read, so that the time of the handler does not count.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> Bounded<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    /// The body behind its bounds, or the error if it announces more than is allowed.
    pub(crate) fn wrap(inner: B, limit: u64, time: Duration) -> Result<Body, BodyError> {
        if inner.size_hint().lower() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        if inner.is_end_stream() {
            return Ok(Body::empty());
        }
        Ok(Body::new(Self { inner, left: limit, limit, time, timer: None }))
    }
}

impl<B> HttpBody for Bounded<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) else {
            let timer = this.timer.get_or_insert_with(|| Box::pin(clock::sleep(this.time)));
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(Some(Err(BodyError::TooSlow { limit: this.time }.into())));
        };
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            this.left = this.left.checked_sub(length).ok_or(BodyError::TooLarge { limit: this.limit })?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn chunks(
        chunks: &'static [&'static str],
    ) -> impl HttpBody<Data = Bytes, Error = std::io::Error> + Unpin {
        StreamBody::new(stream::iter(chunks.iter().map(|chunk| Ok(Frame::data(Bytes::from(*chunk))))))
    }

    const TIME: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_body_with_a_too_large_content_length_is_refused_before_reading() {
        let refused = Bounded::wrap(Full::new(Bytes::from("12345")), 4, TIME).unwrap_err();
        assert_eq!(refused.problem().code, Code::BODY_TOO_LARGE);
        assert!(Bounded::wrap(Full::new(Bytes::from("1234")), 4, TIME).is_ok());
    }

    #[tokio::test]
    async fn a_chunked_body_that_is_too_large_is_cut_off() {
        let body = Bounded::wrap(chunks(&["123", "45"]), 4, TIME).unwrap();
        let error = body.collect().await.unwrap_err();
        assert_eq!(BodyError::problem_of(&error).unwrap().code, Code::BODY_TOO_LARGE);
        let body = Bounded::wrap(chunks(&["123", "4"]), 4, TIME).unwrap();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "1234");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_cut_off() {
        let never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        let error = Bounded::wrap(never, 4, TIME).unwrap().collect().await.unwrap_err();
        assert_eq!(BodyError::problem_of(&error).unwrap().code, Code::REQUEST_TIMEOUT);
    }
}
