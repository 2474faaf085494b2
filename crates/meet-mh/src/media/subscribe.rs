//! Subscriptions: what a participant wants, and which group it gets next.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{Change, Subscribe, Subscribed};
use tenure_meet_wire::signaling::ErrorCode;

use super::group::Reading;
use super::layers::Share;
use super::meeting::State;
use super::member::{AllAudio, Order, Subscription};
use super::publish::Refused;
use super::track::{Kind, Subscriber, TrackKey};
use crate::limits;

/// A pump to be started.
pub(crate) struct PumpStart {
    pub(crate) alias: u16,
    pub(crate) order: Arc<Order>,
    /// The label of its metrics.
    pub(crate) kind: &'static str,
}

/// What a pump does next.
pub(crate) enum Next {
    /// Sends this group up to a temporal layer.
    Group {
        group: Reading,
        temporal: u8,
        priority: u8,
        latency: Duration,
    },
    Nothing,
    /// The subscription is over.
    Gone,
}

/// Whether a pump goes on with its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Yes, up to a temporal layer. `newer` says that a newer group is there.
    Continue {
        temporal: u8,
        newer: bool,
    },
    Stop(StreamCode),
}

const ALWAYS: u32 = 255;

fn small(value: Option<u32>) -> Option<u8> {
    value.map(|value| u8::try_from(value).unwrap_or(u8::MAX))
}

