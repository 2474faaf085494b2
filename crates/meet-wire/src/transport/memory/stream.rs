//! The streams of an in-memory session.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::link::{Arrival, Link};
use super::{DEPTH, End, ended};
use crate::transport::{RecvStream, SendStream, TransportError};

pub(super) fn stream(link: &Arc<Link>, end: &End) -> (Box<dyn SendStream>, Box<dyn RecvStream>) {
    let (sender, receiver) = mpsc::channel(DEPTH);
    let (reset, on_reset) = watch::channel(None);
    let (stop, on_stop) = watch::channel(None);
    let (read, on_read) = watch::channel(false);
    let (link, end) = (link.clone(), end.clone());
    (
        Box::new(Sending {
            sender: Some(sender),
            reset,
            on_stop,
            on_read,
            link: link.clone(),
            end: end.clone(),
        }),
        Box::new(Receiving { receiver, next: None, left: Bytes::new(), stop, read, on_reset, link, end }),
    )
}

/// Waits for a code from the other half of a stream. Without one, waits forever.
async fn code(codes: &mut watch::Receiver<Option<u32>>) -> TransportError {
    match codes.wait_for(Option::is_some).await.map(|code| *code) {
        Ok(code) => TransportError::Reset(code),
        Err(_) => std::future::pending().await,
    }
}

struct Sending {
    sender: Option<mpsc::Sender<(Arrival, Bytes)>>,
    reset: watch::Sender<Option<u32>>,
    on_stop: watch::Receiver<Option<u32>>,
    /// Whether the receiver has read everything.
    on_read: watch::Receiver<bool>,
    link: Arc<Link>,
    end: End,
}

#[async_trait]
impl SendStream for Sending {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        let Some(sender) = &self.sender else { return Err(TransportError::Reset(None)) };
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            stopped = code(&mut self.on_stop) => Err(stopped),
            room = sender.reserve() => {
                room.map_err(|_| TransportError::Reset(None))?.send((self.link.data(bytes.len()), bytes));
                Ok(())
            }
        }
    }

    fn finish(&mut self) {
        self.sender = None;
    }

    fn reset(&mut self, code: u32) {
        self.sender = None;
        // A stream that was reset or read to its end stays as it is.
        if !*self.on_read.borrow() && self.reset.borrow().is_none() {
            self.reset.send_replace(Some(code));
        }
    }

    async fn acknowledged(&mut self) {
        tokio::select! {
            // An error means that the receiver is gone.
            _ = self.on_read.wait_for(|read| *read) => {}
            _ = code(&mut self.on_stop) => {}
            _ = ended(&self.end) => {}
        }
    }

    fn set_priority(&mut self, _priority: i32) {
        // Every stream of a pair has its own channel, so none delays another.
    }
}

struct Receiving {
    receiver: mpsc::Receiver<(Arrival, Bytes)>,
    /// Data that has left the sender and has not arrived.
    next: Option<(Arrival, Bytes)>,
    left: Bytes,
    stop: watch::Sender<Option<u32>>,
    read: watch::Sender<bool>,
    on_reset: watch::Receiver<Option<u32>>,
    link: Arc<Link>,
    end: End,
}

/// Waits until data has arrived.
async fn arrived(link: &Link, arrival: Arrival) {
    if let (Arrival::At(at), Some(clock)) = (arrival, link.clock()) {
        clock.sleep_until(at).await;
    }
}

/// The next data in order. Cancel safe: what was taken is kept in `next`.
async fn take(
    receiver: &mut mpsc::Receiver<(Arrival, Bytes)>,
    next: &mut Option<(Arrival, Bytes)>,
    link: &Link,
) -> Option<Bytes> {
    if next.is_none() {
        *next = receiver.recv().await;
    }
    let arrival = next.as_ref()?.0;
    arrived(link, arrival).await;
    next.take().map(|(_, bytes)| bytes)
}

#[async_trait]
impl RecvStream for Receiving {
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError> {
        if let Some(code) = *self.on_reset.borrow() {
            return Err(TransportError::Reset(Some(code)));
        }
        if self.stop.borrow().is_some() {
            return Ok(None);
        }
        if self.left.is_empty() {
            // Data written before a close is delivered first. A real network does not guarantee that.
            let came = tokio::select! {
                biased;
                reset = code(&mut self.on_reset) => return Err(reset),
                came = take(&mut self.receiver, &mut self.next, &self.link) => came,
                closed = ended(&self.end) => return Err(TransportError::Closed(closed)),
            };
            match came {
                Some(bytes) => self.left = bytes,
                None => {
                    self.read.send_replace(true);
                    return Ok(None);
                }
            }
        }
        Ok(Some(self.left.split_to(max.min(self.left.len()))))
    }

    fn stop(&mut self, code: u32) {
        self.stop.send_replace(Some(code));
        self.left = Bytes::new();
        self.receiver.close();
    }
}
