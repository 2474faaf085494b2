//! The actor of one seated connection: it reads requests and sends queued frames. It holds no meeting state.

use tenure_lease::Clock;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, Pong};
use tenure_meet_wire::transport::{MessageReader, MessageWriter, ReadError, Session};
use tenure_meet_wire::{CloseCode, Id, TraceParent};
use tokio::sync::mpsc;

use crate::actor::exit::supervise;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Envelope, MeetingMessage};
use crate::actor::outbox::{Outbox, OutboxItem, encode_frame};
use crate::actor::trace::{ClientTrace, RequestTrace};
use crate::actor::{ActorType, limits};
use crate::{convert, metric};

/// A client that has a seat.
pub(crate) struct SeatedClient {
    pub(crate) participant: Id,
    pub(crate) epoch: u64,
    pub(crate) meeting: Mailbox<Envelope>,
    pub(crate) outbox: Outbox,
    pub(crate) items: mpsc::Receiver<OutboxItem>,
    pub(crate) client_trace: ClientTrace,
    pub(crate) reader: MessageReader,
    pub(crate) writer: MessageWriter,
}

impl SeatedClient {
    /// Serves the connection until it ends, then reports that to the meeting.
    pub(crate) async fn serve(self, session: &dyn Session, clock: &dyn Clock) {
        let Self { participant, epoch, meeting, outbox, items, client_trace, reader, writer } = self;
        let requests = RequestReader { participant, epoch, meeting: &meeting, outbox: &outbox, client_trace };
        let serve = async {
            tokio::select! {
                biased;
                () = send_items(writer, items, session, clock) => {}
                () = requests.run(reader) => {}
                _ = session.closed() => {}
            }
        };
        // After a panic the connection has ended as well, and the meeting must know.
        let _either_way = supervise(ActorType::Connection, serve).await;
        session.close_for(CloseCode::Done);
        let message = MeetingMessage::Disconnected { participant, epoch };
        let _meeting_ended = meeting.send(Envelope { message, trace: RequestTrace::none() }).await;
    }
}

async fn send_items(
    mut writer: MessageWriter,
    mut items: mpsc::Receiver<OutboxItem>,
    session: &dyn Session,
    clock: &dyn Clock,
) {
    while let Some(item) = items.recv().await {
        match item {
            OutboxItem::Frames(frames) => {
                for frame in frames {
                    if writer.send_frame(frame).await.is_err() {
                        return;
                    }
                }
            }
            OutboxItem::Close(code) => {
                writer.finish();
                if code == CloseCode::Done {
                    // The client closes once it has read the last message; closing here could overtake it.
                    tokio::select! {
                        biased;
                        _ = session.closed() => {}
                        () = clock.sleep_until(clock.now() + limits::READ_CLOSE) => {}
                    }
                }
                session.close_for(code);
                return;
            }
        }
    }
    // The meeting dropped this connection's outbox.
    session.closed().await;
}

/// Reads requests and forwards them to the meeting.
struct RequestReader<'a> {
    participant: Id,
    epoch: u64,
    meeting: &'a Mailbox<Envelope>,
    outbox: &'a Outbox,
    client_trace: ClientTrace,
}

/// What to do with a message.
enum Next {
    /// Forward it to the meeting.
    Forward(Box<Envelope>),
    /// Continue: it was handled here.
    Continue,
    /// Stop: the client does not read answers.
    Stop,
}

impl RequestReader<'_> {
    async fn run(&self, mut reader: MessageReader) {
        loop {
            let next = match reader.next().await {
                Ok(Some(message)) => self.handle(message),
                Ok(None) | Err(ReadError::Transport(_)) => return,
                Err(ReadError::Frame(_) | ReadError::Cut) => {
                    return self.outbox.close_now(CloseCode::Protocol);
                }
            };
            match next {
                Next::Forward(envelope) => {
                    if self.meeting.send(*envelope).await.is_err() {
                        return;
                    }
                }
                Next::Continue => {}
                Next::Stop => return,
            }
        }
    }

    /// Not async, so that a waiting connection stores nothing of it.
    fn handle(&self, message: ClientMessage) -> Next {
        let (participant, epoch, seq) = (self.participant, self.epoch, message.seq);
        // A request may name a trace of its own.
        let own = TraceParent::parse(&message.trace_parent).map(|own| ClientTrace::new(Some(own)));
        let client_trace = own.as_ref().unwrap_or(&self.client_trace);
        tracing::debug!(target: metric::TARGET, trace_id = client_trace.trace_id(), seq, %participant, "request");
        if let Some(ClientPayload::Ping(ping)) = &message.payload {
            return self.answer(Payload::Pong(Pong { nonce: ping.nonce }), seq);
        }
        if let Some(ClientPayload::MediaConnectionUpdate(update)) = &message.payload {
            let connections = convert::media_connections(update);
            let message = MeetingMessage::MediaConnections { participant, epoch, connections };
            return Next::Forward(Box::new(Envelope { message, trace: RequestTrace::none() }));
        }
        match convert::request_from_wire(message.payload) {
            Ok(Some(request)) => {
                let message = MeetingMessage::Request { participant, epoch, seq, request };
                Next::Forward(Box::new(Envelope { message, trace: client_trace.request(seq) }))
            }
            Ok(None) => Next::Continue,
            Err(refusal) => {
                let payload = convert::error_payload(convert::error_code(&refusal), refusal.to_string());
                self.answer(payload, seq)
            }
        }
    }

    fn answer(&self, payload: Payload, seq: u64) -> Next {
        let queued = self.outbox.push(vec![encode_frame(Some(payload), seq, 0, None)]);
        if queued { Next::Continue } else { Next::Stop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Controller;

    fn size_of_future<F>(_: impl FnOnce() -> F) -> usize {
        size_of::<F>()
    }

    fn any<T>() -> T {
        unreachable!("only its type counts")
    }

    #[test]
    fn a_seated_client_keeps_no_memory_of_its_admission() {
        let whole = size_of_future(|| any::<&'static Controller>().serve_session(any(), None, None));
        let seated = size_of_future(|| {
            any::<SeatedClient>().serve(any::<&'static dyn Session>(), any::<&dyn Clock>())
        });
        assert!(whole < seated + 1_024, "{whole} bytes, of which {seated} for the seated client");
        assert!(whole < 3_072, "{whole} bytes for every connection");
    }
}
