//! Sessions in memory, for tests under virtual time: in order, bounded, and lost when a test says so.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Mutex, mpsc, watch};

use crate::transport::{
    Closed, Connect, Listener as Accepts, Offer as Asks, RecvStream, SendStream, Session as Acts, Streams,
    TransportError,
};

/// Pieces that a stream holds before its writer waits.
const DEPTH: usize = 64;
/// Streams and sessions that wait to be accepted.
const BACKLOG: usize = 64;

/// One end of a session.
pub struct Session {
    open: mpsc::Sender<Streams>,
    accept: Mutex<mpsc::Receiver<Streams>>,
    end: Arc<watch::Sender<Option<Closed>>>,
}

/// Cuts a session as a network does: both ends see a loss and no code.
#[derive(Clone)]
pub struct Wire(Arc<watch::Sender<Option<Closed>>>);

/// Two ends of a new session.
pub fn pair() -> (Arc<Session>, Arc<Session>) {
    let (end, _) = watch::channel(None);
    let end = Arc::new(end);
    let (to_left, left) = mpsc::channel(BACKLOG);
    let (to_right, right) = mpsc::channel(BACKLOG);
    let side = |open, accept| Arc::new(Session { open, accept: Mutex::new(accept), end: end.clone() });
    (side(to_right, left), side(to_left, right))
}

impl Session {
    /// The wire between the two ends.
    pub fn wire(&self) -> Wire {
        Wire(self.end.clone())
    }
}

impl Wire {
    /// Cuts it.
    pub fn cut(&self) {
        finish(&self.0, Closed::Lost("cut".to_owned()));
    }
}

/// The first end counts.
fn finish(end: &watch::Sender<Option<Closed>>, closed: Closed) {
    end.send_if_modified(|kept| {
        let first = kept.is_none();
        if first {
            *kept = Some(closed);
        }
        first
    });
}

async fn ended(end: &watch::Sender<Option<Closed>>) -> Closed {
    let mut end = end.subscribe();
    match end.wait_for(Option::is_some).await.map(|closed| closed.clone()) {
        Ok(Some(closed)) => closed,
        _ => Closed::Lost("gone".to_owned()),
    }
}

fn stream(end: &Arc<watch::Sender<Option<Closed>>>) -> (Box<dyn SendStream>, Box<dyn RecvStream>) {
    let (sender, receiver) = mpsc::channel(DEPTH);
    (
        Box::new(Sending { sender: Some(sender), end: end.clone() }),
        Box::new(Receiving { receiver, left: Bytes::new(), end: end.clone() }),
    )
}

#[async_trait]
impl Acts for Session {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        let mut accept = self.accept.lock().await;
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            streams = accept.recv() => {
                streams.ok_or_else(|| TransportError::Closed(Closed::Lost("gone".to_owned())))
            }
        }
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        let (sender, far_receiver) = stream(&self.end);
        let (far_sender, receiver) = stream(&self.end);
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            sent = self.open.send((far_sender, far_receiver)) => match sent {
                Ok(()) => Ok((sender, receiver)),
                Err(_) => Err(TransportError::Closed(Closed::Lost("gone".to_owned()))),
            }
        }
    }

    fn close(&self, code: u32, _reason: &str) {
        finish(&self.end, Closed::Code(code));
    }

    async fn closed(&self) -> Closed {
        ended(&self.end).await
    }

    fn remote(&self) -> Option<SocketAddr> {
        None
    }
}

impl Drop for Session {
    /// Who lets go of its end closes it, as a process that ends does.
    fn drop(&mut self) {
        finish(&self.end, Closed::Lost("dropped".to_owned()));
    }
}

struct Sending {
    sender: Option<mpsc::Sender<Bytes>>,
    end: Arc<watch::Sender<Option<Closed>>>,
}

#[async_trait]
impl SendStream for Sending {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        let Some(sender) = &self.sender else { return Err(TransportError::Reset) };
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            sent = sender.send(bytes) => sent.map_err(|_| TransportError::Reset),
        }
    }

    fn finish(&mut self) {
        self.sender = None;
    }
}

struct Receiving {
    receiver: mpsc::Receiver<Bytes>,
    left: Bytes,
    end: Arc<watch::Sender<Option<Closed>>>,
}

#[async_trait]
impl RecvStream for Receiving {
    async fn receive(&mut self, max: usize) -> Result<Option<Bytes>, TransportError> {
        if self.left.is_empty() {
            // What was written before a close is read first here; a network promises less.
            let came = tokio::select! {
                biased;
                came = self.receiver.recv() => came,
                closed = ended(&self.end) => return Err(TransportError::Closed(closed)),
            };
            match came {
                Some(bytes) => self.left = bytes,
                None => return Ok(None),
            }
        }
        Ok(Some(self.left.split_to(max.min(self.left.len()))))
    }
}

