//! Stored rows of meetings and seats. Field names are the storage format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_lease::Wall;
use tenure_meet_wire::Id;
use tenure_meet_wire::binding::Nonce;
use tenure_meet_wire::seq::Applied;

use crate::meeting::{
    Ban, Binding, HandlerInfo, Layout, LayoutConfig, Mutes, Now, Presence, PreviousBinding, Role, Seat,
    Settings, Stream, StreamKind, UnmuteRequest, UserRecord, limits,
};

/// A meeting without its seats. The settings are for operators: a new owner receives newer ones from GC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MeetingRow {
    pub(crate) max_participants: u32,
    pub(crate) allow_guests: bool,
    #[serde(default)]
    pub(crate) waiting_room: bool,
    pub(crate) grace_ms: u64,
    pub(crate) mute_epoch: u64,
    #[serde(default)]
    pub(crate) guests_enter_muted: bool,
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
    pub(crate) fn new(settings: &Settings, handlers: &[HandlerInfo]) -> Self {
        Self {
            max_participants: settings.max_participants,
            allow_guests: settings.allow_guests,
            waiting_room: settings.waiting_room,
            grace_ms: settings.grace.as_millis() as u64,
            mute_epoch: 0,
            guests_enter_muted: false,
            ended: false,
            handlers: handlers.iter().map(HandlerRow::from).collect(),
        }
    }

    pub(crate) fn set(&mut self, settings: &Settings) {
        let (mute_epoch, guests_enter_muted, ended) = (self.mute_epoch, self.guests_enter_muted, self.ended);
        let handlers = std::mem::take(&mut self.handlers);
        *self = Self { mute_epoch, guests_enter_muted, ended, handlers, ..Self::new(settings, &[]) };
    }

    pub(crate) fn handlers(&self) -> Vec<HandlerInfo> {
        self.handlers.iter().map(HandlerInfo::from).collect()
    }
}

impl From<&HandlerInfo> for HandlerRow {
    fn from(handler: &HandlerInfo) -> Self {
        let HandlerInfo { id, webtransport_endpoint, grpc_endpoint, primary, certificates } = handler.clone();
        Self { id, webtransport_endpoint, grpc_endpoint, primary, certificates }
    }
}

