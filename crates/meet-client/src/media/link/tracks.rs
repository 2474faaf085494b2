//! Publications and subscriptions, which every session knows.

use std::sync::Arc;

use tenure_meet_wire::media::Alias;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{
    Change, ClientReport, ClientTrackReport, Ended, KeyframeNeeded, MediaRequest, Publish, RenditionsNeeded,
    RequestKeyframe, Subscribed, Unpublish, Unsubscribe,
};
use tenure_meet_wire::signaling::{ErrorMessage, StreamType};

use super::super::publication::Route;
use super::super::session::Track;
use super::super::subscription::SubscriptionState;
use super::super::{TrackDescription, TrackName, limits};
use super::{Link, Pending, Sink, Subscription, TrackId};

/// The track of a subscription; empty for all audio.
fn name_of(state: &SubscriptionState) -> TrackName {
    let wanted = state.wanted.lock();
    TrackName { participant_id: wanted.0.participant_id.clone(), stream_id: wanted.0.stream_id.clone() }
}

impl Link {
    /// Publishes at a session.
    pub(super) fn announce(&mut self, at: usize, id: TrackId) {
        let session = &mut self.sessions[at];
        let Some(publication) = self.publications.get(&id) else { return };
        if !session.is_open() || session.next_alias == u16::MAX {
            return;
        }
        session.next_alias += 1;
        let alias = session.next_alias;
        let publish = Publish { alias: alias.into(), ..publication.state.publish.clone() };
        session.request(Request::Publish(publish), Pending::Published(id, alias));
    }

    pub(super) fn published(&mut self, at: usize, pending: Option<Pending>) {
        let session = &mut self.sessions[at];
        let (Some(Pending::Published(id, number)), Some(transport)) = (pending, &session.transport) else {
            return;
        };
        let (Some(publication), Some(alias)) = (self.publications.get(&id), Alias::new(number.into())) else {
            return;
        };
        session.published.insert(id, number);
        let route = Route { session: session.id, transport: transport.clone(), alias };
        publication.state.add_route(route);
        publication.state.set_active(self.active);
    }

    pub(super) fn subscribe(&mut self, id: TrackId, state: Arc<SubscriptionState>, sink: Sink) {
        let name = name_of(&state);
        match &sink {
            Sink::Video(inbox) => self.inboxes.set_video(&name, Some(inbox.clone())),
            Sink::Audio(inbox) if name.participant_id.is_empty() => {
                self.inboxes.set_all_audio(Some(inbox.clone()));
            }
            Sink::Audio(inbox) => self.inboxes.set_audio(&name, Some(inbox.clone())),
        }
        self.subscriptions.insert(id, Subscription { state, sink });
        for at in 0..self.sessions.len() {
            self.ask(at, id);
        }
    }

    /// Subscribes at a session, unless that was done.
    pub(super) fn ask(&mut self, at: usize, id: TrackId) {
        let session = &mut self.sessions[at];
        let Some(subscription) = self.subscriptions.get(&id) else { return };
        if !session.is_open() || session.subscribed.contains_key(&id) {
            return;
        }
        let (subscribe, changes) = subscription.state.wanted.lock().clone();
        session.subscribed.insert(id, changes);
        session.request(Request::Subscribe(subscribe), Pending::Subscribed(id));
    }

