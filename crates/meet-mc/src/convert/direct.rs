//! Messages to one participant that are not in the log, and refusals.

use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{self as wire, ErrorCode};

use crate::meeting::{DirectMessage, HandlerInfo, Meeting, Refusal};

pub(super) fn media_server(handler: &HandlerInfo) -> wire::MediaServerInfo {
    let role = if handler.primary { wire::MediaServerRole::Primary } else { wire::MediaServerRole::Backup };
    wire::MediaServerInfo {
        media_handler_url: handler.webtransport_endpoint.clone(),
        certificate_sha256: handler.certificates.iter().map(|hash| hash.clone().into()).collect(),
        role: role.into(),
        ..wire::MediaServerInfo::default()
    }
}

/// The current media handlers.
pub fn handlers_to_wire(meeting: &Meeting) -> Payload {
    let media_servers = meeting.handlers.iter().map(media_server).collect();
    Payload::MediaServersChanged(wire::MediaServersChanged { media_servers })
}

/// A message for one participant.
pub fn direct_to_wire(meeting: &Meeting, message: &DirectMessage) -> Payload {
    match message {
        DirectMessage::UnmuteRequested { participant, audio, video, expires_in_ms } => {
            Payload::UnmuteRequest(wire::UnmuteRequested {
                request_audio: *audio,
                request_video: *video,
                participant_id: participant.to_string(),
                expires_in_ms: *expires_in_ms,
            })
        }
        DirectMessage::UnmuteAnswered { participant, audio, video } => {
            Payload::UnmuteResponse(wire::UnmuteResponse {
                participant_id: participant.to_string(),
                audio_approved: *audio,
                video_approved: *video,
            })
        }
        DirectMessage::MuteEnforced { participant, epoch, missing } => {
            Payload::MuteEnforced(wire::MuteEnforced {
                participant_id: participant.to_string(),
                mute_epoch: *epoch,
                enforced: missing.is_empty(),
                missing_handlers: missing.clone(),
            })
        }
        DirectMessage::Redirect { endpoint, certificates } => redirect(meeting, endpoint, certificates),
        DirectMessage::Frozen { event_seq } => Payload::Frozen(wire::Frozen { event_seq: *event_seq }),
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

/// A refusal as an error, or as a redirect if the meeting moved.
pub fn refusal_to_wire(meeting: &Meeting, refusal: &Refusal) -> Payload {
    match refusal {
        Refusal::Moved { endpoint, certificates } => redirect(meeting, endpoint, certificates),
        refusal => error_payload(error_code(refusal), refusal.to_string()),
    }
}

/// The error code of a refusal.
pub fn error_code(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::Invalid(_) => ErrorCode::InvalidRequest,
        Refusal::Forbidden | Refusal::NoGuests => ErrorCode::Forbidden,
        Refusal::NotFound(_) | Refusal::MeetingEnded | Refusal::NoSeat => ErrorCode::NotFound,
        Refusal::Conflict(_) => ErrorCode::Conflict,
        Refusal::Full => ErrorCode::CapacityExceeded,
        Refusal::RateLimited(_) => ErrorCode::RateLimited,
        Refusal::Moving | Refusal::Moved { .. } => ErrorCode::Migrating,
    }
}

/// An error message.
pub fn error_payload(code: ErrorCode, message: impl Into<String>) -> Payload {
    let (code, message) = (code.into(), message.into());
    Payload::Error(wire::ErrorMessage { code, message, details: Default::default() })
}
