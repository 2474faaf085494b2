//! Admission: from a new session to a seat in a meeting, or to a rejection.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::{Clock, Entropy, Tick};
use tenure_meet_rpc::Keyring;
use tenure_meet_wire::binding::Nonce;
use tenure_meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims, Role as TokenRole};
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ClientMessage, ErrorCode};
use tenure_meet_wire::transport::{MessageReader, MessageWriter, ReadError, Session};
use tenure_meet_wire::{CloseCode, Id, TraceParent};
use tokio::sync::{mpsc, oneshot};

use crate::actor::connection::SeatedClient;
use crate::actor::mailbox::Mailbox;
use crate::actor::meeting::{Envelope, JoinReply, MeetingMessage, PendingJoin};
use crate::actor::outbox::{Outbox, OutboxItem, encode_frame};
use crate::actor::trace::{ClientTrace, RequestTrace};
use crate::actor::{ActorType, limits};
use crate::convert::{self, UnverifiedJoin};
use crate::meeting::{Join, NewIds, Role};
use crate::rate_limit::RateLimiter;
use crate::{PendingPermit, metric};

/// What admission needs to know.
pub(crate) struct Admission {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keyring: Keyring,
    pub(crate) join_limiter: Mutex<RateLimiter>,
}

/// Why a client gets no seat.
pub(crate) enum JoinRejected {
    /// Refused with this message.
    Refused(Box<Payload>),
    /// The client violated the protocol.
    ProtocolError,
    /// The client disconnected.
    Disconnected,
}

impl JoinRejected {
    pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused(Box::new(convert::error_payload(code, message)))
    }
}

/// A client that sent its join request.
pub(crate) struct JoiningClient {
    pub(crate) join: UnverifiedJoin,
    pub(crate) seq: u64,
    pub(crate) traceparent: Option<TraceParent>,
    reader: MessageReader,
    writer: MessageWriter,
}

/// Waits for the join request of a client.
pub(crate) async fn read_join_request(
    session: &dyn Session,
    clock: &dyn Clock,
) -> Result<JoiningClient, (Option<MessageWriter>, JoinRejected)> {
    tokio::select! {
        biased;
        client = read_first_message(session) => client,
        () = clock.sleep_until(clock.now() + limits::JOIN_REQUEST) => Err((None, JoinRejected::ProtocolError)),
    }
}

async fn read_first_message(
    session: &dyn Session,
) -> Result<JoiningClient, (Option<MessageWriter>, JoinRejected)> {
    let (send, receive) = session.accept_bi().await.map_err(|_| (None, JoinRejected::Disconnected))?;
    let (mut reader, writer) = (MessageReader::new(receive), MessageWriter::new(send));
    let first: ClientMessage = match reader.next().await {
        Ok(Some(message)) => message,
        Ok(None) | Err(ReadError::Transport(_)) => return Err((None, JoinRejected::Disconnected)),
        Err(ReadError::Frame(_) | ReadError::Cut) => return Err((None, JoinRejected::ProtocolError)),
    };
    let (seq, traceparent) = (first.seq, TraceParent::parse(&first.trace_parent));
    match convert::join_from_wire(first) {
        Ok(join) => Ok(JoiningClient { join, seq, traceparent, reader, writer }),
        Err(refusal) => {
            let rejected = JoinRejected::error(ErrorCode::InvalidRequest, refusal.to_string());
            Err((Some(writer), rejected))
        }
    }
}

/// Verifies the client's token. All failures produce the same message.
pub(crate) async fn verify_token(join: &UnverifiedJoin, admission: &Admission) -> Result<Join, JoinRejected> {
    let now = admission.clock.wall();
    let rejected_as = |kind: &'static str| {
        move |refused: JwtError| {
            metric::validated(kind, Some(refused.as_str()));
            JoinRejected::error(ErrorCode::Unauthorized, refused.to_string())
        }
    };
    let (user, role, meeting, name) = match admission.keyring.check::<MeetingClaims>(&join.token).await {
        Ok(claims) => {
            let role = if claims.role == TokenRole::Host { Role::Host } else { Role::Participant };
            (claims.sub, role, claims.meeting_id, join.name.clone())
        }
        Err(JwtError::Kind) => {
            let claims = admission.keyring.check::<GuestClaims>(&join.token).await;
            let claims = claims.map_err(rejected_as("guest"))?;
            (claims.sub, Role::Guest, claims.meeting_id, claims.display_name)
        }
        Err(refused) => return Err(rejected_as("meeting")(refused)),
    };
    let kind = if role == Role::Guest { "guest" } else { "meeting" };
    if meeting != join.meeting.as_str() {
        return Err(rejected_as(kind)(JwtError::Kind));
    }
    metric::validated(kind, None);
    let ids = NewIds {
        participant: Id::new(now, &*admission.entropy),
        correlation: Id::new(now, &*admission.entropy),
        nonce: Nonce::new(&*admission.entropy),
    };
    let (resume, attempt, last_event_seq) = (join.resume.clone(), join.attempt.clone(), join.last_event_seq);
    Ok(Join { user, name, role, resume, attempt, last_event_seq, admitted: false, ids })
}

