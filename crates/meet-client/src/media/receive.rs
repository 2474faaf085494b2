//! Readers of a session: groups of video and datagrams of audio.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::{Clock, Tick};
use tenure_meet_wire::media::audio::{self, AudioPacket, Datagram};
use tenure_meet_wire::media::group::{Frame, GroupDecoder, GroupHeader};
use tenure_meet_wire::media::{MediaError, StreamCode};
use tenure_meet_wire::transport::{RecvStream, Session, TransportError};
use tokio::task::JoinSet;

use super::inbox::{Inboxes, VideoInbox};
use super::limits;
use super::order::GroupKey;
use super::session::{Port, Track};

/// Bytes per read.
const READ: usize = 64 * 1024;

/// Accepts the groups of a session until it ends.
pub(super) async fn read_groups(
    session: Arc<dyn Session>,
    port: Arc<Port>,
    inboxes: Arc<Inboxes>,
    clock: Arc<dyn Clock>,
) {
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            stream = session.accept_uni(), if readers.len() < limits::GROUPS => match stream {
                Ok(stream) => {
                    let (port, inboxes, clock) = (port.clone(), inboxes.clone(), clock.clone());
                    let decoder = GroupDecoder::default();
                    let reader = GroupReader { stream, port, inboxes, clock, decoder, first: None };
                    readers.spawn(reader.run());
                }
                Err(_) => return,
            },
            Some(_) = readers.join_next() => {}
        }
    }
}

/// Why a group is read no further.
enum GroupEnd {
    Finished,
    Reset(Option<u32>),
    /// It is not wanted.
    Stop(StreamCode),
    /// Its bytes are not those of a group.
    Malformed,
}

impl From<TransportError> for GroupEnd {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Reset(code) => Self::Reset(code),
            _ => Self::Reset(None),
        }
    }
}

impl From<MediaError> for GroupEnd {
    fn from(_: MediaError) -> Self {
        Self::Malformed
    }
}

struct GroupReader {
    stream: Box<dyn RecvStream>,
    port: Arc<Port>,
    inboxes: Arc<Inboxes>,
    clock: Arc<dyn Clock>,
    decoder: GroupDecoder,
    /// The first frame, if it came with the header.
    first: Option<Frame>,
}

impl GroupReader {
    async fn run(mut self) {
        let (ended, inbox) = self.read().await;
        match ended {
            GroupEnd::Finished => {}
            GroupEnd::Reset(code) => {
                if let Some(inbox) = inbox {
                    inbox.count_reset(code);
                }
            }
            GroupEnd::Stop(code) => self.stream.stop(code.number()),
            GroupEnd::Malformed => self.stream.stop(StreamCode::TooLarge.number()),
        }
    }

    async fn read(&mut self) -> (GroupEnd, Option<Arc<VideoInbox>>) {
        let (header, track, inbox) = match self.begin().await {
            Ok(begun) => begun,
            Err(ended) => return (ended, None),
        };
        let key = GroupKey {
            session: self.port.id,
            incarnation: track.incarnation,
            rendition: header.rendition,
            group: header.group,
            began_us: header.timestamp_us,
        };
        inbox.count_group();
        let ended = self.read_frames(&header, key, &inbox).await;
        (ended, Some(inbox))
    }

    /// Reads the header and finds the subscription, which the handler may announce a little later.
    async fn begin(&mut self) -> Result<(GroupHeader, Arc<Track>, Arc<VideoInbox>), GroupEnd> {
        let header = loop {
            self.first = self.decoder.next_frame()?;
            if let Some(header) = self.decoder.header() {
                break *header;
            }
            self.fill().await?;
        };
        let alias = header.alias.number();
        let mut late = self.clock.sleep_until(self.clock.now() + limits::UNNAMED_STREAM);
        let mut announced = self.port.announcements();
        let track = loop {
            announced.mark_unchanged();
            if let Some(track) = self.port.track(alias) {
                break track;
            }
            tokio::select! {
                _ = announced.changed() => {}
                () = &mut late => return Err(GroupEnd::Stop(StreamCode::NotSubscribed)),
            }
        };
        let inbox = self.inboxes.video(&track.name).ok_or(GroupEnd::Stop(StreamCode::NotSubscribed))?;
        Ok((header, track, inbox))
    }

    /// Reads more bytes.
    async fn fill(&mut self) -> Result<(), GroupEnd> {
        match self.stream.receive(READ).await? {
            Some(bytes) => {
                self.port.mark_heard(self.clock.now());
                Ok(self.decoder.push(&bytes)?)
            }
            None => {
                self.decoder.finish()?;
                Err(GroupEnd::Finished)
            }
        }
    }

    async fn read_frames(&mut self, header: &GroupHeader, key: GroupKey, inbox: &VideoInbox) -> GroupEnd {
        loop {
            let next = match self.first.take() {
                Some(first) => Ok(Some(first)),
                None => self.decoder.next_frame(),
            };
            match next {
                Ok(Some(frame)) => {
                    let (active, now) = (self.inboxes.active(), self.clock.now());
                    if let Err(code) = inbox.deliver(key, header, frame, active, now) {
                        return GroupEnd::Stop(code);
                    }
                }
                Ok(None) => {
                    if let Err(ended) = self.fill().await {
                        return ended;
                    }
                }
                Err(_) => return GroupEnd::Malformed,
            }
        }
    }
}

/// Reads the datagrams of a session until it ends.
pub(super) async fn read_datagrams(
    session: Arc<dyn Session>,
    port: Arc<Port>,
    inboxes: Arc<Inboxes>,
    clock: Arc<dyn Clock>,
) {
    let mut announced = port.announcements();
    let mut waiting: VecDeque<(Tick, AudioPacket)> = VecDeque::new();
    loop {
        let datagram = tokio::select! {
            datagram = session.receive_datagram() => datagram,
            _ = announced.changed() => {
                let now = clock.now();
                waiting.retain(|(at, packet)| {
                    now.since(*at) <= limits::UNNAMED_DATAGRAM && !deliver(&port, &inboxes, packet.clone(), now)
                });
                continue;
            }
        };
        let Ok(datagram) = datagram else { return };
        let now = clock.now();
        port.mark_heard(now);
        if let Some(packet) = audio_of(&datagram)
            && !deliver(&port, &inboxes, packet.clone(), now)
        {
            while waiting.front().is_some_and(|(at, _)| now.since(*at) > limits::UNNAMED_DATAGRAM) {
                waiting.pop_front();
            }
            if waiting.len() < limits::UNNAMED_DATAGRAMS {
                waiting.push_back((now, packet));
            }
        }
    }
}

fn audio_of(datagram: &Bytes) -> Option<AudioPacket> {
    match audio::decode(datagram) {
        Ok(Datagram::Audio(packet)) => Some(packet),
        // Keep-alives, and what this version does not know.
        Ok(_) | Err(_) => None,
    }
}

/// Passes a packet on. `false` if its alias was not announced yet.
fn deliver(port: &Port, inboxes: &Inboxes, packet: AudioPacket, now: Tick) -> bool {
    let Some(track) = port.track(packet.alias.number()) else { return false };
    if let Some(inbox) = inboxes.audio(&track.name) {
        inbox.deliver(&track, packet, now);
    }
    true
}
