//! A meeting at this handler: one lock over who is here and what they publish and subscribe to.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};
use tenure_meet_rpc::ChannelPool;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::MediaGrant;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{Ended, Goaway, Mute};
use tenure_meet_wire::{CloseCode, Id, MeetingId};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bucket::Bucket;
use super::group::{Budget, Group};
use super::member::{Link, Member};
use super::rate::Rate;
use super::relay::{RelayDialer, RelayLink, run_dialing};
use super::selection::Selection;
use super::ticker::Counts;
use super::track::{Kind, Track, TrackKey};
use super::{Load, ticker};
use crate::registry::{Admitted, MediaRights, MuteMask, Refusal, RegisteredMeeting};
use crate::{Options, limits};

/// Aliases from here on belong to audio tracks and are the same in all sessions, so that a datagram is encoded once.
pub(crate) const FIRST_AUDIO_ALIAS: u16 = 0x8000;

/// What all meetings of a handler share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) load: Arc<Load>,
    pub(crate) cache: Arc<Budget>,
    /// The id of the handler.
    pub(crate) id: String,
    /// Connections to controllers.
    pub(crate) channels: ChannelPool,
    /// Connects to other handlers.
    pub(crate) relays: Option<Arc<dyn RelayDialer>>,
    serial: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        Arc::new(Self {
            clock: options.clock.clone(),
            load: Arc::new(Load::new(options.max_streams)),
            cache: Budget::new(options.cache_bytes),
            id: options.id.clone(),
            channels: options.channels.clone(),
            relays: options.relays.clone(),
            serial: AtomicU64::new(1),
        })
    }

    /// A number that rises with every call.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

/// A meeting.
pub(crate) struct Meeting {
    pub(crate) id: MeetingId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<State>,
    pub(crate) tasks: TaskTracker,
    pub(crate) cancel: CancellationToken,
    /// Datagrams are waiting to be sent.
    pub(crate) flush: Notify,
    /// Changes with every call of the owner; participants that are not admitted yet wait for it.
    pub(crate) called: watch::Sender<u64>,
}

/// The state of a meeting.
pub(crate) struct State {
    pub(crate) control: RegisteredMeeting,
    pub(crate) last_call: Tick,
    pub(crate) members: HashMap<Id, Member>,
    pub(crate) tracks: HashMap<TrackKey, Track>,
    pub(crate) selection: Selection,
    pub(crate) next_audio_alias: u16,
    /// Aliases that were given to audio tracks, by participant.
    pub(crate) audio_tracks: HashMap<Id, u16>,
    pub(crate) flush_scheduled: bool,
    /// The order of speakers that was announced last.
    pub(crate) announced: watch::Sender<Vec<Id>>,
    pub(crate) ticking: bool,
    pub(crate) flushing: bool,
    pub(crate) was_alive: bool,
    pub(crate) counts: Counts,
    /// Connections with other handlers of the meeting.
    pub(crate) links: HashMap<u64, RelayLink>,
    /// Whether other handlers are dialled.
    relaying: bool,
    /// The number of the last offer.
    offers: u64,
    /// Whether the meeting has members.
    pub(crate) occupied: watch::Sender<bool>,
}

impl Meeting {
    pub(crate) fn new(id: MeetingId, control: RegisteredMeeting, shared: Arc<Shared>) -> Arc<Self> {
        let now = shared.clock.now();
        Arc::new(Self {
            id,
            shared,
            state: Mutex::new(State {
                control,
                last_call: now,
                members: HashMap::new(),
                tracks: HashMap::new(),
                selection: Selection::default(),
                next_audio_alias: FIRST_AUDIO_ALIAS,
                audio_tracks: HashMap::new(),
                flush_scheduled: false,
                announced: watch::Sender::new(Vec::new()),
                ticking: false,
                flushing: false,
                was_alive: true,
                counts: Counts::default(),
                links: HashMap::new(),
                relaying: false,
                offers: 0,
                occupied: watch::Sender::new(false),
            }),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            flush: Notify::new(),
            called: watch::Sender::new(0),
        })
    }

    pub(crate) fn now(&self) -> Tick {
        self.shared.clock.now()
    }

