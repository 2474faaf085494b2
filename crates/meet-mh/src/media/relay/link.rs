//! The tasks of one link.

use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::Tick;
use tenure_meet_wire::CloseCode;
use tenure_meet_wire::media::audio::{self, Datagram};
use tenure_meet_wire::media::group::GroupHeader;
use tenure_meet_wire::media::relay::RelayMessage;
use tenure_meet_wire::media::relay::relay_message::Payload;
use tenure_meet_wire::media::{Alias, StreamCode};
use tenure_meet_wire::transport::{MessageReader, MessageWriter, ReceiveLimits, Session};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::incoming::{Arriving, Begin, GroupSource};
use super::super::ingest::accept_groups;
use super::super::meeting::{Meeting, State};
use super::super::pump::Pump;
use super::super::selection::Heard;
use super::super::source::Source;
use super::super::track::{Kind, TrackKey};
use super::RelayLink;
use super::feed::RelayFeed;
use super::need::RelayPump;
use crate::{limits, metric};

/// A connection with another handler that both sides accepted.
pub(super) struct Connected {
    pub(super) handler: String,
    pub(super) session: Arc<dyn Session>,
    pub(super) reader: MessageReader,
    pub(super) writer: MessageWriter,
    /// Ends the link.
    pub(super) cancel: CancellationToken,
}

/// Serves a link until it ends.
pub(super) async fn run(meeting: Arc<Meeting>, mut connected: Connected) {
    let session = connected.session.clone();
    session.set_receive_limits(ReceiveLimits::RELAY);
    session.set_send_window(limits::RELAY_WINDOW);
    let cancel = connected.cancel.clone();
    let link = RelayLink::new(connected.handler.clone(), session.clone(), cancel.clone());
    let serial = meeting.add_link(link);
    let source = Arc::new(Peer { meeting: meeting.clone(), link: serial, session: session.clone() });
    let mut tasks = JoinSet::new();
    tasks.spawn(write(meeting.clone(), serial, connected.writer));
    tasks.spawn(accept_groups(meeting.clone(), source, session.clone(), limits::RELAY_GROUPS));
    tasks.spawn(read_datagrams(meeting.clone(), serial, session.clone()));
    let mut pumps = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            () = meeting.cancel.cancelled() => break,
            _ = session.closed() => break,
            message = connected.reader.next::<RelayMessage>() => {
                let Ok(Some(RelayMessage { payload })) = message else { break };
                match meeting.take_message(serial, payload) {
                    Ok(started) => started.into_iter().for_each(|pump| start(&mut pumps, &meeting, serial, pump)),
                    Err(reason) => {
                        tracing::warn!(target: metric::TARGET, meeting = %meeting.id, peer = connected.handler, reason, "relay closed");
                        session.close_for(CloseCode::Protocol);
                        break;
                    }
                }
            },
            Some(_) = pumps.join_next() => {}
        }
    }
    meeting.state.lock().remove_link(serial);
    session.close_for(CloseCode::Done);
}

fn start(pumps: &mut JoinSet<()>, meeting: &Arc<Meeting>, link: u64, pump: RelayPump) {
    let RelayPump { key, peer, kind } = pump;
    let Some(alias) = Alias::new(peer.alias.into()) else { return };
    let feed = RelayFeed { meeting: meeting.clone(), link, key, rendition: peer.rendition };
    let (meeting, feed) = (meeting.clone(), Box::new(feed));
    pumps.spawn(Pump { meeting, feed, session: peer.session, alias, order: peer.order, kind }.run());
}

/// Writes what changed, whenever something may have changed.
async fn write(meeting: Arc<Meeting>, link: u64, mut writer: MessageWriter) {
    let Some(wake) = meeting.state.lock().links.get(&link).map(|link| link.wake.clone()) else { return };
    loop {
        for payload in meeting.changes(link) {
            if writer.send(&RelayMessage { payload: Some(payload) }).await.is_err() {
                return;
            }
        }
        wake.notified().await;
    }
}

async fn read_datagrams(meeting: Arc<Meeting>, link: u64, session: Arc<dyn Session>) {
    while let Ok(datagram) = session.receive_datagram().await {
        if let Err(reason) = meeting.take_relayed(link, &datagram) {
            metric::datagram_dropped(reason);
        }
    }
}

/// Another handler as the sender of groups.
struct Peer {
    meeting: Arc<Meeting>,
    link: u64,
    session: Arc<dyn Session>,
}