impl State {
    /// Subscribes to a track, or to all audio. The answer comes at once; a track that is not published yet is described
    /// again when it is.
    pub(crate) fn subscribe(
        &mut self,
        (participant, serial): (Id, u64),
        subscribe: &Subscribe,
        full: bool,
        now: Tick,
    ) -> Result<(Payload, Option<PumpStart>), Refused> {
        let invalid = |message| Err((ErrorCode::InvalidRequest, message));
        let Some(kind) = Kind::from_wire(subscribe.r#type()) else { return invalid("the type is missing") };
        let Ok(priority) = u8::try_from(subscribe.priority) else {
            return invalid("the priority is above 255");
        };
        if !self.may_subscribe(participant) {
            return Err((ErrorCode::Forbidden, "the participant may not receive"));
        }
        if full {
            return Err((ErrorCode::CapacityExceeded, "the handler is full"));
        }
        if subscribe.participant_id.is_empty() {
            return self.subscribe_to_all_audio((participant, serial), kind, subscribe);
        }
        let Some(publisher) = Id::parse(&subscribe.participant_id) else {
            return invalid("the participant id is malformed");
        };
        if subscribe.stream_id.is_empty() || subscribe.stream_id.len() > limits::STREAM_ID {
            return invalid("the stream id is empty or too long");
        }
        let key = TrackKey { participant: publisher, stream_id: subscribe.stream_id.as_str().into() };
        self.check_subscriber((participant, serial), &key, kind, subscribe.priority)?;
        let Some(alias) = self.member(participant, serial).and_then(|member| member.take_alias()) else {
            return Err((ErrorCode::CapacityExceeded, "the session has no more aliases"));
        };
        let order = Arc::new(Order::default());
        let latency = match subscribe.max_latency_ms {
            0 => limits::LATENCY,
            millis => Duration::from_millis(millis.into()).min(limits::LATENCY_MAX),
        };
        let mut subscription = Subscription {
            key: key.clone(),
            kind,
            priority,
            max_rendition: small(subscribe.max_rendition),
            max_temporal: small(subscribe.max_temporal),
            latency,
            share: Share::Paused,
            requests: Default::default(),
            order: order.clone(),
            announced: None,
            current: None,
            behind: false,
        };
        let track = self.track(&key);
        track.subscribers.push(Subscriber { participant, alias, order: order.clone() });
        subscription.announced = track.current().map(|stream| stream.version);
        subscription.share = subscription.demand(track).whole();
        let described = track.describe(alias, kind);
        let share = subscription.share;
        if let Some(member) = self.member(participant, serial) {
            member.subscriptions.insert(alias, subscription);
        }
        self.want_first_keyframe(&key, share, now);
        self.update_needed(&key, now);
        self.wake_links();
        let pump = (kind != Kind::Audio).then_some(PumpStart { alias, order, kind: kind.as_str() });
        Ok((Payload::Subscribed(described), pump))
    }

    fn may_subscribe(&self, participant: Id) -> bool {
        let member = self.members.get(&participant).is_some_and(|member| member.rights.receive);
        member && self.control.rights(participant).is_none_or(|rights| rights.receive)
    }

    fn check_subscriber(
        &mut self,
        (participant, serial): (Id, u64),
        key: &TrackKey,
        kind: Kind,
        priority: u32,
    ) -> Result<(), Refused> {
        let published = self.tracks.get(key).and_then(|track| track.current()).map(|stream| stream.kind);
        if published.is_some_and(|published| published != kind) {
            return Err((ErrorCode::InvalidRequest, "the stream has another type"));
        }
        let is_waiting = |key: &TrackKey| self.tracks.get(key).is_none_or(|it| it.current().is_none());
        let Some(member) = self.members.get(&participant).filter(|member| member.serial == serial) else {
            return Err((ErrorCode::NotFound, "the session is over"));
        };
        if member.subscription_to(key).is_some() {
            return Err((ErrorCode::Conflict, "the stream is subscribed"));
        }
        let subscriptions = || member.subscriptions.values();
        let waiting = subscriptions().filter(|it| is_waiting(&it.key)).count();
        let full = published.is_none() && waiting >= limits::WAITING_SUBSCRIPTIONS;
        if member.subscriptions.len() >= limits::SUBSCRIPTIONS || full {
            return Err((ErrorCode::CapacityExceeded, "there are too many subscriptions"));
        }
        let always = subscriptions().filter(|it| it.kind == Kind::Audio && u32::from(it.priority) == ALWAYS);
        if kind == Kind::Audio && priority == ALWAYS && always.count() >= limits::ALWAYS_FORWARDED {
            return Err((ErrorCode::CapacityExceeded, "too many subscriptions have priority 255"));
        }
        Ok(())
    }

    fn subscribe_to_all_audio(
        &mut self,
        (participant, serial): (Id, u64),
        kind: Kind,
        subscribe: &Subscribe,
    ) -> Result<(Payload, Option<PumpStart>), Refused> {
        if kind != Kind::Audio || subscribe.priority == ALWAYS {
            let message = "all participants are subscribed only to audio and below priority 255";
            return Err((ErrorCode::InvalidRequest, message));
        }
        let Some(member) = self.member(participant, serial) else {
            return Err((ErrorCode::NotFound, "the session is over"));
        };
        if member.all_audio.is_some() {
            return Err((ErrorCode::Conflict, "all audio is subscribed"));
        }
        let Some(alias) = member.take_alias() else {
            return Err((ErrorCode::CapacityExceeded, "the session has no more aliases"));
        };
        member.all_audio = Some(AllAudio { alias });
        self.wake_links();
        let mut described = Subscribed { alias: alias.into(), ..Subscribed::default() };
        described.set_type(kind.to_wire());
        Ok((Payload::Subscribed(described), None))
    }

    /// Requests a key frame for a subscriber that has no picture to begin with.
    pub(crate) fn want_first_keyframe(&mut self, key: &TrackKey, share: Share, now: Tick) {
        let Some(track) = self.tracks.get_mut(key) else { return };
        let Share::Flows { rendition, .. } = share else { return };
        let whole = track.candidates().get(usize::from(rendition)).copied().flatten().is_some();
        if let (false, Some(rendition)) = (whole, track.renditions.get_mut(usize::from(rendition))) {
            rendition.requests.want(true, now);
        }
        track.request_keyframes(now);
    }

    /// Changes a subscription.
    pub(crate) fn change(
        &mut self,
        (participant, serial): (Id, u64),
        change: &Change,
        now: Tick,
    ) -> Result<(), Refused> {
        let Ok(priority) = u8::try_from(change.priority) else {
            return Err((ErrorCode::InvalidRequest, "the priority is above 255"));
        };
        let unknown = (ErrorCode::NotFound, "the alias is not subscribed");
        let alias = u16::try_from(change.alias).map_err(|_| unknown)?;
        let member = self.members.get(&participant).filter(|it| it.serial == serial).ok_or(unknown)?;
        let subscription = member.subscriptions.get(&alias).ok_or(unknown)?;
        let always = member
            .subscriptions
            .iter()
            .filter(|(at, it)| **at != alias && it.kind == Kind::Audio && u32::from(it.priority) == ALWAYS);
        let rises = subscription.kind == Kind::Audio && change.priority == ALWAYS;
        if rises && always.count() >= limits::ALWAYS_FORWARDED {
            return Err((ErrorCode::CapacityExceeded, "too many subscriptions have priority 255"));
        }
        let key = subscription.key.clone();
        let demand_of = |subscription: &Subscription| {
            self.tracks.get(&key).map(|track| subscription.demand(track).whole())
        };
        let before = demand_of(subscription);
        let Some(member) = self.members.get_mut(&participant) else { return Err(unknown) };
        let Some(subscription) = member.subscriptions.get_mut(&alias) else { return Err(unknown) };
        subscription.priority = priority;
        subscription.max_rendition = small(change.max_rendition);
        subscription.max_temporal = small(change.max_temporal);
        if let Some(track) = self.tracks.get(&key) {
            let whole = subscription.demand(track).whole();
            // What the path cannot carry stays away: only a share that was whole rises at once.
            let was_whole = before == Some(subscription.share);
            subscription.share = if was_whole { whole } else { subscription.share.min(whole) };
            subscription.order.wake();
        }
        let share = subscription.share;
        self.want_first_keyframe(&key, share, now);
        self.update_needed(&key, now);
        Ok(())
    }

    /// Ends a subscription.
    pub(crate) fn end_subscription(
        &mut self,
        (participant, serial): (Id, u64),
        alias: u32,
    ) -> Result<(), Refused> {
        let unknown = (ErrorCode::NotFound, "the alias is not subscribed");
        let member = self.member(participant, serial).ok_or(unknown)?;
        if member.all_audio.is_some_and(|all| u32::from(all.alias) == alias) {
            member.all_audio = None;
            member.speakers.clear();
            member.outbox.clear();
            return Ok(());
        }
        let alias = u16::try_from(alias).map_err(|_| unknown)?;
        let subscription = member.subscriptions.remove(&alias).ok_or(unknown)?;
        subscription.order.cancel.cancel();
        // The publisher learns with the next tick that less is needed, so that no subscriber makes it flicker.
        self.unsubscribe(participant, &subscription.key);
        Ok(())
    }

    /// A subscriber asks for a key frame.
    pub(crate) fn request_keyframe(
        &mut self,
        (participant, serial): (Id, u64),
        alias: u32,
        rendition: u32,
        now: Tick,
    ) -> Result<(), Refused> {
        let unknown = (ErrorCode::NotFound, "the alias is not subscribed");
        let member = self.member(participant, serial).ok_or(unknown)?;
        let alias = u16::try_from(alias).map_err(|_| unknown)?;
        let subscription = member.subscriptions.get_mut(&alias).ok_or(unknown)?;
        let key = subscription.key.clone();
        if !subscription.requests.accept(now) {
            return Ok(());
        }
        let Some(track) = self.tracks.get_mut(&key) else { return Ok(()) };
        let Some(rendition) = track.renditions.get_mut(rendition as usize) else {
            return Err((ErrorCode::InvalidRequest, "there is no such rendition"));
        };
        rendition.requests.want(false, now);
        track.request_keyframes(now);
        Ok(())
    }
}
