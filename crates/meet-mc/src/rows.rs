//! Seats and meetings as they lie in the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::Wall;
use meet_wire::Id;
use meet_wire::binding::Nonce;
use meet_wire::seq::Applied;
use serde::{Deserialize, Serialize};

use crate::meeting::{
    Ask, Binding, Handler, Layout, LayoutConfig, Mutes, Now, Presence, Previous, Role, Seat, Settings,
    Stream, StreamKind, limits,
};

/// A meeting without its seats. The settings are for operators: who takes the meeting is told them by GC, whose record is newer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MeetingRow {
    pub(crate) max_participants: u32,
    pub(crate) allow_guests: bool,
    pub(crate) grace_ms: u64,
    pub(crate) mute_epoch: u64,
    pub(crate) ended: bool,
    pub(crate) handlers: Vec<HandlerRow>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HandlerRow {
    id: String,
    webtransport_endpoint: String,
    grpc_endpoint: String,
    primary: bool,
    certificates: Vec<Vec<u8>>,
}

impl MeetingRow {
    pub(crate) fn new(settings: &Settings, handlers: &[Handler]) -> Self {
        Self {
            max_participants: settings.max_participants,
            allow_guests: settings.allow_guests,
            grace_ms: settings.grace.as_millis() as u64,
            mute_epoch: 0,
            ended: false,
            handlers: handlers.iter().map(HandlerRow::from).collect(),
        }
    }

    pub(crate) fn set(&mut self, settings: &Settings) {
        let (mute_epoch, ended) = (self.mute_epoch, self.ended);
        let handlers = std::mem::take(&mut self.handlers);
        *self = Self { mute_epoch, ended, handlers, ..Self::new(settings, &[]) };
    }

    pub(crate) fn handlers(&self) -> Vec<Handler> {
        self.handlers.iter().map(Handler::from).collect()
    }
}

impl From<&Handler> for HandlerRow {
    fn from(handler: &Handler) -> Self {
        let Handler { id, webtransport_endpoint, grpc_endpoint, primary, certificates } = handler.clone();
        Self { id, webtransport_endpoint, grpc_endpoint, primary, certificates }
    }
}

impl From<&HandlerRow> for Handler {
    fn from(row: &HandlerRow) -> Self {
        let HandlerRow { id, webtransport_endpoint, grpc_endpoint, primary, certificates } = row.clone();
        Self { id, webtransport_endpoint, grpc_endpoint, primary, certificates }
    }
}

#[derive(Serialize, Deserialize)]
struct SeatRow {
    participant: String,
    user: String,
    name: String,
    role: String,
    joined_at_us: u64,
    /// Since when nobody is there; none when somebody is.
    away_since_us: Option<u64>,
    epoch: u64,
    mutes: MutesRow,
    ask: Option<(bool, bool)>,
    streams: BTreeMap<u32, (String, String)>,
    layout: Option<LayoutRow>,
    applied: u64,
    correlation: String,
    nonce: String,
    previous: Option<PreviousRow>,
}

