//! Accepts the sessions of clients and admits those with a valid grant.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Clock;
use tenure_meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use tenure_meet_wire::internal::{
    MediaDisconnectReason, ParticipantMediaConnected, ParticipantMediaDisconnected,
};
use tenure_meet_wire::media::grant::meeting_of;
use tenure_meet_wire::media::limits::DATAGRAM;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Hello, MediaEvent, MediaRequest, Welcome};
use tenure_meet_wire::signaling::{ErrorCode, ErrorMessage};
use tenure_meet_wire::transport::{
    AddressLimit, Closed, Listener, MessageReader, MessageWriter, Offer, ReceiveLimits, Session,
};
use tenure_meet_wire::{CloseCode, Id};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::media::{Bucket, Link, Meeting, SessionStart, mute_message, run_session};
use crate::registry::Refusal;
use crate::{MediaHandler, RefuseMeetings, limits, metric};

/// The path of sessions.
pub const PATH: &str = "/wt/mh";

/// The control stream is served before all media.
const CONTROL_PRIORITY: i32 = i32::MAX;

/// Accepts the sessions of a handler.
pub struct SessionAcceptor {
    handler: MediaHandler,
    tasks: TaskTracker,
    cancel: CancellationToken,
    pending: Arc<Semaphore>,
    addresses: AddressLimit,
}

/// A session that sent Hello.
struct Greeted {
    session: Arc<dyn Session>,
    hello: Hello,
    seq: u64,
    reader: MessageReader,
    writer: MessageWriter,
}

impl SessionAcceptor {
    /// An acceptor in front of this handler.
    pub fn new(handler: MediaHandler) -> Self {
        Self {
            handler,
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            pending: Arc::new(Semaphore::new(limits::PENDING)),
            addresses: AddressLimit::new(limits::PENDING_PER_ADDRESS),
        }
    }

    /// Accepts sessions until `stop`. Then asks members to move, waits for that within bounds, and closes the rest.
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
        self.tasks.close();
        self.handler.set_refuse(RefuseMeetings::Draining);
        let members: usize = self.handler.meetings().iter().map(|meeting| meeting.announce_drain()).sum();
        if members > 0 {
            let clock = self.handler.options().clock.clone();
            within(&*clock, limits::DRAIN, self.tasks.wait()).await;
        }
        self.cancel.cancel();
        for meeting in self.handler.meetings() {
            meeting.close(CloseCode::Draining);
            meeting.tasks.wait().await;
        }
        self.tasks.wait().await;
    }

    fn accept(&self, offer: Box<dyn Offer>) {
        let pending = self.pending.clone().try_acquire_owned().ok();
        let address = self.addresses.take(offer.remote());
        let permits = self.handler.load().take_session().zip(pending.zip(address));
        metric::connected(if permits.is_some() { "accepted" } else { "rejected" });
        let (handler, cancel) = (self.handler.clone(), self.cancel.clone());
        self.tasks.spawn(async move {
            let clock = handler.options().clock.clone();
            let Some((session_slot, pending)) = permits else {
                within(&*clock, limits::READ_REJECTION, offer.reject(503)).await;
                return;
            };
            let Some(Ok(session)) = within(&*clock, limits::HELLO, offer.accept()).await else { return };
            tokio::select! {
                () = serve_session(&handler, session.clone(), pending) => {}
                () = cancel.cancelled() => session.close_for(CloseCode::Draining),
            }
            drop(session_slot);
        });
    }
}

async fn within<T>(clock: &dyn Clock, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = clock.sleep_until(clock.now() + time) => None,
    }
}

/// Admits a client and serves it until its session ends. `pending` is given back when it is admitted.
async fn serve_session<P>(handler: &MediaHandler, session: Arc<dyn Session>, pending: P) {
    let clock = handler.options().clock.clone();
    let Some(Some(mut greeted)) = within(&*clock, limits::HELLO, greet(session.clone())).await else {
        return session.close_for(CloseCode::Protocol);
    };
    let (sender, events) = mpsc::channel(limits::EVENTS);
    let ingest = Bucket::new(0, limits::INGEST_BURST, clock.now());
    let link = Arc::new(Link::new(session.clone(), sender, ingest));
    let admitted = tokio::select! {
        admitted = within(&*clock, limits::UNREGISTERED, admit(handler, &greeted.hello, &link)) => admitted,
        _ = session.closed() => return,
    };
    let Some(Ok((meeting, participant, serial, mask))) = admitted else {
        return refuse(handler, greeted).await;
    };
    session.set_receive_limits(ReceiveLimits::MEDIA);
    drop(pending);
    let welcome = Welcome {
        participant_id: participant.to_string(),
        muted: Some(mute_message(mask)),
        max_datagram_bytes: session.max_datagram().min(DATAGRAM) as u32,
        max_publications: limits::PUBLICATIONS as u32,
        max_subscriptions: limits::SUBSCRIPTIONS as u32,
    };
    let welcome = MediaEvent { payload: Some(Payload::Welcome(welcome)), seq: greeted.seq };
    if greeted.writer.send(&welcome).await.is_err() {
        return meeting.leave(participant, serial);
    }
    let (reader, writer) = (greeted.reader, greeted.writer);
    let start = SessionStart { participant, serial, link, reader, writer, events };
    notify(handler, &meeting, participant, None);
    // The tasks of a session belong to its meeting.
    let served = meeting.tasks.spawn(run_session(meeting.clone(), start)).await;
    let reason = match served {
        Ok(Closed::Code(_)) => MediaDisconnectReason::ClientClosed,
        Ok(Closed::Lost(_)) => MediaDisconnectReason::Timeout,
        Err(_) => MediaDisconnectReason::Error,
    };
    notify(handler, &meeting, participant, Some(reason));
}

