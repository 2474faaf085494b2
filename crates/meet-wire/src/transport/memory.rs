//! In-memory sessions for tests under virtual time: ordered, bounded, and cut on demand.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Mutex, mpsc, watch};

use crate::transport::{
    Closed, Connect, Listener as TransportListener, Offer as TransportOffer, RecvStream, SendStream,
    Session as TransportSession, Streams, TransportError,
};

/// Chunks that a stream buffers before its writer waits.
const DEPTH: usize = 64;
/// Streams and sessions waiting to be accepted.
const BACKLOG: usize = 64;
/// Datagrams that an end buffers. Further ones are lost, as on a network.
const DATAGRAMS: usize = 512;
/// Longest datagram, in bytes: what a QUIC path of 1,280 bytes carries.
const MAX_DATAGRAM: usize = 1_200;

/// One end of a session.
pub struct Session {
    open: mpsc::Sender<Streams>,
    accept: Mutex<mpsc::Receiver<Streams>>,
    open_uni: mpsc::Sender<Box<dyn RecvStream>>,
    accept_uni: Mutex<mpsc::Receiver<Box<dyn RecvStream>>>,
    datagrams_out: mpsc::Sender<Bytes>,
    datagrams_in: Mutex<mpsc::Receiver<Bytes>>,
    end: Arc<watch::Sender<Option<Closed>>>,
}

/// Cuts a session as a network failure does: both ends see a loss without a code.
#[derive(Clone)]
pub struct Wire(Arc<watch::Sender<Option<Closed>>>);

/// Creates the two ends of a session.
pub fn pair() -> (Arc<Session>, Arc<Session>) {
    let (end, _) = watch::channel(None);
    let end = Arc::new(end);
    let (left, right) = (Inbox::new(), Inbox::new());
    let (to_left, to_right) = (left.outlet(), right.outlet());
    (side(to_right, left, &end), side(to_left, right, &end))
}

type Channel<T> = (mpsc::Sender<T>, mpsc::Receiver<T>);

/// What arrives at one end.
struct Inbox {
    streams: Channel<Streams>,
    uni: Channel<Box<dyn RecvStream>>,
    datagrams: Channel<Bytes>,
}

/// Where the other end sends it.
struct Outlet {
    streams: mpsc::Sender<Streams>,
    uni: mpsc::Sender<Box<dyn RecvStream>>,
    datagrams: mpsc::Sender<Bytes>,
}

impl Inbox {
    fn new() -> Self {
        Self {
            streams: mpsc::channel(BACKLOG),
            uni: mpsc::channel(BACKLOG),
            datagrams: mpsc::channel(DATAGRAMS),
        }
    }

    fn outlet(&self) -> Outlet {
        Outlet {
            streams: self.streams.0.clone(),
            uni: self.uni.0.clone(),
            datagrams: self.datagrams.0.clone(),
        }
    }
}

fn side(to_peer: Outlet, inbox: Inbox, end: &Arc<watch::Sender<Option<Closed>>>) -> Arc<Session> {
    Arc::new(Session {
        open: to_peer.streams,
        accept: Mutex::new(inbox.streams.1),
        open_uni: to_peer.uni,
        accept_uni: Mutex::new(inbox.uni.1),
        datagrams_out: to_peer.datagrams,
        datagrams_in: Mutex::new(inbox.datagrams.1),
        end: end.clone(),
    })
}

impl Session {
    /// The link between the two ends.
    pub fn wire(&self) -> Wire {
        Wire(self.end.clone())
    }
}

impl Wire {
    /// Cuts the link.
    pub fn cut(&self) {
        finish(&self.0, Closed::Lost("cut".to_owned()));
    }
}

/// Only the first close counts.
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
    let (reset, on_reset) = watch::channel(None);
    let (stop, on_stop) = watch::channel(None);
    (
        Box::new(Sending { sender: Some(sender), reset, on_stop, end: end.clone() }),
        Box::new(Receiving { receiver, left: Bytes::new(), stop, on_reset, end: end.clone() }),
    )
}