    /// Admits a participant by a grant that was opened, and makes it a member. An older session of it is closed.
    pub(crate) fn join(
        self: &Arc<Self>,
        grant: &MediaGrant,
        standby: bool,
        link: &Arc<Link>,
    ) -> Result<(Id, u64, MuteMask), Refusal> {
        let now = self.now();
        let mut state = self.state.lock();
        let current = Id::parse(&grant.participant_id)
            .and_then(|participant| state.members.get(&participant))
            .map(|member| (member.epoch, member.issued_at_ms));
        let Admitted { participant, mask } = state.control.admit(grant, current, now)?;
        if let Some(older) = state.members.get(&participant) {
            let (older, serial) = (older.link.clone(), older.serial);
            older.session.close_for(CloseCode::Superseded);
            state.remove_member(participant, serial);
        }
        let serial = self.shared.next_serial();
        state.members.insert(
            participant,
            Member {
                serial,
                user: grant.user_id.clone(),
                epoch: grant.epoch,
                issued_at_ms: grant.issued_at_ms,
                mute_epoch: grant.mute_epoch,
                rights: MediaRights {
                    send_audio: grant.may_send_audio,
                    send_video: grant.may_send_video,
                    receive: grant.may_receive,
                },
                link: link.clone(),
                standby,
                publications: HashMap::new(),
                used_aliases: Default::default(),
                subscriptions: Default::default(),
                next_alias: 1,
                all_audio: None,
                speakers: HashMap::new(),
                outbox: Vec::new(),
                outbox_bytes: 0,
                rate: Rate::default(),
                messages: Bucket::new(limits::MESSAGES, limits::MESSAGES * 2, now),
                cache: Budget::new(limits::SESSION_CACHE),
                changed: watch::Sender::new(0),
                quiet_ticks: 0,
                violations: 0,
                last_stats: Default::default(),
                last_report: None,
                receives: false,
            },
        );
        state.update_receivers(now);
        state.occupied.send_replace(true);
        if !std::mem::replace(&mut state.ticking, true) {
            self.tasks.spawn(ticker::run(self.clone()));
        }
        if !std::mem::replace(&mut state.flushing, true) {
            self.tasks.spawn(super::audio::run_flush(self.clone()));
            self.tasks.spawn(super::speakers::report(self.clone()));
        }
        Ok((participant, serial, mask))
    }

    /// Connects to the other handlers of the meeting from now on, if there are any.
    pub(crate) fn start_relays(self: &Arc<Self>) {
        let Some(dialer) = self.shared.relays.clone() else { return };
        let mut state = self.state.lock();
        if !state.control.peers().is_empty() && !std::mem::replace(&mut state.relaying, true) {
            self.tasks.spawn(run_dialing(self.clone(), dialer));
        }
    }

    /// Removes a member whose session ended.
    pub(crate) fn leave(&self, participant: Id, serial: u64) {
        self.state.lock().remove_member(participant, serial);
    }

    /// Closes the session of a participant that left or was removed.
    pub(crate) fn release_participant(&self, participant: Id, code: CloseCode) {
        let mut state = self.state.lock();
        if let Some(member) = state.members.get(&participant) {
            let (link, serial) = (member.link.clone(), member.serial);
            state.remove_member(participant, serial);
            link.session.close_for(code);
        }
        // Also those of a participant whose session was lost before.
        state.end_tracks(participant, "left");
    }

    /// Ends all sessions and all tasks.
    pub(crate) fn close(&self, code: CloseCode) {
        let mut state = self.state.lock();
        let members: Vec<(Id, u64, Arc<Link>)> =
            state.members.iter().map(|(id, member)| (*id, member.serial, member.link.clone())).collect();
        for (participant, serial, link) in members {
            state.remove_member(participant, serial);
            link.session.close_for(code);
        }
        let none = Counts::default();
        state.set_counts(none, &self.shared.load);
        drop(state);
        self.cancel.cancel();
        self.tasks.close();
    }

    /// Asks all members to move to another handler.
    pub(crate) fn announce_drain(&self) -> usize {
        let state = self.state.lock();
        let deadline_ms = limits::DRAIN.as_millis() as u32;
        for member in state.members.values() {
            member.link.tell(Payload::Goaway(Goaway { reason: "draining".to_owned(), deadline_ms }), 0);
        }
        state.members.len()
    }

    /// Counts a violation of the protocol. A session with too many is closed.
    pub(crate) fn violation(&self, participant: Id, serial: u64) {
        let mut state = self.state.lock();
        let Some(member) = state.member(participant, serial) else { return };
        member.violations += 1;
        if member.violations >= limits::VIOLATIONS {
            member.link.session.close_for(CloseCode::Protocol);
        }
    }
}

impl State {
    /// A member, if this is still its session.
    pub(crate) fn member(&mut self, participant: Id, serial: u64) -> Option<&mut Member> {
        self.members.get_mut(&participant).filter(|member| member.serial == serial)
    }

    /// The track of a key, which is created.
    pub(crate) fn track(&mut self, key: &TrackKey) -> &mut Track {
        self.tracks.entry(key.clone()).or_insert_with(|| Track::new(key.clone()))
    }

    /// Whether something of a participant may be forwarded.
    pub(crate) fn may_send(&self, participant: Id, kind: Kind, now: Tick) -> bool {
        let Some(member) = self.members.get(&participant) else { return false };
        let mask = self.control.mask(participant).filter(|mask| mask.epoch >= member.mute_epoch);
        let Some(mask) = mask.filter(|_| self.control.is_alive(now)) else { return false };
        let owner = self.control.rights(participant);
        match kind {
            Kind::Audio => {
                !mask.audio && member.rights.send_audio && owner.is_none_or(|rights| rights.send_audio)
            }
            Kind::Video | Kind::Screen => {
                !mask.video && member.rights.send_video && owner.is_none_or(|rights| rights.send_video)
            }
        }
    }