#[derive(Serialize, Deserialize)]
struct MutesRow {
    audio_self: bool,
    video_self: bool,
    audio_host: bool,
    video_host: bool,
    by: Option<String>,
    reason: String,
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
struct LayoutRow {
    kind: i32,
    rows: u32,
    columns: u32,
    max_streams: u32,
    pinned: Vec<String>,
    excluded: Vec<String>,
    prefer_video: bool,
    include_self: bool,
    streams: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct PreviousRow {
    correlation: String,
    nonce: String,
    attempt: String,
    at_us: u64,
}

/// A row as bytes.
pub(crate) fn encode(row: &impl Serialize) -> Option<Arc<[u8]>> {
    serde_json::to_vec(row).ok().map(Arc::from)
}

/// A seat as bytes.
pub(crate) fn seat(seat: &Seat) -> Option<Arc<[u8]>> {
    encode(&SeatRow::from(seat))
}

/// A seat from bytes, as its new owner sees it at `now`. Whoever was there when the last owner was alive last may come back: the connection
/// went with the owner.
pub(crate) fn read_seat(bytes: &[u8], now: Now, alive: Option<Wall>, grace: Duration) -> Option<Seat> {
    let row: SeatRow = serde_json::from_slice(bytes).ok()?;
    let since = row.away_since_us.map(Wall::from_micros).or(alive).unwrap_or(now.wall);
    let kept = grace + limits::SKEW;
    let gone = Duration::from_micros(now.wall.as_micros().saturating_sub(since.as_micros()));
    // A clock that was set back must not keep a seat for longer than any is kept.
    let left = kept.saturating_sub(gone).min(kept);
    let ask = row.ask.map(|(audio, video)| Ask { audio, video, until: now.tick + limits::ASK });
    Some(Seat { presence: Presence::Away { since, until: now.tick + left }, ask, ..row.seat()? })
}

impl From<&Seat> for SeatRow {
    fn from(seat: &Seat) -> Self {
        let stream = |stream: &Stream| (kind(stream.kind).to_owned(), stream.metadata.clone());
        Self {
            participant: seat.participant.to_string(),
            user: seat.user.clone(),
            name: seat.name.clone(),
            role: role(seat.role).to_owned(),
            joined_at_us: seat.joined_at.as_micros(),
            away_since_us: match seat.presence {
                Presence::Here => None,
                Presence::Away { since, .. } => Some(since.as_micros()),
            },
            epoch: seat.epoch,
            mutes: MutesRow::from(&seat.mutes),
            ask: seat.ask.map(|ask| (ask.audio, ask.video)),
            streams: seat.streams.iter().map(|(id, published)| (*id, stream(published))).collect(),
            layout: seat.layout.as_ref().map(LayoutRow::from),
            applied: seat.applied.number(),
            correlation: seat.binding.correlation.to_string(),
            nonce: seat.binding.nonce.to_hex(),
            previous: seat.binding.previous.as_ref().map(|old| PreviousRow {
                correlation: old.correlation.to_string(),
                nonce: old.nonce.to_hex(),
                attempt: old.attempt.clone(),
                at_us: old.at.as_micros(),
            }),
        }
    }
}

impl SeatRow {
    /// The seat with nobody there, and no wish.
    fn seat(self) -> Option<Seat> {
        let previous = match self.previous {
            None => None,
            Some(old) => Some(Previous {
                correlation: Id::parse(&old.correlation)?,
                nonce: Nonce::parse(&old.nonce)?,
                attempt: old.attempt,
                at: Wall::from_micros(old.at_us),
            }),
        };
        let stream = |(kind, metadata): (String, String)| Some(Stream { kind: read_kind(&kind)?, metadata });
        let streams = self.streams.into_iter().map(|(id, row)| Some((id, stream(row)?)));
        Some(Seat {
            participant: Id::parse(&self.participant)?,
            user: self.user,
            name: self.name,
            role: read_role(&self.role)?,
            joined_at: Wall::from_micros(self.joined_at_us),
            presence: Presence::Here,
            epoch: self.epoch,
            mutes: self.mutes.mutes(),
            ask: None,
            streams: streams.collect::<Option<_>>()?,
            layout: self.layout.map(LayoutRow::layout),
            applied: Applied::from_number(self.applied),
            binding: Binding {
                correlation: Id::parse(&self.correlation)?,
                nonce: Nonce::parse(&self.nonce)?,
                previous,
            },
        })
    }
}

impl From<&Mutes> for MutesRow {
    fn from(mutes: &Mutes) -> Self {
        let Mutes { audio_self, video_self, audio_host, video_host, by, reason, epoch } = mutes.clone();
        Self { audio_self, video_self, audio_host, video_host, by, reason, epoch }
    }
}

impl MutesRow {
    fn mutes(self) -> Mutes {
        let Self { audio_self, video_self, audio_host, video_host, by, reason, epoch } = self;
        Mutes { audio_self, video_self, audio_host, video_host, by, reason, epoch }
    }
}

impl From<&Layout> for LayoutRow {
    fn from(layout: &Layout) -> Self {
        let LayoutConfig { rows, columns, max_streams, pinned, excluded, prefer_video, include_self } =
            layout.config.clone();
        let (kind, streams) = (layout.kind, layout.streams.clone());
        Self { kind, rows, columns, max_streams, pinned, excluded, prefer_video, include_self, streams }
    }
}

impl LayoutRow {
    fn layout(self) -> Layout {
        let Self { kind, rows, columns, max_streams, pinned, excluded, prefer_video, include_self, streams } =
            self;
        let config =
            LayoutConfig { rows, columns, max_streams, pinned, excluded, prefer_video, include_self };
        Layout { kind, config, streams }
    }
}

const ROLES: [(Role, &str); 3] =
    [(Role::Host, "host"), (Role::Participant, "participant"), (Role::Guest, "guest")];
const KINDS: [(StreamKind, &str); 3] =
    [(StreamKind::Audio, "audio"), (StreamKind::Video, "video"), (StreamKind::Screen, "screen")];

fn role(role: Role) -> &'static str {
    ROLES.iter().find(|(known, _)| *known == role).map_or("participant", |(_, word)| word)
}

fn read_role(word: &str) -> Option<Role> {
    ROLES.iter().find(|(_, known)| *known == word).map(|(role, _)| *role)
}

fn kind(kind: StreamKind) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).map_or("video", |(_, word)| word)
}