/// Sends the reason of a rejection, if there is one, and closes the session.
pub(crate) async fn reject(
    session: &dyn Session,
    clock: &dyn Clock,
    writer: Option<MessageWriter>,
    seq: u64,
    rejected: JoinRejected,
) {
    let code = match rejected {
        JoinRejected::Disconnected => return,
        JoinRejected::ProtocolError => CloseCode::Protocol,
        JoinRejected::Refused(payload) => {
            if let Some(mut writer) = writer
                && writer.send_frame(encode_frame(Some(*payload), seq, 0, None)).await.is_ok()
            {
                writer.finish();
                // The client closes once it has read the reason; closing here could overtake it.
                tokio::select! {
                    biased;
                    _ = session.closed() => {}
                    () = clock.sleep_until(clock.now() + limits::READ_REJECTION) => {}
                }
            }
            CloseCode::Done
        }
    };
    session.close_for(code);
}

/// The status of a refused join in the metric. A store that is away counts against the availability, a full meeting does
/// not.
fn refused_status(payload: &Payload) -> &'static str {
    match payload {
        Payload::Error(error) if error.code() == ErrorCode::Unavailable => "unavailable",
        _ => "refused",
    }
}

/// Keeps a client that waits for a host informed. None if it disconnects, does not read, or waits too long.
async fn wait_for_host(
    session: &Arc<dyn Session>,
    clock: &dyn Clock,
    items: &mut mpsc::Receiver<OutboxItem>,
    writer: &mut MessageWriter,
    mut next: oneshot::Receiver<JoinReply>,
) -> Option<JoinReply> {
    let timeout = clock.sleep_until(clock.now() + limits::WAITING);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            biased;
            _ = session.closed() => return None,
            // First: frames that follow the reply belong to the seated client.
            reply = &mut next => return reply.ok(),
            Some(item) = items.recv() => {
                let OutboxItem::Frames(frames) = item else { return None };
                for frame in frames {
                    writer.send_frame(frame).await.ok()?;
                }
            }
            () = &mut timeout => return None,
        }
    }
}

impl JoiningClient {
    pub(crate) async fn reject(self, session: &dyn Session, clock: &dyn Clock, rejected: JoinRejected) {
        reject(session, clock, Some(self.writer), self.seq, rejected).await;
    }

    /// Requests a seat from the meeting. Without one the client receives the reason and is closed.
    pub(crate) async fn take_seat(
        self,
        session: &Arc<dyn Session>,
        clock: &dyn Clock,
        (join, began): (Join, Tick),
        meeting: Mailbox<Envelope>,
        mut pending: Option<PendingPermit>,
    ) -> Option<SeatedClient> {
        let Self { join: request, seq, traceparent, reader, mut writer } = self;
        let mut waited = false;
        let (mailbox, mut items) = Mailbox::new(ActorType::Connection, limits::OUTBOX);
        let outbox = Outbox::new(mailbox, session.clone());
        let (reply, mut answer) = oneshot::channel();
        let client_trace = ClientTrace::new(traceparent);
        let join = PendingJoin { join: Box::new(join), seq, outbox: outbox.clone(), reply };
        let envelope = Envelope { message: MeetingMessage::Join(join), trace: client_trace.request(seq) };
        let timeout = clock.sleep_until(clock.now() + limits::JOIN_ANSWER);
        let asked = async {
            meeting.send(envelope).await.ok()?;
            (&mut answer).await.ok()
        };
        let answered = tokio::select! {
            biased;
            answered = asked => answered,
            () = timeout => None,
        };
        // An answer that arrived with the timeout counts: the seat is taken.
        answer.close();
        let mut answered = answered.or_else(|| answer.try_recv().ok());
        if let Some(JoinReply::Waits { participant, next }) = answered {
            metric::joined("waiting", clock.now().since(began));
            waited = true;
            drop(pending.take());
            answered = wait_for_host(session, clock, &mut items, &mut writer, next).await;
            if answered.is_none() {
                let message = MeetingMessage::StoppedWaiting { participant };
                let _meeting_ended = meeting.send(Envelope { message, trace: RequestTrace::none() }).await;
                session.close_for(CloseCode::Done);
                return None;
            }
        }
        // How long a host takes to admit a participant says nothing about joins.
        let record = |status| {
            if !waited {
                metric::joined(status, clock.now().since(began));
            }
        };
        let (participant, epoch) = match answered {
            Some(JoinReply::Seated { participant, epoch }) => (participant, epoch),
            Some(JoinReply::Refused(payload)) => {
                record(refused_status(&payload));
                reject(&**session, clock, Some(writer), seq, JoinRejected::Refused(payload)).await;
                return None;
            }
            Some(JoinReply::Waits { .. }) | None => {
                record("unavailable");
                let rejected = JoinRejected::error(ErrorCode::Unavailable, "the meeting does not respond");
                reject(&**session, clock, Some(writer), seq, rejected).await;
                return None;
            }
        };
        record("ok");
        drop(pending);
        tracing::info!(target: metric::TARGET, trace_id = client_trace.trace_id(), seq, meeting = %request.meeting, %participant, epoch, "joined");
        Some(SeatedClient { participant, epoch, meeting, outbox, items, client_trace, reader, writer })
    }
}
