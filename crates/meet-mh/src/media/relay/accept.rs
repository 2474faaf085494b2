//! Accepts the connections of other handlers.

use std::sync::Arc;

use tenure_meet_rpc::ServiceRole;
use tenure_meet_wire::jwt::{ServiceClaims, ServiceType};
use tenure_meet_wire::media::relay::relay_message::Payload;
use tenure_meet_wire::media::relay::{RelayHello, RelayMessage, RelayWelcome};
use tenure_meet_wire::transport::{Listener, MessageReader, MessageWriter, Offer, Session};
use tenure_meet_wire::{CloseCode, MeetingId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::meeting::Meeting;
use super::link::{self, Connected};
use crate::{MediaHandler, limits, metric};

/// Accepts the connections of other handlers.
pub struct RelayAcceptor {
    handler: MediaHandler,
    tasks: TaskTracker,
    pending: Arc<Semaphore>,
}

impl RelayAcceptor {
    /// An acceptor in front of this handler.
    pub fn new(handler: MediaHandler) -> Self {
        let pending = Arc::new(Semaphore::new(limits::PENDING_RELAYS));
        Self { handler, tasks: TaskTracker::new(), pending }
    }

    /// Accepts connections until `stop`. Links end with their meetings.
    pub async fn serve(self, listener: Arc<dyn Listener>, stop: CancellationToken) {
        loop {
            let offer = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                offer = listener.offer() => offer,
            };
            let Some(offer) = offer else { break };
            let pending = self.pending.clone().try_acquire_owned();
            let (handler, stop) = (self.handler.clone(), stop.clone());
            self.tasks.spawn(async move {
                let Ok(pending) = pending else { return offer.reject(503).await };
                let clock = handler.options().clock.clone();
                let accepted = tokio::select! {
                    accepted = accept(&handler, offer) => accepted,
                    () = clock.sleep_until(clock.now() + limits::UNREGISTERED) => None,
                    () = stop.cancelled() => None,
                };
                drop(pending);
                metric::relay_connected(if accepted.is_some() { "accepted" } else { "rejected" });
                if let Some((meeting, connected)) = accepted {
                    // The tasks of a link belong to its meeting.
                    meeting.tasks.spawn(link::run(meeting.clone(), connected));
                }
            });
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Accepts a handler that presents a service token and is named for the meeting. Nothing is sent to any other one.
async fn accept(handler: &MediaHandler, offer: Box<dyn Offer>) -> Option<(Arc<Meeting>, Connected)> {
    let session = offer.accept().await.ok()?;
    let accepted = greet(handler, &session).await;
    if accepted.is_none() {
        session.close_for(CloseCode::Protocol);
    }
    accepted
}

async fn greet(handler: &MediaHandler, session: &Arc<dyn Session>) -> Option<(Arc<Meeting>, Connected)> {
    let (send, receive) = session.accept_bi().await.ok()?;
    let (mut writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    let first: RelayMessage = reader.next().await.ok()??;
    let Some(Payload::Hello(hello)) = first.payload else { return None };
    let claims: ServiceClaims = handler.options().keyring.check(&hello.service_token).await.ok()?;
    let is_handler = claims.service_type == ServiceType::MediaHandler;
    if !is_handler || !claims.allows(ServiceRole::Mh.scope()) {
        return None;
    }
    let meeting = named(handler, &hello).await?;
    let welcome = Payload::Welcome(RelayWelcome { handler_id: handler.id().to_owned() });
    writer.send(&RelayMessage { payload: Some(welcome) }).await.ok()?;
    let cancel = meeting.cancel.child_token();
    let (handler, session) = (hello.handler_id, session.clone());
    Some((meeting, Connected { handler, session, reader, writer, cancel }))
}

/// The meeting of a handler that introduced itself, once its owner has named it. `None` if it must not dial.
async fn named(handler: &MediaHandler, hello: &RelayHello) -> Option<Arc<Meeting>> {
    let id = MeetingId::parse(&hello.meeting_id)?;
    if hello.handler_id.as_str() >= handler.id() {
        return None;
    }
    loop {
        let meeting = handler.wait_for_meeting(&id).await;
        let mut called = meeting.called.subscribe();
        if meeting.state.lock().control.peer(&hello.handler_id).is_some() {
            return Some(meeting);
        }
        tokio::select! {
            // The sender is owned by the meeting.
            _ = called.changed() => {}
            () = meeting.cancel.cancelled() => {}
        }
    }
}
