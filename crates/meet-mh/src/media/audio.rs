//! Audio datagrams: from a publisher through the selection into the outboxes of its listeners.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::Alias;
use tenure_meet_wire::media::audio::{self, Datagram};
use tenure_meet_wire::media::message::media_event::Payload;

use super::Load;
use super::meeting::{Meeting, State};
use super::member::Link;
use super::selection::Heard;
use super::track::{Kind, TrackKey, Version};
use crate::{limits, metric};

/// The priority that is always forwarded.
const ALWAYS: u8 = 255;

/// Sends collected datagrams 3 ms after the first of them.
pub(crate) async fn run_flush(meeting: Arc<Meeting>) {
    loop {
        tokio::select! {
            () = meeting.cancel.cancelled() => return,
            () = meeting.flush.notified() => {}
        }
        let clock = &meeting.shared.clock;
        clock.sleep_until(clock.now() + limits::COALESCE).await;
        let mut state = meeting.state.lock();
        state.flush_scheduled = false;
        for member in state.members.values_mut() {
            member.flush(&meeting.shared.load);
        }
    }
}

/// Reads the datagrams of a member until its session ends. Those of an alias that is not published yet wait a little.
pub(crate) async fn read_datagrams(meeting: Arc<Meeting>, who: (Id, u64), link: Arc<Link>) {
    let changed = meeting.state.lock().member(who.0, who.1).map(|member| member.changed.subscribe());
    let Some(mut changed) = changed else { return };
    let mut waiting: VecDeque<(Tick, Bytes)> = VecDeque::new();
    loop {
        tokio::select! {
            datagram = link.session.receive_datagram() => match datagram {
                Ok(datagram) => {
                    let now = meeting.now();
                    if !meeting.take_datagram(who, &datagram) && waiting.len() < limits::UNKNOWN_DATAGRAMS {
                        waiting.push_back((now, Bytes::copy_from_slice(&datagram)));
                    }
                    while waiting.front().is_some_and(|(at, _)| now.since(*at) > limits::UNKNOWN_DATAGRAM) {
                        waiting.pop_front();
                        metric::datagram_dropped("unknown_alias");
                    }
                }
                Err(_) => return,
            },
            changed = changed.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = meeting.now();
                waiting.retain(|(at, datagram)| {
                    now.since(*at) <= limits::UNKNOWN_DATAGRAM && !meeting.take_datagram(who, datagram)
                });
            }
        }
    }
}

impl Meeting {
    /// Forwards a datagram. `false` if its alias is not published yet.
    pub(crate) fn take_datagram(&self, (participant, serial): (Id, u64), datagram: &Bytes) -> bool {
        self.shared.load.received(datagram.len());
        let packet = match audio::decode(datagram) {
            Ok(Datagram::Audio(packet)) => packet,
            Ok(Datagram::KeepAlive | Datagram::Unknown(_)) => return true,
            Err(_) => {
                metric::datagram_dropped("malformed");
                return true;
            }
        };
        let now = self.now();
        let mut state = self.state.lock();
        let Some(member) = state.member(participant, serial) else { return true };
        let Some(key) = member.publications.get(&packet.alias.number()).cloned() else { return false };
        let user = member.user.clone();
        let sent = match state.admit_packet(participant, serial, &key, datagram.len(), now) {
            Ok((alias, version)) => {
                let heard = Heard { level: packet.level, payload: packet.payload.len(), at: now };
                let selected = state.selection.hear(participant, &user, heard);
                if selected {
                    state.relay_audio(&key, datagram, &self.shared.load);
                }
                state.forward(&key, (alias, version), datagram, selected)
            }
            Err(reason) => {
                metric::datagram_dropped(reason);
                return true;
            }
        };
        if sent == 0 {
            metric::datagram_dropped("not_selected");
        }
        metric::frames_forwarded(Kind::Audio.as_str(), sent);
        self.schedule_flush(&mut state);
        true
    }

    pub(crate) fn schedule_flush(&self, state: &mut State) {
        let mut waiting = false;
        for member in state.members.values_mut().filter(|member| !member.outbox.is_empty()) {
            if member.outbox_bytes >= limits::COALESCE_BYTES {
                member.flush(&self.shared.load);
            } else {
                waiting = true;
            }
        }
        if waiting && !std::mem::replace(&mut state.flush_scheduled, true) {
            self.flush.notify_one();
        }
    }
}

impl State {
    /// Checks whether a packet may be forwarded. Returns the alias and the version of its track.
    fn admit_packet(
        &mut self,
        participant: Id,
        serial: u64,
        key: &TrackKey,
        len: usize,
        now: Tick,
    ) -> Result<(Alias, Version), &'static str> {
        let allowed = self.may_send(participant, Kind::Audio, now);
        let track = self.tracks.get_mut(key).ok_or("unknown_alias")?;
        let alias = track.audio_alias.and_then(|alias| Alias::new(alias.into()));
        let publication = track.publication.as_mut().filter(|it| it.session == serial).ok_or("superseded")?;
        let alias = alias.filter(|_| publication.stream.kind == Kind::Audio).ok_or("not_audio")?;
        if !allowed {
            return Err("muted");
        }
        if !publication.datagrams.take(1, now) || !publication.bits.take(len as u64 * 8, now) {
            return Err("ingest_limit");
        }
        publication.moved.mark(now);
        Ok((alias, publication.stream.version))
    }

    /// Sends a packet of a selected speaker to the handlers that need it.
    fn relay_audio(&self, key: &TrackKey, datagram: &Bytes, load: &Load) {
        let Some(track) = self.tracks.get(key) else { return };
        for peer in &track.peers {
            let Some(alias) = Alias::new(peer.alias.into()) else { continue };
            let Ok(bytes) = audio::with_alias(datagram, alias) else { continue };
            load.sent(bytes.len());
            // A link that is over has no use for it.
            let _over = peer.session.send_datagram(bytes);
        }
    }

    /// Puts a packet into the outboxes of those who listen. Returns their number.
    pub(crate) fn forward(
        &mut self,
        key: &TrackKey,
        (alias, version): (Alias, Version),
        datagram: &Bytes,
        selected: bool,
    ) -> u64 {
        // One copy for all subscribers to all audio, in an allocation of its own.
        let Ok(shared) = audio::with_alias(datagram, alias) else { return 0 };
        let Self { members, tracks, .. } = self;
        let Some(track) = tracks.get(key) else { return 0 };
        let mut sent = 0;
        for (listener, member) in members.iter_mut() {
            if *listener == key.participant || member.standby || !member.receives {
                continue;
            }
            let own = track.subscribers.iter().find(|subscriber| subscriber.participant == *listener);
            if let Some(own) = own.map(|own| own.alias) {
                let always = member.subscriptions.get(&own).is_some_and(|it| it.priority == ALWAYS);
                let Some(own) = Alias::new(own.into()).filter(|_| selected || always) else { continue };
                let Ok(bytes) = audio::with_alias(datagram, own) else { continue };
                member.put(key.participant, bytes);
            } else if member.all_audio.is_some() && selected {
                if member.speakers.get(key) != Some(&version) {
                    member.speakers.insert(key.clone(), version);
                    let described = track.describe(alias.number(), Kind::Audio);
                    member.link.tell(Payload::Subscribed(described), 0);
                }
                member.put(key.participant, shared.clone());
            } else {
                continue;
            }
            sent += 1;
        }
        sent
    }
}