impl GroupSource for Peer {
    fn begin(&self, header: &GroupHeader, raw: Bytes, started: Tick) -> Begin {
        let mut state = self.meeting.state.lock();
        let Some(link) = state.links.get(&self.link) else { return Begin::Stop(StreamCode::Superseded) };
        let cache = link.cache.clone();
        let Some(key) = link.streams.get(&header.alias.number()).cloned() else { return Begin::Wait };
        let Some((source, kind)) = state.relayed_source(self.link, header.alias, &key, started) else {
            return Begin::Stop(StreamCode::Superseded);
        };
        if !state.may_relay(key.participant, kind, started) {
            metric::frame_dropped("muted");
            return Begin::Stop(StreamCode::Muted);
        }
        state.keep(&self.meeting, Arriving { key: &key, header, raw, started, cache, source })
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.meeting.state.lock().links.get(&self.link).map(|link| link.offers.subscribe())
    }

    fn take(&self, _bytes: usize, _now: Tick) -> bool {
        // The other handler has limited its publishers.
        true
    }

    fn violation(&self) {
        self.session.close_for(CloseCode::Protocol);
    }
}

impl State {
    /// The copy behind an alias of a link, if it is the one that is forwarded now.
    fn relayed_source(&self, link: u64, alias: Alias, key: &TrackKey, now: Tick) -> Option<(Source, Kind)> {
        let track = self.tracks.get(key)?;
        let source = track.source(now)?;
        let Source::Relayed(at) = source else { return None };
        let copy = track.relayed.get(at)?;
        (copy.link == link && copy.alias == alias.number()).then_some((source, copy.stream.kind))
    }
}

impl Meeting {
    /// Adds a link. An older one with the same handler ends.
    fn add_link(&self, link: RelayLink) -> u64 {
        let serial = self.shared.next_serial();
        let mut state = self.state.lock();
        let same = |other: &RelayLink| other.handler == link.handler;
        let older: Vec<u64> =
            state.links.iter().filter(|(_, other)| same(other)).map(|(serial, _)| *serial).collect();
        older.into_iter().for_each(|serial| state.remove_link(serial));
        state.links.insert(serial, link);
        serial
    }

    /// What a link must send.
    fn changes(&self, link: u64) -> Vec<Payload> {
        let now = self.now();
        let mut state = self.state.lock();
        let mut changes = state.offer_changes(link);
        changes.extend(state.need_changes(link, now));
        changes
    }

    fn take_message(&self, link: u64, payload: Option<Payload>) -> Result<Vec<RelayPump>, &'static str> {
        let now = self.now();
        let mut state = self.state.lock();
        match payload {
            Some(Payload::Offer(offer)) => state.take_offer(link, offer, now)?,
            Some(Payload::Withdraw(withdraw)) => state.take_withdrawal(link, &withdraw),
            Some(Payload::Need(need)) => return Ok(state.take_need(link, &need, now)),
            Some(Payload::Keyframe(request)) => state.take_keyframe(link, &request, now),
            Some(Payload::Hello(_) | Payload::Welcome(_)) => return Err("a second hello"),
            // A later version may send more.
            None => {}
        }
        Ok(Vec::new())
    }

    /// Forwards an audio packet of another handler.
    fn take_relayed(&self, link: u64, datagram: &Bytes) -> Result<(), &'static str> {
        self.shared.load.received(datagram.len());
        let Datagram::Audio(packet) = audio::decode(datagram).map_err(|_| "malformed")? else {
            return Ok(());
        };
        let now = self.now();
        let mut state = self.state.lock();
        let streams = state.links.get(&link).map(|link| &link.streams);
        let key = streams.and_then(|streams| streams.get(&packet.alias.number())).cloned();
        let key = key.ok_or("unknown_alias")?;
        let (source, kind) = state.relayed_source(link, packet.alias, &key, now).ok_or("superseded")?;
        if !state.may_relay(key.participant, Kind::Audio, now) {
            return Err("muted");
        }
        let track = state.tracks.get(&key).ok_or("unknown_alias")?;
        let alias = track.audio_alias.and_then(|alias| Alias::new(alias.into()));
        let alias = alias.filter(|_| kind == Kind::Audio).ok_or("not_audio")?;
        let Source::Relayed(at) = source else { return Err("superseded") };
        let copy = track.relayed.get(at).ok_or("superseded")?;
        copy.moved.mark(now);
        let (user, version) = (copy.user.clone(), copy.stream.version);
        let heard = Heard { level: packet.level, payload: packet.payload.len(), at: now };
        let selected = state.selection.hear(key.participant, &user, heard);
        let sent = state.forward(&key, (alias, version), datagram, selected);
        metric::frames_forwarded(Kind::Audio.as_str(), sent);
        self.schedule_flush(&mut state);
        Ok(())
    }

    /// Ends the links with handlers that the owner of the meeting does not name.
    pub(crate) fn drop_unnamed(&self) {
        let state = self.state.lock();
        let named = |link: &RelayLink| state.control.peer(&link.handler).is_some();
        state.links.values().filter(|link| !named(link)).for_each(|link| link.cancel.cancel());
    }
}