/// Where clients in memory arrive.
pub struct Listener {
    offers: Mutex<mpsc::Receiver<Offer>>,
}

/// Connects to a [`Listener`].
#[derive(Clone)]
pub struct Dialer(mpsc::Sender<Offer>);

/// A client in memory that wants a session.
pub struct Offer {
    connect: Connect,
    answer: tokio::sync::oneshot::Sender<Result<Arc<Session>, u16>>,
}

/// A listener and the way to it.
pub fn listener() -> (Listener, Dialer) {
    let (sender, offers) = mpsc::channel(BACKLOG);
    (Listener { offers: Mutex::new(offers) }, Dialer(sender))
}

impl Dialer {
    /// Asks for a session and waits until it is accepted or rejected.
    pub async fn dial(&self, connect: Connect) -> Result<Arc<Session>, TransportError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || TransportError::Refused("nobody listens".to_owned());
        self.0.send(Offer { connect, answer }).await.map_err(|_| gone())?;
        match answered.await.map_err(|_| gone())? {
            Ok(session) => Ok(session),
            Err(status) => Err(TransportError::Refused(status.to_string())),
        }
    }
}

#[async_trait]
impl Accepts for Listener {
    async fn offer(&self) -> Option<Box<dyn Asks>> {
        Some(Box::new(self.offers.lock().await.recv().await?))
    }
}

#[async_trait]
impl Asks for Offer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<SocketAddr> {
        None
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn Acts>, TransportError> {
        let (near, far) = pair();
        self.answer.send(Ok(far)).map_err(|_| TransportError::Closed(Closed::Lost("gone".to_owned())))?;
        Ok(near)
    }

    async fn reject(self: Box<Self>, status: u16) {
        let _nobody_waits = self.answer.send(Err(status));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloseCode;
    use crate::signaling::{ClientMessage, LeaveRequest, client_message::Payload};
    use crate::transport::{MessageReader, MessageWriter, ReadError};

    fn leave(seq: u64) -> ClientMessage {
        let payload = Some(Payload::LeaveRequest(LeaveRequest {}));
        ClientMessage { payload, seq, ..ClientMessage::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_cross_in_order_and_the_stream_ends() {
        let (client, server) = pair();
        let (send, _receive) = client.open_bi().await.unwrap();
        let (_send, receive) = server.accept_bi().await.unwrap();
        let (mut writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
        for seq in 1..=10 {
            writer.send(&leave(seq)).await.unwrap();
        }
        writer.finish();
        for seq in 1..=10 {
            assert_eq!(reader.next::<ClientMessage>().await.unwrap(), Some(leave(seq)));
        }
        assert_eq!(reader.next::<ClientMessage>().await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_close_says_its_code_and_a_cut_says_none() {
        let (client, server) = pair();
        let (_send, mut receive) = client.open_bi().await.unwrap();
        let server: Arc<dyn Acts> = server;
        server.close_for(CloseCode::Fenced);
        assert_eq!(client.closed().await, Closed::Code(4002));
        assert_eq!(receive.receive(1).await, Err(TransportError::Closed(Closed::Code(4002))));
        let (client, server) = pair();
        client.wire().cut();
        assert!(matches!(server.closed().await, Closed::Lost(_)));
        assert!(matches!(server.accept_bi().await, Err(TransportError::Closed(Closed::Lost(_)))));
        let (client, server) = pair();
        drop(client);
        assert!(matches!(server.closed().await, Closed::Lost(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_is_cut_short_is_an_error() {
        let (client, server) = pair();
        let (mut send, _receive) = client.open_bi().await.unwrap();
        let (_send, receive) = server.accept_bi().await.unwrap();
        send.send(Bytes::from_static(&[0, 0, 0, 9, 1])).await.unwrap();
        send.finish();
        assert_eq!(MessageReader::new(receive).next::<ClientMessage>().await, Err(ReadError::Cut));
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_accepts_and_rejects() {
        let (listener, dialer) = listener();
        let connect = Connect { path: "/wt/mc".to_owned(), ..Connect::default() };
        let serve = async {
            let offer = listener.offer().await.unwrap();
            assert_eq!(offer.connect().path, "/wt/mc");
            let session = offer.accept().await.unwrap();
            listener.offer().await.unwrap().reject(404).await;
            session
        };
        let dial = async {
            let first = dialer.dial(connect.clone()).await;
            (first, dialer.dial(connect.clone()).await.map(|_| ()))
        };
        let (session, (first, second)) = tokio::join!(serve, dial);
        session.close(7, "");
        assert_eq!(first.unwrap().closed().await, Closed::Code(7));
        assert_eq!(second, Err(TransportError::Refused("404".to_owned())));
    }
}