    /// A handler announced a track: as the answer to a subscription, because its publisher began again, or because a
    /// participant speaks.
    pub(super) fn subscribed(&mut self, at: usize, subscribed: &Subscribed) {
        let session = &self.sessions[at];
        let Ok(alias) = u16::try_from(subscribed.alias) else { return };
        let name = TrackName::of(subscribed);
        let (kind, incarnation) = (subscribed.r#type(), subscribed.incarnation);
        session.port.announce(alias, Track { name: name.clone(), kind, incarnation });
        let found = self.subscriptions.values().find(|it| name_of(&it.state) == name);
        match found {
            Some(subscription) => {
                let description = TrackDescription {
                    codec: subscribed.codec.clone(),
                    renditions: subscribed.renditions.clone(),
                    incarnation,
                };
                subscription.state.track.send_modify(|track| {
                    (track.ended, track.refused) = (None, None);
                    track.description = Some(description);
                });
            }
            // The owner gave it up meanwhile.
            None if kind != StreamType::Audio => self.unsubscribe(at, &name),
            None => {}
        }
    }

    pub(super) fn ended(&mut self, at: usize, ended: &Ended) {
        let Ok(alias) = u16::try_from(ended.alias) else { return };
        let Some(track) = self.sessions[at].port.remove(alias) else { return };
        if track.kind == StreamType::Audio
            && let Some(inbox) = self.inboxes.audio(&track.name)
            && self.active == Some(self.sessions[at].id)
        {
            inbox.forget(&track.name);
        }
        let found = self.subscriptions.iter().find(|(_, it)| name_of(&it.state) == track.name);
        let Some((id, subscription)) = found else { return };
        subscription.state.track.send_modify(|track| track.ended = Some(ended.reason.clone()));
        // It may come back.
        self.ask_again(at, *id);
    }

    fn ask_again(&mut self, at: usize, id: TrackId) {
        let session = &mut self.sessions[at];
        session.subscribed.remove(&id);
        self.again.push((self.clock.now() + limits::SUBSCRIBE_AGAIN, session.id, id));
    }

    pub(super) fn refused(&mut self, at: usize, pending: Option<Pending>, error: &ErrorMessage) {
        if let Some(Pending::Subscribed(id)) = pending {
            if let Some(subscription) = self.subscriptions.get(&id) {
                subscription.state.track.send_modify(|track| track.refused = Some(error.into()));
            }
            self.ask_again(at, id);
        }
        self.state.send_modify(|state| state.refused = Some(error.into()));
    }

    fn publication_of(&self, at: usize, alias: u32) -> Option<TrackId> {
        let published = &self.sessions[at].published;
        published.iter().find(|(_, number)| u32::from(**number) == alias).map(|(id, _)| *id).or_else(|| {
            // The handler may ask before it answered.
            self.sessions[at].pending.values().find_map(|pending| match pending {
                Pending::Published(id, number) if u32::from(*number) == alias => Some(*id),
                _ => None,
            })
        })
    }

    pub(super) fn keyframe_needed(&mut self, at: usize, needed: &KeyframeNeeded) {
        let Some(id) = self.publication_of(at, needed.alias) else { return };
        let Some(publication) = self.publications.get(&id) else { return };
        publication.state.demand.send_modify(|demand| {
            if let Some(count) = demand.keyframes.get_mut(needed.rendition as usize) {
                *count += 1;
            }
        });
    }

    pub(super) fn renditions_needed(&mut self, at: usize, needed: &RenditionsNeeded) {
        let Some(id) = self.publication_of(at, needed.alias) else { return };
        let renditions = needed.renditions.iter().filter_map(|index| u8::try_from(*index).ok()).collect();
        let temporal = u8::try_from(needed.temporal).unwrap_or(u8::MAX);
        self.sessions[at].needed.insert(id, (renditions, temporal));
        self.update_demand(id);
    }

    /// What the subscribers of all handlers need together.
    pub(super) fn update_demand(&self, id: TrackId) {
        let Some(publication) = self.publications.get(&id) else { return };
        let needed = || self.sessions.iter().filter_map(|session| session.needed.get(&id));
        let renditions = needed().flat_map(|(renditions, _)| renditions.iter().copied()).collect();
        let temporal = needed().map(|(_, temporal)| *temporal).max().unwrap_or_default();
        publication.state.demand.send_if_modified(|demand| {
            let changed = demand.renditions != renditions || demand.temporal != temporal;
            (demand.renditions, demand.temporal) = (renditions, temporal);
            changed
        });
    }

    /// Ends what its owner dropped, and sends what its owner changed.
    pub(super) fn sweep(&mut self) {
        let gone = self.publications.iter().filter(|(_, it)| it.state.is_gone());
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.publications.remove(&id);
            for session in &mut self.sessions {
                session.needed.remove(&id);
                if let Some(alias) = session.published.remove(&id) {
                    let unpublish = Unpublish { alias: alias.into() };
                    session.request(Request::Unpublish(unpublish), Pending::Nothing);
                }
            }
        }
        let gone = self.subscriptions.iter().filter(|(_, it)| it.state.is_gone());
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end_subscription(id);
        }
        self.send_changes();
    }

    fn end_subscription(&mut self, id: TrackId) {
        let Some(subscription) = self.subscriptions.remove(&id) else { return };
        let name = name_of(&subscription.state);
        // Another subscription may have taken its place.
        if self.subscriptions.values().any(|it| name_of(&it.state) == name) {
            return;
        }
        match subscription.sink {
            Sink::Video(_) => self.inboxes.set_video(&name, None),
            Sink::Audio(_) if name.participant_id.is_empty() => self.inboxes.set_all_audio(None),
            Sink::Audio(_) => self.inboxes.set_audio(&name, None),
        }
        for at in 0..self.sessions.len() {
            self.sessions[at].subscribed.remove(&id);
            self.unsubscribe(at, &name);
        }
    }

    fn unsubscribe(&mut self, at: usize, name: &TrackName) {
        let session = &mut self.sessions[at];
        let Some(alias) = session.port.alias_of(name) else { return };
        session.port.remove(alias);
        session.request(Request::Unsubscribe(Unsubscribe { alias: alias.into() }), Pending::Nothing);
    }

    fn send_changes(&mut self) {
        for (id, subscription) in &self.subscriptions {
            let (wanted, changes) = subscription.state.wanted.lock().clone();
            let keyframes = std::mem::take(&mut *subscription.state.keyframes.lock());
            let name = name_of(&subscription.state);
            for session in &mut self.sessions {
                let Some(alias) = session.port.alias_of(&name).map(u32::from) else { continue };
                if let Some(sent) = session.subscribed.get_mut(id)
                    && std::mem::replace(sent, changes) != changes
                {
                    let (max_rendition, max_temporal) = (wanted.max_rendition, wanted.max_temporal);
                    let change = Change { alias, max_rendition, max_temporal, priority: wanted.priority };
                    session.request(Request::Change(change), Pending::Nothing);
                }
                if self.active != Some(session.id) {
                    continue;
                }
                for rendition in &keyframes {
                    let request = RequestKeyframe { alias, rendition: u32::from(*rendition) };
                    session.request(Request::RequestKeyframe(request), Pending::Nothing);
                }
            }
        }
    }

    /// The active handler learns what was decoded.
    pub(super) fn report_tracks(&mut self) {
        let Some(session) = self.sessions.iter_mut().find(|it| Some(it.id) == self.active) else { return };
        let tracks = self.subscriptions.values().filter_map(|subscription| {
            let Sink::Video(inbox) = &subscription.sink else { return None };
            let alias = session.port.alias_of(&name_of(&subscription.state))?;
            let (group, timestamp_us) = *inbox.taken.lock();
            let dropped = inbox.stats().dropped;
            Some(ClientTrackReport {
                alias: alias.into(),
                group,
                timestamp_us,
                dropped,
                ..ClientTrackReport::default()
            })
        });
        let report = ClientReport { tracks: tracks.collect() };
        if !report.tracks.is_empty() {
            session.seq += 1;
            let request = MediaRequest { payload: Some(Request::Report(report)), seq: session.seq };
            // A report that does not fit is not missed: another one follows in a second.
            let _full = session.requests.try_send(request);
        }
    }
}