/// Waits for a code from the other half of a stream. Without one, waits forever.
async fn code(codes: &mut watch::Receiver<Option<u32>>) -> TransportError {
    match codes.wait_for(Option::is_some).await.map(|code| *code) {
        Ok(code) => TransportError::Reset(code),
        Err(_) => std::future::pending().await,
    }
}

/// The next item that the peer sent, unless the session ends first.
async fn next<T>(
    items: &Mutex<mpsc::Receiver<T>>,
    end: &watch::Sender<Option<Closed>>,
) -> Result<T, TransportError> {
    let mut items = items.lock().await;
    tokio::select! {
        biased;
        closed = ended(end) => Err(TransportError::Closed(closed)),
        item = items.recv() => item.ok_or_else(|| TransportError::Closed(Closed::Lost("gone".to_owned()))),
    }
}

/// Passes a stream to the peer, unless the session ends first.
async fn pass<T>(
    streams: &mpsc::Sender<T>,
    stream: T,
    end: &watch::Sender<Option<Closed>>,
) -> Result<(), TransportError> {
    tokio::select! {
        biased;
        closed = ended(end) => Err(TransportError::Closed(closed)),
        sent = streams.send(stream) => {
            sent.map_err(|_| TransportError::Closed(Closed::Lost("gone".to_owned())))
        }
    }
}

#[async_trait]
impl TransportSession for Session {
    async fn accept_bi(&self) -> Result<Streams, TransportError> {
        next(&self.accept, &self.end).await
    }

    async fn open_bi(&self) -> Result<Streams, TransportError> {
        let (sender, far_receiver) = stream(&self.end);
        let (far_sender, receiver) = stream(&self.end);
        pass(&self.open, (far_sender, far_receiver), &self.end).await?;
        Ok((sender, receiver))
    }

    async fn accept_uni(&self) -> Result<Box<dyn RecvStream>, TransportError> {
        next(&self.accept_uni, &self.end).await
    }

    async fn open_uni(&self) -> Result<Box<dyn SendStream>, TransportError> {
        let (sender, far_receiver) = stream(&self.end);
        pass(&self.open_uni, far_receiver, &self.end).await?;
        Ok(sender)
    }

    fn send_datagram(&self, bytes: Bytes) -> Result<(), TransportError> {
        if let Some(closed) = self.end.borrow().clone() {
            return Err(TransportError::Closed(closed));
        }
        if bytes.len() > MAX_DATAGRAM {
            return Err(TransportError::Datagram(bytes.len()));
        }
        // The peer does not keep up: the datagram is lost.
        let _ = self.datagrams_out.try_send(bytes);
        Ok(())
    }

    async fn receive_datagram(&self) -> Result<Bytes, TransportError> {
        next(&self.datagrams_in, &self.end).await
    }

    fn max_datagram(&self) -> usize {
        MAX_DATAGRAM
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
    /// Dropping an end closes it, as the exit of a process does.
    fn drop(&mut self) {
        finish(&self.end, Closed::Lost("dropped".to_owned()));
    }
}

struct Sending {
    sender: Option<mpsc::Sender<Bytes>>,
    reset: watch::Sender<Option<u32>>,
    on_stop: watch::Receiver<Option<u32>>,
    end: Arc<watch::Sender<Option<Closed>>>,
}

#[async_trait]
impl SendStream for Sending {
    async fn send(&mut self, bytes: Bytes) -> Result<(), TransportError> {
        let Some(sender) = &self.sender else { return Err(TransportError::Reset(None)) };
        tokio::select! {
            biased;
            closed = ended(&self.end) => Err(TransportError::Closed(closed)),
            stopped = code(&mut self.on_stop) => Err(stopped),
            sent = sender.send(bytes) => sent.map_err(|_| TransportError::Reset(None)),
        }
    }

    fn finish(&mut self) {
        self.sender = None;
    }

    fn reset(&mut self, code: u32) {
        // A stream that was finished or reset stays as it is.
        if self.sender.take().is_some() {
            self.reset.send_replace(Some(code));
        }
    }