    /// Whether something of a participant that another handler sends may be forwarded. Its owner must have named a seat
    /// and a mask.
    pub(crate) fn may_relay(&self, participant: Id, kind: Kind, now: Tick) -> bool {
        let mask = self.control.mask(participant).filter(|_| self.control.is_alive(now));
        let (Some(mask), Some(rights)) = (mask, self.control.rights(participant)) else { return false };
        match kind {
            Kind::Audio => !mask.audio && rights.send_audio,
            Kind::Video | Kind::Screen => !mask.video && rights.send_video,
        }
    }

    /// Whether a track may be forwarded, wherever it comes from.
    pub(crate) fn may_forward(&self, key: &TrackKey, kind: Kind, now: Tick) -> bool {
        let Some(track) = self.tracks.get(key) else { return false };
        let local = track.publication.is_some() && self.may_send(key.participant, kind, now);
        local || (!track.relayed.is_empty() && self.may_relay(key.participant, kind, now))
    }

    /// The number of the next offer to other handlers.
    pub(crate) fn next_offer(&mut self) -> u64 {
        self.offers += 1;
        self.offers
    }

    /// Whether a participant may get something.
    pub(crate) fn may_receive(&self, participant: Id, now: Tick) -> bool {
        let Some(member) = self.members.get(&participant) else { return false };
        let mask = self.control.mask(participant).filter(|mask| mask.epoch >= member.mute_epoch);
        mask.is_some()
            && member.rights.receive
            && self.control.rights(participant).is_none_or(|rights| rights.receive)
            && self.control.is_alive(now)
    }

    /// Removes a member. Its tracks stay for their subscribers until it comes back or is released.
    pub(crate) fn remove_member(&mut self, participant: Id, serial: u64) {
        if self.member(participant, serial).is_none() {
            return;
        }
        let Some(member) = self.members.remove(&participant) else { return };
        for subscription in member.subscriptions.values() {
            subscription.order.cancel.cancel();
            self.unsubscribe(participant, &subscription.key);
        }
        for (_, key) in member.publications {
            self.unpublish(&key, serial);
        }
        self.selection.remove(participant);
        if self.members.is_empty() {
            self.occupied.send_replace(false);
        }
        self.wake_links();
    }

    /// Removes a subscriber from a track.
    pub(crate) fn unsubscribe(&mut self, participant: Id, key: &TrackKey) {
        if let Some(track) = self.tracks.get_mut(key) {
            track.subscribers.retain(|subscriber| subscriber.participant != participant);
            if track.is_unused() {
                self.tracks.remove(key);
            }
        }
    }

    /// Ends the publication of a session. What is on its way is reset: the source is lost.
    pub(crate) fn unpublish(&mut self, key: &TrackKey, session: u64) -> Vec<Arc<Group>> {
        let Some(track) = self.tracks.get_mut(key) else { return Vec::new() };
        if track.publication.as_ref().is_none_or(|publication| publication.session != session) {
            return Vec::new();
        }
        track.publication = None;
        track.remove_peers(|_| true);
        let groups = match track.current() {
            // Another handler has a copy, which goes on.
            Some(_) => Vec::new(),
            None => track.erase(StreamCode::Superseded),
        };
        if track.is_unused() {
            self.tracks.remove(key);
        }
        groups
    }

    /// Ends the subscriptions to all tracks of a participant.
    pub(crate) fn end_tracks(&mut self, participant: Id, reason: &str) {
        let keys: Vec<TrackKey> =
            self.tracks.keys().filter(|key| key.participant == participant).cloned().collect();
        for key in keys {
            self.end_track(&key, reason);
        }
    }

    /// Ends the subscriptions to a track.
    pub(crate) fn end_track(&mut self, key: &TrackKey, reason: &str) {
        let Some(mut track) = self.tracks.remove(key) else { return };
        track.remove_peers(|_| true);
        for subscriber in &track.subscribers {
            subscriber.order.cancel.cancel();
            if let Some(member) = self.members.get_mut(&subscriber.participant) {
                member.subscriptions.remove(&subscriber.alias);
                let ended = Ended { alias: subscriber.alias.into(), reason: reason.to_owned() };
                member.link.tell(Payload::Ended(ended), 0);
            }
        }
        let Some(alias) = track.audio_alias else { return };
        for member in self.members.values_mut() {
            if member.speakers.remove(key).is_some() {
                let ended = Ended { alias: alias.into(), reason: reason.to_owned() };
                member.link.tell(Payload::Ended(ended), 0);
            }
        }
    }
}

/// The message that states a mask.
pub(crate) fn mute_message(mask: MuteMask) -> Mute {
    Mute { audio_muted: mask.audio, video_muted: mask.video, mute_epoch: mask.epoch }
}
