//! The loop that owns the sessions, publications and subscriptions of a participant.

mod sessions;
mod tracks;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_lease::{Clock, Tick};
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{MediaEvent, MediaRequest, Mute, Speakers};
use tenure_meet_wire::signaling::{MediaServerInfo, MhConnectionState};
use tenure_meet_wire::transport::Session;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::MediaOptions;
use super::controller::MediaController;
use super::inbox::{AudioInbox, Inboxes, VideoInbox};
use super::publication::PublicationState;
use super::session::{HELLO_SEQ, Port, SessionEvent, SessionId};
use super::subscription::SubscriptionState;
use super::{EnforcedMute, MediaState, Speaker, limits};
use crate::dial::Dial;

/// Where a subscription's media goes.
#[derive(Clone)]
pub(super) enum Sink {
    Video(Arc<VideoInbox>),
    Audio(Arc<AudioInbox>),
}

/// What the owner of the media client asks for.
pub(super) enum Command {
    Publish(Arc<PublicationState>),
    Subscribe(Arc<SubscriptionState>, Sink),
}

/// What a link is made of.
pub(super) struct LinkParts {
    pub(super) dial: Arc<dyn Dial>,
    pub(super) controller: Arc<dyn MediaController>,
    pub(super) servers: watch::Receiver<Vec<MediaServerInfo>>,
    pub(super) options: MediaOptions,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) state: watch::Sender<MediaState>,
    pub(super) wake: Arc<Notify>,
    pub(super) cancel: CancellationToken,
}

/// Numbers publications and subscriptions.
type TrackId = u64;

struct Publication {
    state: Arc<PublicationState>,
}

struct Subscription {
    state: Arc<SubscriptionState>,
    sink: Sink,
}

/// A handler that the controller named.
struct Server {
    info: MediaServerInfo,
    named_at: Tick,
    used: bool,
}

/// What a request waits for.
enum Pending {
    Published(TrackId, u16),
    Subscribed(TrackId),
    Nothing,
}

/// A session as the link sees it.
struct SessionEntry {
    id: SessionId,
    url: String,
    port: Arc<Port>,
    standby: bool,
    leaving: bool,
    /// Once it is welcomed.
    transport: Option<Arc<dyn Session>>,
    requests: mpsc::Sender<MediaRequest>,
    seq: u64,
    next_alias: u16,
    pending: BTreeMap<u64, Pending>,
    /// The aliases of publications.
    published: BTreeMap<TrackId, u16>,
    /// What the subscribers of this session's handler need, by publication.
    needed: BTreeMap<TrackId, (Vec<u8>, u8)>,
    /// The subscriptions that were sent, and the change that was sent last.
    subscribed: BTreeMap<TrackId, u64>,
    /// When to close it.
    close_at: Option<Tick>,
    cancel: CancellationToken,
    reported: Option<MhConnectionState>,
}

impl SessionEntry {
    fn is_open(&self) -> bool {
        self.transport.is_some()
    }

    /// Sends a request. A session that takes none is closed.
    fn request(&mut self, request: Request, pending: Pending) {
        self.seq += 1;
        let message = MediaRequest { payload: Some(request), seq: self.seq };
        match self.requests.try_send(message) {
            Ok(()) => drop(self.pending.insert(self.seq, pending)),
            Err(_) => self.cancel.cancel(),
        }
    }
}

pub(super) struct Link {
    dial: Arc<dyn Dial>,
    controller: Arc<dyn MediaController>,
    options: MediaOptions,
    clock: Arc<dyn Clock>,
    commands: mpsc::Receiver<Command>,
    named: watch::Receiver<Vec<MediaServerInfo>>,
    state: watch::Sender<MediaState>,
    wake: Arc<Notify>,
    cancel: CancellationToken,
    inboxes: Arc<Inboxes>,
    event_sender: mpsc::Sender<(SessionId, SessionEvent)>,
    events: mpsc::Receiver<(SessionId, SessionEvent)>,
    servers: Vec<Server>,
    sessions: Vec<SessionEntry>,
    active: Option<SessionId>,
    publications: BTreeMap<TrackId, Publication>,
    subscriptions: BTreeMap<TrackId, Subscription>,
    next_id: u64,
    failures: u32,
    retry_at: Option<Tick>,
    granted_at: Option<Tick>,
    report_at: Tick,
    /// Subscriptions to be sent again, by session and track.
    again: Vec<(Tick, SessionId, TrackId)>,
    tasks: JoinSet<()>,
}

