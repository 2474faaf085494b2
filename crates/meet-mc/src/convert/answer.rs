//! What one client is told.

use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{self as wire, ErrorCode};
use prost::Message as _;

use crate::convert::event::{participant, role};
use crate::meeting::{Handler, Meeting, Refusal, Telling, Welcome};

fn server(handler: &Handler) -> wire::MediaServerInfo {
    let role = if handler.primary { wire::MediaServerRole::Primary } else { wire::MediaServerRole::Backup };
    wire::MediaServerInfo {
        media_handler_url: handler.webtransport_endpoint.clone(),
        certificate_sha256: handler.certificates.iter().map(|hash| hash.clone().into()).collect(),
        role: role.into(),
    }
}

/// What of a frame participants may take.
const ROOM: usize = 48 * 1024;

/// The roster in parts that fit into a frame each; one part at least.
fn parts(welcome: &Welcome) -> Vec<Vec<wire::Participant>> {
    let (mut parts, mut room) = (vec![Vec::new()], ROOM);
    for profile in &welcome.roster {
        let participant = participant(profile);
        let size = participant.encoded_len() + 8;
        if size > room {
            parts.push(Vec::new());
            room = ROOM;
        }
        room = room.saturating_sub(size);
        if let Some(part) = parts.last_mut() {
            part.push(participant);
        }
    }
    parts
}

/// The answer to a join, and what of the roster did not fit into it.
pub fn welcomed(meeting: &Meeting, welcome: &Welcome) -> Vec<Payload> {
    let seat = &welcome.seat;
    let mut parts = parts(welcome).into_iter();
    let media_servers: Vec<wire::MediaServerInfo> = meeting.handlers.iter().map(server).collect();
    let answer = Payload::JoinResponse(wire::JoinResponse {
        participant_id: seat.participant.to_string(),
        user_id: seat.user.clone(),
        existing_participants: parts.next().unwrap_or_default(),
        media_servers: media_servers.clone(),
        encryption_keys: None,
        correlation_id: seat.binding.correlation.to_string(),
        binding_token: welcome.token.as_str().to_owned(),
        resumed: welcome.resumed,
        event_seq: welcome.event_seq,
        applied_seq: seat.applied.number(),
        role: role(seat.role),
        disconnect_grace_ms: meeting.settings.grace.as_millis() as u32,
        replay: welcome.replay.is_some(),
        self_state: Some(participant(&seat.profile())),
        roster_size: welcome.roster.len() as u32,
    });
    let rest = parts.map(|participants| {
        let (event_seq, media_servers) = (welcome.event_seq, media_servers.clone());
        Payload::Snapshot(wire::Snapshot { event_seq, participants, media_servers })
    });
    [answer].into_iter().chain(rest).collect()
}

/// Where media goes from now on.
pub fn handlers(meeting: &Meeting) -> Payload {
    let media_servers = meeting.handlers.iter().map(server).collect();
    Payload::MediaServersChanged(wire::MediaServersChanged { media_servers })
}

/// A word for one participant.
pub fn told(meeting: &Meeting, telling: &Telling) -> Payload {
    match telling {
        Telling::AskedToUnmute { participant, audio, video, expires_in_ms } => {
            Payload::UnmuteRequest(wire::UnmuteRequested {
                request_audio: *audio,
                request_video: *video,
                participant_id: participant.to_string(),
                expires_in_ms: *expires_in_ms,
            })
        }
        Telling::UnmuteAnswered { participant, audio, video } => {
            Payload::UnmuteResponse(wire::UnmuteResponse {
                participant_id: participant.to_string(),
                audio_approved: *audio,
                video_approved: *video,
            })
        }
        Telling::Enforced { participant, epoch, missing } => Payload::MuteEnforced(wire::MuteEnforced {
            participant_id: participant.to_string(),
            mute_epoch: *epoch,
            enforced: missing.is_empty(),
            missing_handlers: missing.clone(),
        }),
        Telling::Redirect { endpoint, certificates } => redirect(meeting, endpoint, certificates),
        Telling::Frozen { event_seq } => Payload::Frozen(wire::Frozen { event_seq: *event_seq }),
    }
}

fn redirect(meeting: &Meeting, endpoint: &str, certificates: &[Vec<u8>]) -> Payload {
    Payload::RedirectToMc(wire::RedirectToMc {
        new_mc_endpoint: endpoint.to_owned(),
        meeting_id: meeting.id.to_string(),
        reason: "migration".to_owned(),
        certificate_sha256: certificates.iter().map(|hash| hash.clone().into()).collect(),
    })
}

/// Why a request leads to nothing.
pub fn refused(meeting: &Meeting, refusal: &Refusal) -> Payload {
    let code = match refusal {
        Refusal::Moved { endpoint, certificates } => return redirect(meeting, endpoint, certificates),
        Refusal::Invalid(_) => ErrorCode::InvalidRequest,
        Refusal::Forbidden | Refusal::NoGuests => ErrorCode::Forbidden,
        Refusal::NotFound(_) | Refusal::Over | Refusal::NoSeat => ErrorCode::NotFound,
        Refusal::Conflict(_) => ErrorCode::Conflict,
        Refusal::Full => ErrorCode::CapacityExceeded,
        Refusal::TooOften(_) => ErrorCode::RateLimited,
        Refusal::Moving => ErrorCode::Migrating,
    };
    Payload::Error(wire::ErrorMessage {
        code: code.into(),
        message: refusal.to_string(),
        details: std::collections::HashMap::new(),
    })
}
