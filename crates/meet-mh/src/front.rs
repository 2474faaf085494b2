//! Where clients arrive. Who they are and whether their meeting is served here is all that is asked: media comes later.

use std::sync::Arc;
use std::time::Duration;

use lease::Clock;
use meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use meet_wire::internal::{MediaDisconnectReason, ParticipantMediaConnected, ParticipantMediaDisconnected};
use meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims};
use meet_wire::signaling::mh_client_message::Payload as Ask;
use meet_wire::signaling::mh_server_message::Payload;
use meet_wire::signaling::{
    ErrorCode, ErrorMessage, MhClientMessage, MhConnectRequest, MhConnectResponse, MhServerMessage,
};
use meet_wire::transport::{Closed, Listener, MessageReader, MessageWriter, Offer, Session};
use meet_wire::{CloseCode, Id, MeetingId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::handler::Stream;
use crate::register::Held;
use crate::{Handler, limits, metric};

/// Where clients ask for a session.
pub const PATH: &str = "/wt/mh";

/// Takes the clients of a handler in.
pub struct Front {
    handler: Handler,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// Somebody with a good token.
struct Client {
    meeting: MeetingId,
    participant: Option<Id>,
    participant_id: String,
}

impl Front {
    /// Before this handler.
    pub fn new(handler: Handler) -> Self {
        Self { handler, tasks: TaskTracker::new(), cancel: CancellationToken::new() }
    }

    /// Takes clients in until it is told to stop, then sends those that are there away.
    pub async fn serve(self, listener: Arc<dyn Listener>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                offer = listener.offer() => match offer {
                    Some(offer) => self.take(offer),
                    None => break,
                },
            }
        }
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn take(&self, offer: Box<dyn Offer>) {
        let (handler, cancel) = (self.handler.clone(), self.cancel.clone());
        let place = handler.stream();
        metric::connected(if place.is_some() { "accepted" } else { "rejected" });
        self.tasks.spawn(async move {
            let clock = handler.options().clock.clone();
            let Some(place) = place else {
                return within(&*clock, limits::FAREWELL, offer.reject(503)).await.unwrap_or_default();
            };
            let Some(Ok(session)) = within(&*clock, limits::KNOCK, offer.accept()).await else { return };
            tokio::select! {
                () = attend(&handler, &*session, place) => {}
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

/// Serves one client until it goes.
async fn attend(handler: &Handler, session: &dyn Session, _place: Stream) {
    let clock = handler.options().clock.clone();
    let Some(Some((request, seq, mut writer, mut reader))) =
        within(&*clock, limits::KNOCK, listen(session)).await
    else {
        return session.close_for(CloseCode::Protocol);
    };
    let admitted = match identify(handler, &request).await {
        Ok(client) => {
            match within(&*clock, limits::UNREGISTERED, handler.until_registered(&client.meeting)).await {
                Some(held) => Ok((client, held)),
                None => Err(error(ErrorCode::NotFound, "the meeting is not registered here")),
            }
        }
        Err(refused) => Err(error(ErrorCode::Unauthorized, &refused.to_string())),
    };
    let (client, held) = match admitted {
        Ok(admitted) => admitted,
        Err(payload) => {
            let told = writer.send(&MhServerMessage { payload: Some(payload), seq }).await.is_ok();
            writer.finish();
            if told {
                within(&*clock, limits::FAREWELL, session.closed()).await;
            }
            return session.close_for(CloseCode::Done);
        }
    };
    let waiting_for_mute_mask = client.participant.and_then(|participant| held.mask(participant)).is_none();
    let welcome = Payload::ConnectResponse(MhConnectResponse { waiting_for_mute_mask });
    let honest = error(ErrorCode::StreamError, "this media handler forwards no media yet");
    for payload in [welcome, honest] {
        if writer.send(&MhServerMessage { payload: Some(payload), seq }).await.is_err() {
            return;
        }
    }
    notify(handler, &client, &held, None).await;
    let ended = loop {
        tokio::select! {
            closed = session.closed() => break closed,
            // Nothing else can be said yet; what is said is read and left.
            said = reader.next::<MhClientMessage>() => if !matches!(said, Ok(Some(_))) {
                break session.closed().await;
            },
        }
    };
    let reason = match ended {
        Closed::Code(_) => MediaDisconnectReason::ClientClosed,
        Closed::Lost(_) => MediaDisconnectReason::Timeout,
    };
    notify(handler, &client, &held, Some(reason)).await;
}

async fn listen(session: &dyn Session) -> Option<(MhConnectRequest, u64, MessageWriter, MessageReader)> {
    let (send, receive) = session.accept_bi().await.ok()?;
    let (writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    let first: MhClientMessage = reader.next().await.ok()??;
    let Some(Ask::ConnectRequest(request)) = first.payload else { return None };
    Some((request, first.seq, writer, reader))
}

async fn identify(handler: &Handler, request: &MhConnectRequest) -> Result<Client, JwtError> {
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

/// Tells the meeting's controller that somebody came or went.
async fn notify(handler: &Handler, client: &Client, held: &Held, gone: Option<MediaDisconnectReason>) {
    let Ok(line) = handler.options().lines.to(&held.mc_endpoint) else { return };
    let mut controller = MediaCoordinationServiceClient::new(line);
    let (meeting_id, participant_id) = (client.meeting.to_string(), client.participant_id.clone());
    let handler_id = handler.id().to_owned();
    let told = match gone {
        None => {
            let came = ParticipantMediaConnected { meeting_id, participant_id, handler_id };
            controller.notify_participant_connected(came).await
        }
        Some(reason) => {
            let reason = reason.into();
            let went = ParticipantMediaDisconnected { meeting_id, participant_id, handler_id, reason };
            controller.notify_participant_disconnected(went).await
        }
    };
    if let Err(status) = told {
        tracing::debug!(target: metric::TARGET, meeting = %client.meeting, code = ?status.code(), "the controller was not told");
    }
}
