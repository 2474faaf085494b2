//! A bounded channel as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;

/// What comes out of a channel, until its senders are gone.
pub(crate) struct Queue<T>(mpsc::Receiver<T>);

impl<T> Queue<T> {
    pub(crate) const fn new(receiver: mpsc::Receiver<T>) -> Self {
        Self(receiver)
    }
}

impl<T> Stream for Queue<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}