impl Link {
    pub(super) fn new(parts: LinkParts) -> Self {
        let clock = parts.options.clock.clone();
        let report_at = clock.now() + limits::REPORT;
        let (event_sender, events) = mpsc::channel(limits::EVENTS);
        Self {
            dial: parts.dial,
            controller: parts.controller,
            options: parts.options,
            clock,
            commands: parts.commands,
            named: parts.servers,
            state: parts.state,
            wake: parts.wake,
            cancel: parts.cancel,
            inboxes: Arc::default(),
            event_sender,
            events,
            servers: Vec::new(),
            sessions: Vec::new(),
            active: None,
            publications: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            next_id: 0,
            failures: 0,
            retry_at: None,
            granted_at: None,
            report_at,
            again: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs until the media client is closed.
    pub(super) async fn run(mut self) {
        let (clock, cancel, wake) = (self.clock.clone(), self.cancel.clone(), self.wake.clone());
        self.named.mark_changed();
        let mut check = clock.sleep_until(clock.now() + limits::CHECK);
        let mut named_is_over = false;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some((id, event)) = self.events.recv() => self.session_event(id, event),
                Some(command) = self.commands.recv() => self.command(command),
                changed = self.named.changed(), if !named_is_over => match changed {
                    Ok(()) => self.take_servers(),
                    Err(_) => named_is_over = true,
                },
                () = wake.notified() => self.sweep(),
                () = &mut check => {
                    self.tick();
                    check = clock.sleep_until(clock.now() + limits::CHECK);
                }
                Some(_) = self.tasks.join_next() => {}
            }
            self.decide();
        }
        for session in &self.sessions {
            session.cancel.cancel();
        }
        self.inboxes.set_active(None);
        // Session tasks report their end, which is not read any more.
        self.events.close();
        while self.tasks.join_next().await.is_some() {}
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn command(&mut self, command: Command) {
        let id = self.next_id();
        match command {
            Command::Publish(state) => {
                state.set_active(self.active);
                self.publications.insert(id, Publication { state });
                for at in 0..self.sessions.len() {
                    self.announce(at, id);
                }
            }
            Command::Subscribe(state, sink) => self.subscribe(id, state, sink),
        }
    }

    /// Everything that is due.
    fn tick(&mut self) {
        let now = self.clock.now();
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.dial_missing();
        }
        for session in &self.sessions {
            if session.close_at.is_some_and(|at| now >= at) {
                session.cancel.cancel();
            }
        }
        let (due, later) = std::mem::take(&mut self.again).into_iter().partition(|(at, ..)| now >= *at);
        self.again = later;
        let due: Vec<(Tick, SessionId, TrackId)> = due;
        for (_, session, track) in due {
            if let Some(at) = self.sessions.iter().position(|it| it.id == session) {
                self.ask(at, track);
            }
        }
        if now >= self.report_at {
            self.report_at = now + limits::REPORT;
            self.report_tracks();
        }
    }

    fn session_event(&mut self, id: SessionId, event: SessionEvent) {
        let Some(at) = self.sessions.iter().position(|session| session.id == id) else { return };
        match event {
            SessionEvent::Welcomed(transport, welcome) => {
                self.sessions[at].transport = Some(transport);
                self.sessions[at].seq = HELLO_SEQ;
                if let Some(mute) = welcome.muted {
                    self.muted(&mute);
                }
                self.opened(at);
            }
            SessionEvent::Received(event) => self.received(at, event),
            SessionEvent::Ended { why, code } => self.lost(at, why, code),
        }
    }

    fn muted(&mut self, mute: &Mute) {
        let mute = EnforcedMute { audio: mute.audio_muted, video: mute.video_muted, epoch: mute.mute_epoch };
        self.state.send_if_modified(|state| {
            let newer = mute.epoch >= state.mute.epoch && mute != state.mute;
            if newer {
                state.mute = mute;
            }
            newer
        });
    }

    fn received(&mut self, at: usize, event: MediaEvent) {
        let Some(payload) = event.payload else { return };
        let pending = self.sessions[at].pending.remove(&event.seq);
        let is_active = self.active == Some(self.sessions[at].id);
        match payload {
            Event::Published(_) => self.published(at, pending),
            Event::Subscribed(subscribed) => self.subscribed(at, &subscribed),
            Event::Ended(ended) => self.ended(at, &ended),
            Event::KeyframeNeeded(needed) => self.keyframe_needed(at, &needed),
            Event::RenditionsNeeded(needed) => self.renditions_needed(at, &needed),
            Event::Report(report) => {
                let loss = report.loss_permille;
                if is_active {
                    for publication in self.publications.values() {
                        publication.state.loss.store(loss, std::sync::atomic::Ordering::Relaxed);
                    }
                    self.state.send_modify(|state| state.report = Some(report));
                }
            }
            Event::Mute(mute) => self.muted(&mute),
            Event::Speakers(speakers) if is_active => self.speaking(&speakers),
            Event::Goaway(goaway) => {
                self.sessions[at].leaving = true;
                if is_active {
                    self.state.send_modify(|state| state.goaway = Some(goaway.reason));
                }
            }
            Event::Error(error) => self.refused(at, pending, &error),
            Event::Welcome(_) | Event::Speakers(_) | Event::Pong(_) | Event::Accepted(_) => {}
        }
    }

    fn speaking(&mut self, speakers: &Speakers) {
        let speakers = speakers.levels.iter().map(|speaker| Speaker {
            participant_id: speaker.participant_id.clone(),
            level: u8::try_from(speaker.level).unwrap_or(u8::MAX),
        });
        self.state.send_modify(|state| state.speakers = speakers.collect());
    }
}