impl From<&HandlerRow> for HandlerInfo {
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
    /// When the connection was lost; absent while connected.
    away_since_us: Option<u64>,
    epoch: u64,
    mutes: MutesRow,
    ask: Option<(bool, bool)>,
    streams: BTreeMap<u32, (String, String)>,
    layout: Option<LayoutRow>,
    applied: u64,
    #[serde(default)]
    hand_us: Option<u64>,
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

/// What hosts decided about a user.
#[derive(Serialize, Deserialize)]
struct UserRow {
    user: String,
    audio_muted: bool,
    video_muted: bool,
    muted_by: Option<String>,
    mute_reason: String,
    /// The name and the time.
    banned: Option<(String, u64)>,
    admitted: bool,
}

/// Encodes what hosts decided about a user.
pub(crate) fn encode_user(user: &str, record: &UserRecord) -> Option<Arc<[u8]>> {
    let UserRecord { audio_muted, video_muted, muted_by, mute_reason, ban, admitted } = record.clone();
    let banned = ban.map(|ban| (ban.name, ban.at.as_micros()));
    let user = user.to_owned();
    encode(&UserRow { user, audio_muted, video_muted, muted_by, mute_reason, banned, admitted })
}

/// Decodes what hosts decided about a user.
pub(crate) fn decode_user(bytes: &[u8]) -> Option<(String, UserRecord)> {
    let row: UserRow = serde_json::from_slice(bytes).ok()?;
    let UserRow { user, audio_muted, video_muted, muted_by, mute_reason, banned, admitted } = row;
    let ban = banned.map(|(name, at)| Ban { name, at: Wall::from_micros(at) });
    Some((user, UserRecord { audio_muted, video_muted, muted_by, mute_reason, ban, admitted }))
}

/// Encodes a row.
pub(crate) fn encode(row: &impl Serialize) -> Option<Arc<[u8]>> {
    serde_json::to_vec(row).ok().map(Arc::from)
}

/// Encodes a seat.
pub(crate) fn encode_seat(seat: &Seat) -> Option<Arc<[u8]>> {
    encode(&SeatRow::from(seat))
}

/// Decodes a seat for a new owner. The seat is disconnected, since its connection ended with the previous owner.
///
/// Its participant gets the whole grace from now on, on this owner's clock: how long the meeting had no owner is not its
/// fault. The wall clocks of two machines only bound it: at most two graces after the previous owner was last alive. A
/// seat that was disconnected before keeps its own deadline.
pub(crate) fn decode_seat(bytes: &[u8], now: Now, alive: Option<Wall>, grace: Duration) -> Option<Seat> {
    let row: SeatRow = serde_json::from_slice(bytes).ok()?;
    let elapsed = |since: Wall| Duration::from_micros(now.wall.as_micros().saturating_sub(since.as_micros()));
    let away_since = row.away_since_us.map(Wall::from_micros);
    let left = match (away_since, alive) {
        (Some(since), _) => (grace + limits::SKEW).saturating_sub(elapsed(since)),
        (None, Some(alive)) => (grace * 2).saturating_sub(elapsed(alive)),
        (None, None) => grace,
    };
    let since = away_since.or(alive).unwrap_or(now.wall);
    let until = now.tick + limits::UNMUTE_REQUEST;
    let unmute_request = row.ask.map(|(audio, video)| UnmuteRequest { audio, video, until });
    let presence = Presence::Disconnected { since, until: now.tick + left.min(grace) };
    Some(Seat { presence, unmute_request, ..row.into_seat()? })
}

impl From<&Seat> for SeatRow {
    fn from(seat: &Seat) -> Self {
        let stream = |stream: &Stream| (stream.kind.as_str().to_owned(), stream.metadata.clone());
        Self {
            participant: seat.participant.to_string(),
            user: seat.user.clone(),
            name: seat.name.clone(),
            role: seat.role.as_str().to_owned(),
            joined_at_us: seat.joined_at.as_micros(),
            away_since_us: match seat.presence {
                Presence::Connected => None,
                Presence::Disconnected { since, .. } => Some(since.as_micros()),
            },
            epoch: seat.epoch,
            mutes: MutesRow::from(&seat.mutes),
            ask: seat.unmute_request.map(|request| (request.audio, request.video)),
            streams: seat.streams.iter().map(|(id, published)| (*id, stream(published))).collect(),
            layout: seat.layout.as_ref().map(LayoutRow::from),
            applied: seat.applied.number(),
            hand_us: seat.hand_raised_at.map(Wall::as_micros),
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
    /// The seat without presence and unmute request.
    fn into_seat(self) -> Option<Seat> {
        let previous = match self.previous {
            None => None,
            Some(old) => Some(PreviousBinding {
                correlation: Id::parse(&old.correlation)?,
                nonce: Nonce::parse(&old.nonce)?,
                attempt: old.attempt,
                at: Wall::from_micros(old.at_us),
            }),
        };
        let stream =
            |(kind, metadata): (String, String)| Some(Stream { kind: StreamKind::parse(&kind)?, metadata });
        let streams = self.streams.into_iter().map(|(id, row)| Some((id, stream(row)?)));
        Some(Seat {
            participant: Id::parse(&self.participant)?,
            user: self.user,
            name: self.name,
            role: Role::parse(&self.role)?,
            joined_at: Wall::from_micros(self.joined_at_us),
            presence: Presence::Connected,
            epoch: self.epoch,
            mutes: self.mutes.into_mutes(),
            unmute_request: None,
            streams: streams.collect::<Option<_>>()?,
            layout: self.layout.map(LayoutRow::into_layout),
            applied: Applied::from_number(self.applied),
            hand_raised_at: self.hand_us.map(Wall::from_micros),
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
    fn into_mutes(self) -> Mutes {
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
    fn into_layout(self) -> Layout {
        let Self { kind, rows, columns, max_streams, pinned, excluded, prefer_video, include_self, streams } =
            self;
        let config =
            LayoutConfig { rows, columns, max_streams, pinned, excluded, prefer_video, include_self };
        Layout { kind, config, streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_lease::Tick;

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
            presence: Presence::Connected,
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
            unmute_request: Some(UnmuteRequest {
                audio: true,
                video: false,
                until: now().tick + limits::UNMUTE_REQUEST,
            }),
            streams: [(7, Stream { kind: StreamKind::Screen, metadata: "m".to_owned() })].into(),
            layout: Some(Layout {
                kind: 2,
                config: LayoutConfig { rows: 3, ..LayoutConfig::default() },
                streams: vec![7],
            }),
            applied: Applied::from_number(42),
            hand_raised_at: Some(Wall::from_micros(8)),
            binding: Binding {
                correlation: id(2),
                nonce: nonce(3),
                previous: Some(PreviousBinding {
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
            Presence::Disconnected { until, .. } => until.since(now().tick),
            Presence::Connected => panic!("a new owner has no connections"),
        }
    }

    #[test]
    fn a_decoded_seat_is_unchanged_but_disconnected() {
        let bytes = encode_seat(&full()).unwrap();
        let read = decode_seat(&bytes, now(), Some(now().wall), limits::GRACE).unwrap();
        assert_eq!(Seat { presence: Presence::Connected, ..read.clone() }, full());
        assert_eq!(left(&read), Duration::from_secs(30));
    }

    #[test]
    fn the_grace_starts_at_the_opening_and_ends_sixty_seconds_after_the_old_owner() {
        let ago = |seconds: u64| Wall::from_micros(now().wall.as_micros() - seconds * 1_000_000);
        let grace = limits::GRACE;
        let here = encode_seat(&full()).unwrap();
        let away = Presence::Disconnected { since: ago(20), until: now().tick };
        let away = encode_seat(&Seat { presence: away, ..full() }).unwrap();
        let cases = [
            (&here, Some(ago(5)), 30),
            (&here, Some(ago(30)), 30),
            (&here, Some(ago(45)), 15),
            (&here, Some(ago(60)), 0),
            (&here, None, 30),
            (&away, Some(ago(5)), 15),
            (&here, Some(Wall::from_micros(now().wall.as_micros() + 1_000_000_000)), 30),
        ];
        for (bytes, alive, seconds) in cases {
            let read = decode_seat(bytes, now(), alive, grace).unwrap();
            assert_eq!(left(&read), Duration::from_secs(seconds), "{alive:?}");
        }
    }

    #[test]
    fn a_decoded_user_record_is_unchanged() {
        let ban = Some(Ban { name: "Eve".to_owned(), at: Wall::from_micros(7) });
        let muted = UserRecord {
            audio_muted: true,
            muted_by: Some("ada".to_owned()),
            mute_reason: "noise".to_owned(),
            ..UserRecord::default()
        };
        let records = [
            muted,
            UserRecord { ban, ..Default::default() },
            UserRecord { admitted: true, ..Default::default() },
        ];
        for record in records {
            let bytes = encode_user("eve ö", &record).unwrap();
            assert_eq!(decode_user(&bytes), Some(("eve ö".to_owned(), record)));
        }
        assert_eq!(decode_user(b"{}"), None);
    }

    #[test]
    fn invalid_seat_rows_are_refused() {
        for bad in ["", "{}", "null", "[]"] {
            assert!(decode_seat(bad.as_bytes(), now(), None, limits::GRACE).is_none(), "{bad}");
        }
        let odd = String::from_utf8(encode_seat(&full()).unwrap().to_vec())
            .unwrap()
            .replace("\"host\"", "\"king\"");
        assert!(decode_seat(odd.as_bytes(), now(), None, limits::GRACE).is_none());
    }
}