fn read_kind(word: &str) -> Option<StreamKind> {
    KINDS.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::Tick;

    fn now() -> Now {
        Now { tick: Tick::from_nanos(1_000_000_000_000), wall: Wall::from_micros(1_700_000_000_000_000) }
    }

    fn full() -> Seat {
        let id = |n: u8| Id::parse(&format!("018bcfe5-6800-7000-8000-0000000000{n:02x}")).unwrap();
        let nonce = |n: u8| Nonce::parse(&format!("{n:032x}")).unwrap();
        Seat {
            participant: id(1),
            user: "ada".to_owned(),
            name: "Ada \"L\" ö".to_owned(),
            role: Role::Host,
            joined_at: Wall::from_micros(1),
            presence: Presence::Here,
            epoch: 3,
            mutes: Mutes {
                audio_self: true,
                video_self: false,
                audio_host: false,
                video_host: true,
                by: Some("bob".to_owned()),
                reason: "noise".to_owned(),
                epoch: 9,
            },
            ask: Some(Ask { audio: true, video: false, until: now().tick + limits::ASK }),
            streams: [(7, Stream { kind: StreamKind::Screen, metadata: "m".to_owned() })].into(),
            layout: Some(Layout {
                kind: 2,
                config: LayoutConfig { rows: 3, ..LayoutConfig::default() },
                streams: vec![7],
            }),
            applied: Applied::from_number(42),
            binding: Binding {
                correlation: id(2),
                nonce: nonce(3),
                previous: Some(Previous {
                    correlation: id(4),
                    nonce: nonce(5),
                    attempt: "a".to_owned(),
                    at: Wall::from_micros(6),
                }),
            },
        }
    }

    fn left(seat: &Seat) -> Duration {
        match seat.presence {
            Presence::Away { until, .. } => until.since(now().tick),
            Presence::Here => panic!("nobody is connected to a new owner"),
        }
    }

    #[test]
    fn a_seat_comes_back_from_its_row_as_it_was_but_away() {
        let bytes = seat(&full()).unwrap();
        let read = read_seat(&bytes, now(), Some(now().wall), limits::GRACE).unwrap();
        assert_eq!(Seat { presence: Presence::Here, ..read.clone() }, full());
        assert_eq!(left(&read), Duration::from_secs(35));
    }

    #[test]
    fn the_grace_counts_from_the_disconnect_or_from_the_last_sign_of_the_old_owner() {
        let ago = |seconds: u64| Wall::from_micros(now().wall.as_micros() - seconds * 1_000_000);
        let grace = limits::GRACE;
        let here = seat(&full()).unwrap();
        let away = Presence::Away { since: ago(20), until: now().tick };
        let away = seat(&Seat { presence: away, ..full() }).unwrap();
        let cases = [
            (&here, Some(ago(5)), 30),
            (&here, Some(ago(60)), 0),
            (&here, None, 35),
            (&away, Some(ago(5)), 15),
            (&here, Some(Wall::from_micros(now().wall.as_micros() + 1_000_000_000)), 35),
        ];
        for (bytes, alive, seconds) in cases {
            let read = read_seat(bytes, now(), alive, grace).unwrap();
            assert_eq!(left(&read), Duration::from_secs(seconds), "{alive:?}");
        }
    }

    #[test]
    fn what_is_no_seat_is_not_read() {
        for bad in ["", "{}", "null", "[]"] {
            assert!(read_seat(bad.as_bytes(), now(), None, limits::GRACE).is_none(), "{bad}");
        }
        let odd = String::from_utf8(seat(&full()).unwrap().to_vec()).unwrap().replace("\"host\"", "\"king\"");
        assert!(read_seat(odd.as_bytes(), now(), None, limits::GRACE).is_none());
    }
}