    fn set_priority(&mut self, _priority: i32) {
        // Every stream of a pair has its own channel, so none delays another.
    }
}

struct Receiving {
    receiver: mpsc::Receiver<Bytes>,
    left: Bytes,
    stop: watch::Sender<Option<u32>>,
    on_reset: watch::Receiver<Option<u32>>,
    end: Arc<watch::Sender<Option<Closed>>>,
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

    fn stop(&mut self, code: u32) {
        self.stop.send_replace(Some(code));
        self.left = Bytes::new();
        self.receiver.close();
    }
}

/// Accepts in-memory clients.
pub struct Listener {
    offers: Mutex<mpsc::Receiver<Offer>>,
}

/// Connects to a [`Listener`].
#[derive(Clone)]
pub struct Dialer(mpsc::Sender<Offer>);

/// An in-memory client that requests a session.
pub struct Offer {
    connect: Connect,
    answer: tokio::sync::oneshot::Sender<Result<Arc<Session>, u16>>,
}

/// Creates a listener and a connector to it.
pub fn listener() -> (Listener, Dialer) {
    let (sender, offers) = mpsc::channel(BACKLOG);
    (Listener { offers: Mutex::new(offers) }, Dialer(sender))
}

impl Dialer {
    /// Requests a session and waits until it is accepted or rejected.
    pub async fn dial(&self, connect: Connect) -> Result<Arc<Session>, TransportError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || TransportError::Refused("listener closed".to_owned());
        self.0.send(Offer { connect, answer }).await.map_err(|_| gone())?;
        match answered.await.map_err(|_| gone())? {
            Ok(session) => Ok(session),
            Err(status) => Err(TransportError::Refused(status.to_string())),
        }
    }
}

#[async_trait]
impl TransportListener for Listener {
    async fn offer(&self) -> Option<Box<dyn TransportOffer>> {
        Some(Box::new(self.offers.lock().await.recv().await?))
    }
}

#[async_trait]
impl TransportOffer for Offer {
    fn connect(&self) -> &Connect {
        &self.connect
    }

    fn remote(&self) -> Option<SocketAddr> {
        None
    }

    async fn accept(self: Box<Self>) -> Result<Arc<dyn TransportSession>, TransportError> {
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
    async fn messages_arrive_in_order_until_the_stream_ends() {
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
    async fn a_close_carries_its_code_and_a_cut_carries_none() {
        let (client, server) = pair();
        let (_send, mut receive) = client.open_bi().await.unwrap();
        let server: Arc<dyn TransportSession> = server;
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
    async fn a_stream_is_reset_and_stopped_with_a_code() {
        let (client, server) = pair();
        let mut send = client.open_uni().await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        send.send(Bytes::from_static(b"not read")).await.unwrap();
        send.reset(3);
        assert_eq!(
            receive.receive(8).await,
            Err(TransportError::Reset(Some(3))),
            "what was buffered is dropped"
        );
        let mut send = client.open_uni().await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        receive.stop(2);
        assert_eq!(send.send(Bytes::from_static(b"x")).await, Err(TransportError::Reset(Some(2))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_finished_stream_is_read_to_its_end() {
        let (client, server) = pair();
        let mut send = client.open_uni().await.unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        send.send(Bytes::from_static(b"group")).await.unwrap();
        send.finish();
        assert_eq!(receive.receive(9).await, Ok(Some(Bytes::from_static(b"group"))));
        assert_eq!(receive.receive(9).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_arrive_or_are_lost_and_never_wait() {
        let (client, server) = pair();
        for n in 0..=DATAGRAMS {
            client.send_datagram(vec![n as u8; 3].into()).unwrap();
        }
        for n in 0..DATAGRAMS {
            assert_eq!(server.receive_datagram().await.unwrap(), vec![n as u8; 3]);
        }
        let long = vec![0; client.max_datagram() + 1];
        assert_eq!(client.send_datagram(long.into()), Err(TransportError::Datagram(MAX_DATAGRAM + 1)));
        client.wire().cut();
        assert!(client.send_datagram(Bytes::new()).is_err());
        assert!(server.receive_datagram().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_truncated_frame_is_an_error() {
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
