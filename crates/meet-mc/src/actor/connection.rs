//! The actor of one connection: it reads what a client says and sends what waits for it. It owns no state of the meeting.

use std::sync::Arc;

use lease::{Clock, Entropy, Tick};
use meet_rpc::Keyring;
use meet_wire::binding::Nonce;
use meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims, Role as TokenRole};
use meet_wire::signaling::client_message::Payload as Asked;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ClientMessage, ErrorCode, ErrorMessage, Pong};
use meet_wire::transport::{MessageReader, MessageWriter, ReadError, Session};
use meet_wire::{CloseCode, Id, TraceParent};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::actor::cause::Origin;
use crate::actor::exit::supervised;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Mail, encoded};
use crate::actor::outbox::{Outbox, Parcel};
use crate::actor::{ActorType, limits};
use crate::convert::{self, Knock};
use crate::meeting::{Fresh, Join, Refusal, Role};
use crate::metric;
use crate::rate::Rates;

/// What a connection needs to know before it has a seat.
pub(crate) struct Door {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keyring: Keyring,
    pub(crate) rates: Mutex<Rates>,
}

/// Why a connection ends before it has a seat.
pub(crate) enum Turned {
    /// It is told this.
    Away(Box<Payload>),
    /// It broke the protocol.
    Garbled,
    /// It is gone.
    Gone,
}

pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Turned {
    let (code, message) = (code.into(), message.into());
    Turned::Away(Box::new(Payload::Error(ErrorMessage { code, message, details: Default::default() })))
}

pub(crate) fn too_often() -> Turned {
    error(ErrorCode::RateLimited, "this user joins too often; wait a little")
}

/// A client that asked to join.
pub(crate) struct Visitor {
    pub(crate) knock: Knock,
    pub(crate) seq: u64,
    pub(crate) trace: Option<TraceParent>,
    reader: MessageReader,
    writer: MessageWriter,
}

/// Waits for a client to say what it wants.
pub(crate) async fn receive(
    session: &dyn Session,
    door: &Door,
) -> Result<Visitor, (Option<MessageWriter>, Turned)> {
    let late = door.clock.sleep_until(door.clock.now() + limits::KNOCK);
    tokio::select! {
        visitor = listen(session) => visitor,
        () = late => Err((None, Turned::Garbled)),
    }
}

async fn listen(session: &dyn Session) -> Result<Visitor, (Option<MessageWriter>, Turned)> {
    let (send, receive) = session.accept_bi().await.map_err(|_| (None, Turned::Gone))?;
    let (mut reader, writer) = (MessageReader::new(receive), MessageWriter::new(send));
    let first: ClientMessage = match reader.next().await {
        Ok(Some(message)) => message,
        Ok(None) | Err(ReadError::Transport(_)) => return Err((None, Turned::Gone)),
        Err(ReadError::Frame(_) | ReadError::Cut) => return Err((None, Turned::Garbled)),
    };
    let (seq, trace) = (first.seq, TraceParent::parse(&first.trace_parent));
    match convert::knock(first) {
        Ok(knock) => Ok(Visitor { knock, seq, trace, reader, writer }),
        Err(refusal) => Err((Some(writer), error(ErrorCode::InvalidRequest, refusal.to_string()))),
    }
}

/// Who the client is, by its token: every reason for refusing it reads the same.
pub(crate) async fn identify(knock: &Knock, door: &Door) -> Result<Join, Turned> {
    let now = door.clock.wall();
    let refused_as = |kind: &'static str| {
        move |refused: JwtError| {
            metric::validated(kind, Some(refused.as_str()));
            error(ErrorCode::Unauthorized, refused.to_string())
        }
    };
    let (user, role, meeting, name) = match door.keyring.check::<MeetingClaims>(&knock.token).await {
        Ok(claims) => {
            let role = if claims.role == TokenRole::Host { Role::Host } else { Role::Participant };
            (claims.sub, role, claims.meeting_id, knock.name.clone())
        }
        Err(JwtError::Kind) => {
            let claims = door.keyring.check::<GuestClaims>(&knock.token).await;
            let claims = claims.map_err(refused_as("guest"))?;
            (claims.sub, Role::Guest, claims.meeting_id, claims.display_name)
        }
        Err(refused) => return Err(refused_as("meeting")(refused)),
    };
    let kind = if role == Role::Guest { "guest" } else { "meeting" };
    if meeting != knock.meeting.as_str() {
        return Err(refused_as(kind)(JwtError::Kind));
    }
    metric::validated(kind, None);
    let fresh = Fresh {
        participant: Id::new(now, &*door.entropy),
        correlation: Id::new(now, &*door.entropy),
        nonce: Nonce::new(&*door.entropy),
    };
    let (resume, attempt, last_event_seq) =
        (knock.resume.clone(), knock.attempt.clone(), knock.last_event_seq);
    Ok(Join { user, name, role, resume, attempt, last_event_seq, fresh })
}

