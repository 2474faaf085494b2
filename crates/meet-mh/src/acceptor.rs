//! Accepts the sessions of clients: checks their token and whether their meeting is registered. Media comes later.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Clock;
use tenure_meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use tenure_meet_wire::internal::{
    MediaDisconnectReason, ParticipantMediaConnected, ParticipantMediaDisconnected,
};
use tenure_meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims};
use tenure_meet_wire::signaling::mh_client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::mh_server_message::Payload;
use tenure_meet_wire::signaling::{
    ErrorCode, ErrorMessage, MhClientMessage, MhConnectRequest, MhConnectResponse, MhServerMessage,
};
use tenure_meet_wire::transport::{Closed, Listener, MessageReader, MessageWriter, Offer, Session};
use tenure_meet_wire::{CloseCode, Id, MeetingId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::StreamSlot;
use crate::registry::RegisteredMeeting;
use crate::{MediaHandler, limits, metric};

/// The path of sessions.
pub const PATH: &str = "/wt/mh";

/// Accepts the sessions of a handler.
pub struct SessionAcceptor {
    handler: MediaHandler,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// A client with a verified token.
struct Client {
    meeting: MeetingId,
    participant: Option<Id>,
    participant_id: String,
}

impl SessionAcceptor {
    /// An acceptor in front of this handler.
    pub fn new(handler: MediaHandler) -> Self {
        Self { handler, tasks: TaskTracker::new(), cancel: CancellationToken::new() }
    }

    /// Accepts sessions until `stop`, then closes them.
    pub async fn serve(self, listener: Arc<dyn Listener>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                offer = listener.offer() => match offer {
                    Some(offer) => self.accept(offer),
                    None => break,
                },
            }
        }
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn accept(&self, offer: Box<dyn Offer>) {
        let (handler, cancel) = (self.handler.clone(), self.cancel.clone());
        let slot = handler.take_stream_slot();
        metric::connected(if slot.is_some() { "accepted" } else { "rejected" });
        self.tasks.spawn(async move {
            let clock = handler.options().clock.clone();
            let Some(slot) = slot else {
                return within(&*clock, limits::READ_REJECTION, offer.reject(503)).await.unwrap_or_default();
            };
            let Some(Ok(session)) = within(&*clock, limits::CONNECT_REQUEST, offer.accept()).await else {
                return;
            };
            tokio::select! {
                () = serve_client(&handler, &*session, slot) => {}
                () = cancel.cancelled() => session.close_for(CloseCode::Draining),
            }
        });
    }
}

async fn within<T>(clock: &dyn Clock, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = clock.sleep_until(clock.now() + time) => None,
    }
}

fn error(code: ErrorCode, message: &str) -> Payload {
    Payload::Error(ErrorMessage {
        code: code.into(),
        message: message.to_owned(),
        details: Default::default(),
    })
}

/// Serves one client until it disconnects.
async fn serve_client(handler: &MediaHandler, session: &dyn Session, _slot: StreamSlot) {
    let clock = handler.options().clock.clone();
    let Some(Some((request, seq, mut writer, mut reader))) =
        within(&*clock, limits::CONNECT_REQUEST, read_connect_request(session)).await
    else {
        return session.close_for(CloseCode::Protocol);
    };
    let admitted = match verify_token(handler, &request).await {
        Ok(client) => {
            match within(&*clock, limits::UNREGISTERED, handler.wait_for_registration(&client.meeting)).await
            {
                Some(entry) => Ok((client, entry)),
                None => Err(error(ErrorCode::NotFound, "the meeting is not registered here")),
            }
        }
        Err(refused) => Err(error(ErrorCode::Unauthorized, &refused.to_string())),
    };
    let (client, entry) = match admitted {
        Ok(admitted) => admitted,
        Err(payload) => {
            let sent = writer.send(&MhServerMessage { payload: Some(payload), seq }).await.is_ok();
            writer.finish();
            if sent {
                within(&*clock, limits::READ_REJECTION, session.closed()).await;
            }
            return session.close_for(CloseCode::Done);
        }
    };
    let waiting_for_mute_mask = client.participant.and_then(|participant| entry.mask(participant)).is_none();
    let welcome = Payload::ConnectResponse(MhConnectResponse { waiting_for_mute_mask });
    let no_media = error(ErrorCode::StreamError, "this media handler forwards no media yet");
    for payload in [welcome, no_media] {
        if writer.send(&MhServerMessage { payload: Some(payload), seq }).await.is_err() {
            return;
        }
    }
    notify(handler, &client, &entry, None).await;
    let ended = loop {
        tokio::select! {
            closed = session.closed() => break closed,
            // Other messages have no meaning yet.
            message = reader.next::<MhClientMessage>() => if !matches!(message, Ok(Some(_))) {
                break session.closed().await;
            },
        }
    };
    let reason = match ended {
        Closed::Code(_) => MediaDisconnectReason::ClientClosed,
        Closed::Lost(_) => MediaDisconnectReason::Timeout,
    };
    notify(handler, &client, &entry, Some(reason)).await;
}

async fn read_connect_request(
    session: &dyn Session,
) -> Option<(MhConnectRequest, u64, MessageWriter, MessageReader)> {
    let (send, receive) = session.accept_bi().await.ok()?;
    let (writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    let first: MhClientMessage = reader.next().await.ok()??;
    let Some(ClientPayload::ConnectRequest(request)) = first.payload else { return None };
    Some((request, first.seq, writer, reader))
}

async fn verify_token(handler: &MediaHandler, request: &MhConnectRequest) -> Result<Client, JwtError> {
    let keyring = &handler.options().keyring;
    let meeting = match keyring.check::<MeetingClaims>(&request.join_token).await {
        Ok(claims) => claims.meeting_id,
        Err(JwtError::Kind) => keyring.check::<GuestClaims>(&request.join_token).await?.meeting_id,
        Err(refused) => return Err(refused),
    };
    let meeting = MeetingId::parse(&meeting).ok_or(JwtError::Malformed)?;
    let participant = Id::parse(&request.participant_id);
    let participant_id = participant.map(|id| id.to_string()).unwrap_or_default();
    Ok(Client { meeting, participant, participant_id })
}

/// Notifies the meeting's controller that a client connected or disconnected.
async fn notify(
    handler: &MediaHandler,
    client: &Client,
    entry: &RegisteredMeeting,
    gone: Option<MediaDisconnectReason>,
) {
    let Ok(line) = handler.options().channels.to(&entry.mc_endpoint) else { return };
    let mut controller = MediaCoordinationServiceClient::new(line);
    let (meeting_id, participant_id) = (client.meeting.to_string(), client.participant_id.clone());
    let handler_id = handler.id().to_owned();
    let notified = match gone {
        None => {
            let connected = ParticipantMediaConnected { meeting_id, participant_id, handler_id };
            controller.notify_participant_connected(connected).await
        }
        Some(reason) => {
            let reason = reason.into();
            let disconnected =
                ParticipantMediaDisconnected { meeting_id, participant_id, handler_id, reason };
            controller.notify_participant_disconnected(disconnected).await
        }
    };
    if let Err(status) = notified {
        tracing::debug!(target: metric::TARGET, meeting = %client.meeting, code = ?status.code(), "controller not notified");
    }
}