async fn greet(session: Arc<dyn Session>) -> Option<Greeted> {
    let (mut send, receive) = session.accept_bi().await.ok()?;
    send.set_priority(CONTROL_PRIORITY);
    let (writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
    let first: MediaRequest = reader.next().await.ok()??;
    let Some(Request::Hello(hello)) = first.payload else { return None };
    Some(Greeted { session, hello, seq: first.seq, reader, writer })
}

type Member = (Arc<Meeting>, Id, u64, crate::MuteMask);

/// Admits a participant by its grant. Waits while the meeting is not registered or the participant has no mask.
async fn admit(handler: &MediaHandler, hello: &Hello, link: &Arc<Link>) -> Result<Member, &'static str> {
    let id = meeting_of(&hello.grant).ok_or("malformed")?;
    let clock = &handler.options().clock;
    loop {
        let meeting = handler.wait_for_meeting(&id).await;
        let mut called = meeting.called.subscribe();
        let keys = meeting.state.lock().control.keys().cloned();
        if let Some(keys) = keys {
            let now_ms = clock.wall().as_millis();
            let grant = keys.open(&hello.grant, &id, handler.id(), now_ms).map_err(|_| "grant")?;
            match meeting.join(&grant, hello.standby, link) {
                Ok((participant, serial, mask)) => return Ok((meeting, participant, serial, mask)),
                Err(Refusal::Refused(reason)) => {
                    tracing::debug!(target: metric::TARGET, meeting = %id, reason, "grant refused");
                    return Err(reason);
                }
                Err(Refusal::NotYet) => {}
            }
        }
        tokio::select! {
            // The sender is owned by the meeting.
            _ = called.changed() => {}
            () = meeting.cancel.cancelled() => {}
        }
    }
}

/// Refuses a client in the same way for every reason.
async fn refuse(handler: &MediaHandler, mut greeted: Greeted) {
    let error = ErrorMessage {
        code: ErrorCode::Unauthorized.into(),
        message: "the grant is not accepted".to_owned(),
        details: Default::default(),
    };
    let event = MediaEvent { payload: Some(Payload::Error(error)), seq: greeted.seq };
    if greeted.writer.send(&event).await.is_ok() {
        greeted.writer.finish();
        // A close may overtake the answer.
        within(&*handler.options().clock, limits::READ_REFUSAL, greeted.session.closed()).await;
    }
    greeted.session.close_for(CloseCode::Protocol);
}

/// Notifies the meeting's controller that a client connected or disconnected.
fn notify(
    handler: &MediaHandler,
    meeting: &Arc<Meeting>,
    participant: Id,
    gone: Option<MediaDisconnectReason>,
) {
    let endpoint = meeting.state.lock().control.owner.mc_endpoint.clone();
    let Ok(line) = handler.options().channels.to(&endpoint) else { return };
    let (meeting_id, participant_id) = (meeting.id.to_string(), participant.to_string());
    let handler_id = handler.id().to_owned();
    meeting.tasks.spawn(async move {
        let mut controller = MediaCoordinationServiceClient::new(line);
        let notified = match gone {
            None => {
                let connected = ParticipantMediaConnected { meeting_id, participant_id, handler_id };
                controller.notify_participant_connected(connected).await
            }
            Some(reason) => {
                let reason = reason.into();
                let gone = ParticipantMediaDisconnected { meeting_id, participant_id, handler_id, reason };
                controller.notify_participant_disconnected(gone).await
            }
        };
        if let Err(status) = notified {
            tracing::debug!(target: metric::TARGET, code = ?status.code(), "controller not notified");
        }
    });
}