/// Tells a client why it gets no seat, and closes.
pub(crate) async fn turn_away(
    session: &dyn Session,
    clock: &dyn Clock,
    writer: Option<MessageWriter>,
    seq: u64,
    turned: Turned,
) {
    let code = match turned {
        Turned::Gone => return,
        Turned::Garbled => CloseCode::Protocol,
        Turned::Away(payload) => {
            if let Some(mut writer) = writer
                && writer.send_frame(encoded(Some(*payload), seq, 0, None)).await.is_ok()
            {
                writer.finish();
                // The client closes once it has read the reason; a close from here could overtake it.
                tokio::select! {
                    _ = session.closed() => {}
                    () = clock.sleep_until(clock.now() + limits::FAREWELL) => {}
                }
            }
            CloseCode::Done
        }
    };
    session.close_for(code);
}

impl Visitor {
    /// Goes without a seat.
    pub(crate) async fn leave(self, session: &dyn Session, clock: &dyn Clock, turned: Turned) {
        turn_away(session, clock, Some(self.writer), self.seq, turned).await;
    }

    /// Asks the meeting for a seat; without one the client is told why.
    pub(crate) async fn sit(
        self,
        session: &Arc<dyn Session>,
        door: &Door,
        (join, began): (Join, Tick),
        meeting: Mailbox<Mail>,
        waiting: Option<OwnedSemaphorePermit>,
    ) -> Option<Seat> {
        let Self { knock, seq, trace, reader, writer } = self;
        let joined = |status| metric::joined(status, door.clock.now().since(began));
        let (mailbox, parcels) = Mailbox::new(ActorType::Connection, limits::OUTBOX);
        let outbox = Outbox::new(mailbox, session.clone());
        let (seated, mut answer) = oneshot::channel();
        let origin = Origin::new(trace);
        let cause = origin.asked(seq);
        let mail = Mail::Join { join: Box::new(join), seq, outbox: outbox.clone(), seated, cause };
        let late = door.clock.sleep_until(door.clock.now() + limits::JOIN);
        let asked = async {
            meeting.send(mail).await.ok()?;
            (&mut answer).await.ok()
        };
        let answered = tokio::select! {
            answered = asked => answered,
            () = late => None,
        };
        // An answer that came at the last moment counts: the seat is taken.
        answer.close();
        let (participant, epoch) = match answered.or_else(|| answer.try_recv().ok()) {
            Some(Ok(seat)) => seat,
            Some(Err(payload)) => {
                joined("refused");
                turn_away(&**session, &*door.clock, Some(writer), seq, Turned::Away(payload)).await;
                return None;
            }
            None => {
                joined("unavailable");
                let turned = error(ErrorCode::Unavailable, "the meeting does not answer");
                turn_away(&**session, &*door.clock, Some(writer), seq, turned).await;
                return None;
            }
        };
        joined("ok");
        drop(waiting);
        tracing::info!(target: metric::TARGET, trace_id = origin.trace_id(), seq, meeting = %knock.meeting, %participant, epoch, "joined");
        Some(Seat { participant, epoch, meeting, outbox, parcels, origin, reader, writer })
    }
}

/// A client that has its seat.
pub(crate) struct Seat {
    participant: Id,
    epoch: u64,
    meeting: Mailbox<Mail>,
    outbox: Outbox,
    parcels: mpsc::Receiver<Parcel>,
    origin: Origin,
    reader: MessageReader,
    writer: MessageWriter,
}

impl Seat {
    /// Stays until the connection ends. The meeting hears of the end, whatever it is.
    pub(crate) async fn stay(self, session: &dyn Session, door: &Door) {
        let Self { participant, epoch, meeting, outbox, parcels, origin, reader, writer } = self;
        let ears = Ears { participant, epoch, meeting: &meeting, outbox: &outbox, origin };
        let talk = async {
            tokio::select! {
                () = send(writer, parcels, session, &*door.clock) => {}
                () = ears.listen(reader) => {}
                _ = session.closed() => {}
            }
        };
        // Also a panic is the end of the connection, of which the meeting hears.
        let _either_way = supervised(ActorType::Connection, talk).await;
        session.close_for(CloseCode::Done);
        let _over = meeting.send(Mail::Closed { participant, epoch }).await;
    }
}

