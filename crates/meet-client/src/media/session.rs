//! One session with a media handler: connects, greets, writes requests and reads events.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};
use tenure_meet_wire::CloseCode;
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Hello, MediaEvent, MediaRequest, Welcome};
use tenure_meet_wire::signaling::{MediaServerInfo, StreamType};
use tenure_meet_wire::transport::{Closed, MessageReader, MessageWriter, Session};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::inbox::Inboxes;
use super::receive::{read_datagrams, read_groups};
use super::{TrackName, limits};
use crate::dial::{Dial, Endpoint};

pub(super) type SessionId = u64;

/// What a session tells its link.
pub(super) enum SessionEvent {
    /// The handler admitted this participant.
    Welcomed(Arc<dyn Session>, Welcome),
    /// An event of the handler.
    Received(MediaEvent),
    /// The session ended. Nothing follows.
    Ended { why: String, code: Option<u32> },
}

/// A track that the handler announced, under the alias of this session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Track {
    pub(super) name: TrackName,
    pub(super) kind: StreamType,
    pub(super) incarnation: u64,
}

/// What the link and the readers of a session share.
pub(super) struct Port {
    pub(super) id: SessionId,
    heard: AtomicU64,
    tracks: Mutex<HashMap<u16, Arc<Track>>>,
    /// Rises when a track is announced.
    announced: watch::Sender<u64>,
}

impl Port {
    pub(super) fn new(id: SessionId, now: Tick) -> Self {
        Self {
            id,
            heard: AtomicU64::new(now.as_nanos()),
            tracks: Mutex::default(),
            announced: watch::Sender::new(0),
        }
    }

    /// A byte arrived.
    pub(super) fn mark_heard(&self, now: Tick) {
        self.heard.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The time since the last byte.
    pub(super) fn silent(&self, now: Tick) -> Duration {
        now.since(Tick::from_nanos(self.heard.load(Ordering::Relaxed)))
    }

    /// The handler announced a track. What waits for it goes on.
    pub(super) fn announce(&self, alias: u16, track: Track) {
        self.tracks.lock().insert(alias, Arc::new(track));
        self.announced.send_modify(|count| *count += 1);
    }

    pub(super) fn remove(&self, alias: u16) -> Option<Arc<Track>> {
        self.tracks.lock().remove(&alias)
    }

    pub(super) fn track(&self, alias: u16) -> Option<Arc<Track>> {
        self.tracks.lock().get(&alias).cloned()
    }

    /// The alias of a track.
    pub(super) fn alias_of(&self, name: &TrackName) -> Option<u16> {
        self.tracks.lock().iter().find(|(_, track)| track.name == *name).map(|(alias, _)| *alias)
    }

    pub(super) fn announcements(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }
}

/// A session that is to be run.
pub(super) struct SessionTask {
    pub(super) port: Arc<Port>,
    pub(super) server: MediaServerInfo,
    pub(super) standby: bool,
    pub(super) dial: Arc<dyn Dial>,
    pub(super) traceparent: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) inboxes: Arc<Inboxes>,
    pub(super) requests: mpsc::Receiver<MediaRequest>,
    pub(super) events: mpsc::Sender<(SessionId, SessionEvent)>,
    pub(super) cancel: CancellationToken,
}

/// The number of Hello. Requests of the link have greater ones.
pub(super) const HELLO_SEQ: u64 = 1;