async fn send(
    mut writer: MessageWriter,
    mut parcels: mpsc::Receiver<Parcel>,
    session: &dyn Session,
    clock: &dyn Clock,
) {
    while let Some(parcel) = parcels.recv().await {
        match parcel {
            Parcel::Frames(frames) => {
                for frame in frames {
                    if writer.send_frame(frame).await.is_err() {
                        return;
                    }
                }
            }
            Parcel::Close(code) => {
                writer.finish();
                if code == CloseCode::Done {
                    // The client closes once it has read that it left or that the meeting is over; a close from here could overtake that.
                    tokio::select! {
                        _ = session.closed() => {}
                        () = clock.sleep_until(clock.now() + limits::PARTING) => {}
                    }
                }
                session.close_for(code);
                return;
            }
        }
    }
    // The meeting has let go of this connection.
    session.closed().await;
}

/// What hears a client.
struct Ears<'a> {
    participant: Id,
    epoch: u64,
    meeting: &'a Mailbox<Mail>,
    outbox: &'a Outbox,
    origin: Origin,
}

/// What follows from a message.
enum Heard {
    /// The meeting is asked.
    Asked(Box<Mail>),
    /// It is done with.
    Done,
    /// The client takes no more answers.
    Deaf,
}

impl Ears<'_> {
    async fn listen(&self, mut reader: MessageReader) {
        loop {
            let heard = match reader.next().await {
                Ok(Some(message)) => self.hear(message),
                Ok(None) | Err(ReadError::Transport(_)) => return,
                Err(ReadError::Frame(_) | ReadError::Cut) => {
                    return self.outbox.close_now(CloseCode::Protocol);
                }
            };
            match heard {
                Heard::Asked(mail) => {
                    if self.meeting.send(*mail).await.is_err() {
                        return;
                    }
                }
                Heard::Done => {}
                Heard::Deaf => return,
            }
        }
    }

    /// Not async: a connection that waits keeps nothing of it.
    fn hear(&self, message: ClientMessage) -> Heard {
        let (participant, epoch, seq) = (self.participant, self.epoch, message.seq);
        // A request may say for itself which trace it belongs to.
        let own = TraceParent::parse(&message.trace_parent).map(|own| Origin::new(Some(own)));
        let origin = own.as_ref().unwrap_or(&self.origin);
        tracing::debug!(target: metric::TARGET, trace_id = origin.trace_id(), seq, %participant, "asked");
        if let Some(Asked::Ping(ping)) = &message.payload {
            return self.answer(Payload::Pong(Pong { nonce: ping.nonce }), seq);
        }
        match convert::request(message.payload) {
            Ok(Some(request)) => {
                let cause = origin.asked(seq);
                Heard::Asked(Box::new(Mail::Asked { participant, epoch, seq, request, cause }))
            }
            Ok(None) => Heard::Done,
            Err(refusal) => self.answer(refused(&refusal), seq),
        }
    }

    fn answer(&self, payload: Payload, seq: u64) -> Heard {
        let taken = self.outbox.push(vec![encoded(Some(payload), seq, 0, None)]);
        if taken { Heard::Done } else { Heard::Deaf }
    }
}

/// What cannot even be asked for.
fn refused(refusal: &Refusal) -> Payload {
    let code = match refusal {
        Refusal::NotFound(_) => ErrorCode::NotFound,
        _ => ErrorCode::InvalidRequest,
    };
    let (code, message) = (code.into(), refusal.to_string());
    Payload::Error(ErrorMessage { code, message, details: Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Controller;

    fn size_of_what_it_returns<F>(_: impl FnOnce() -> F) -> usize {
        size_of::<F>()
    }

    fn any<T>() -> T {
        unreachable!("only its type counts")
    }

    #[test]
    fn a_client_that_stays_keeps_nothing_of_what_it_took_to_join() {
        let whole = size_of_what_it_returns(|| any::<&'static Controller>().attend(any(), None, None));
        let staying = size_of_what_it_returns(|| any::<Seat>().stay(any::<&'static dyn Session>(), any()));
        assert!(whole < staying + 1_024, "{whole} bytes, of which {staying} for staying");
        assert!(whole < 3_072, "{whole} bytes for every connection");
    }
}