impl SessionTask {
    /// Runs the session until it ends, and says how.
    pub(super) async fn run(mut self) {
        let cancel = self.cancel.clone();
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => SessionEvent::Ended { why: "closed by this client".to_owned(), code: None },
            ended = self.serve() => ended,
        };
        // The link is gone.
        let _closed = self.events.send((self.port.id, ended)).await;
    }

    async fn serve(&mut self) -> SessionEvent {
        let clock = self.clock.clone();
        let late = clock.sleep_until(clock.now() + limits::DIAL);
        let connected = tokio::select! {
            connected = self.connect() => connected,
            () = late => Err(("no answer in time".to_owned(), None)),
        };
        let (session, writer, mut reader, welcome) = match connected {
            Ok(connected) => connected,
            Err((why, code)) => return SessionEvent::Ended { why, code },
        };
        // Closes the session when this task ends for any reason.
        let session = ClosesOnDrop(session);
        self.port.mark_heard(clock.now());
        if !self.tell(SessionEvent::Welcomed(session.0.clone(), welcome)).await {
            return SessionEvent::Ended { why: String::new(), code: None };
        }
        let mut tasks = JoinSet::new();
        let (_, none) = mpsc::channel(1);
        tasks.spawn(write_requests(writer, std::mem::replace(&mut self.requests, none)));
        let (port, inboxes) = (&self.port, &self.inboxes);
        tasks.spawn(read_groups(session.0.clone(), port.clone(), inboxes.clone(), clock.clone()));
        tasks.spawn(read_datagrams(session.0.clone(), port.clone(), inboxes.clone(), clock.clone()));
        loop {
            let received = tokio::select! {
                received = reader.next::<MediaEvent>() => received,
                closed = session.0.closed() => return ended(closed),
            };
            self.port.mark_heard(clock.now());
            match received {
                Ok(Some(event)) => {
                    if !self.tell(SessionEvent::Received(event)).await {
                        return SessionEvent::Ended { why: String::new(), code: None };
                    }
                }
                Ok(None) => return ended(session.0.closed().await),
                Err(error) => return SessionEvent::Ended { why: error.to_string(), code: None },
            }
        }
    }

    async fn tell(&self, event: SessionEvent) -> bool {
        self.events.send((self.port.id, event)).await.is_ok()
    }

    async fn connect(
        &self,
    ) -> Result<(Arc<dyn Session>, MessageWriter, MessageReader, Welcome), (String, Option<u32>)> {
        let lost = |error: &dyn std::fmt::Display| (error.to_string(), None);
        let hashes = self.server.certificate_sha256.iter().map(|hash| hash.to_vec()).collect();
        let place = Endpoint { url: self.server.media_handler_url.clone(), hashes };
        let session = self.dial.dial(&place, &self.traceparent).await.map_err(|error| lost(&error))?;
        let (send, receive) = session.open_bi().await.map_err(|error| lost(&error))?;
        let (mut writer, mut reader) = (MessageWriter::new(send), MessageReader::new(receive));
        let hello = Hello { grant: self.server.media_grant.clone(), standby: self.standby };
        let hello = MediaRequest { payload: Some(Request::Hello(hello)), seq: HELLO_SEQ };
        writer.send(&hello).await.map_err(|error| lost(&error))?;
        let first = reader.next::<MediaEvent>().await.map_err(|error| lost(&error))?;
        match first.and_then(|event| event.payload) {
            Some(Event::Welcome(welcome)) => Ok((session, writer, reader, welcome)),
            Some(Event::Error(error)) => {
                session.close_for(CloseCode::Done);
                Err((error.message, Some(CloseCode::Protocol.number())))
            }
            _ => match session.closed().await {
                Closed::Code(code) => Err(("closed".to_owned(), Some(code))),
                Closed::Lost(why) => Err((why, None)),
            },
        }
    }
}

struct ClosesOnDrop(Arc<dyn Session>);

impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        self.0.close_for(CloseCode::Done);
    }
}

fn ended(closed: Closed) -> SessionEvent {
    match closed {
        Closed::Code(code) => {
            SessionEvent::Ended { why: format!("closed with code {code}"), code: Some(code) }
        }
        Closed::Lost(why) => SessionEvent::Ended { why, code: None },
    }
}

async fn write_requests(mut writer: MessageWriter, mut requests: mpsc::Receiver<MediaRequest>) {
    while let Some(request) = requests.recv().await {
        if writer.send(&request).await.is_err() {
            // The reader learns why.
            return;
        }
    }
}
