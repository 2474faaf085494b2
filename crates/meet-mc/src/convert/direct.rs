//! Messages to one participant that are not in the log, and refusals.

use bytes::Bytes;
use tenure_meet_wire::Id;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{self as wire, ErrorCode};

use crate::convert::messages::{role_to_wire, stream_kind_to_wire};
use crate::meeting::{
    Assignment, DirectMessage, HandlerInfo, Meeting, Refusal, WaitingEntry, banned, limits,
};

/// A media handler with the grant of the participant that connects to it.
pub fn media_server(handler: &HandlerInfo, media_grant: Bytes) -> wire::MediaServerInfo {
    let role = if handler.primary { wire::MediaServerRole::Primary } else { wire::MediaServerRole::Backup };
    wire::MediaServerInfo {
        media_handler_url: handler.webtransport_endpoint.clone(),
        certificate_sha256: handler.certificates.iter().map(|hash| hash.clone().into()).collect(),
        role: role.into(),
        media_grant,
    }
}

/// The waiting room as hosts see it, or as the participant sees it that waits.
fn waiting_room(meeting: &Meeting, receiver: Id) -> Payload {
    let own = meeting.waiting.get(&receiver);
    let entries = meeting.waiting.values().filter(|entry| own.is_none_or(|own| own == *entry));
    let mut entries: Vec<&WaitingEntry> = entries.collect();
    entries.sort_by_key(|entry| entry.since);
    let participants = entries.into_iter().map(|entry| wire::WaitingParticipant {
        participant_id: entry.participant.to_string(),
        name: entry.name.clone(),
        user_id: entry.user.clone(),
        role: role_to_wire(entry.role),
        since: entry.since.as_millis(),
    });
    Payload::Waiting(wire::WaitingRoom {
        participants: participants.collect(),
        waits: own.is_some(),
        host_present: meeting.hosts().next().is_some(),
    })
}

fn banned_users(meeting: &Meeting) -> Payload {
    let users = banned(meeting).into_iter().take(limits::BANNED).map(|(user, ban)| wire::BannedUser {
        user_id: user.to_owned(),
        name: ban.name.clone(),
        banned_at: ban.at.as_millis(),
    });
    Payload::Banned(wire::BannedUsers { users: users.collect() })
}

/// The streams that a layout shows.
pub fn assignments_to_wire(meeting: &Meeting, assignments: &[Assignment]) -> Payload {
    let url = meeting.handlers.first().map(|handler| handler.webtransport_endpoint.clone());
    let assignments = assignments.iter().map(|assignment| wire::StreamAssignment {
        stream_id: assignment.stream_id,
        user_id: assignment.user.clone(),
        media_type: stream_kind_to_wire(assignment.kind),
        slot_index: assignment.slot,
        media_handler_url: url.clone().unwrap_or_default(),
        participant_id: assignment.participant.to_string(),
    });
    Payload::StreamAssignments(wire::StreamAssignments { assignments: assignments.collect() })
}

/// A message for one participant.
pub fn direct_to_wire(meeting: &Meeting, receiver: Id, message: &DirectMessage) -> Payload {
    match message {
        DirectMessage::WaitingRoom => waiting_room(meeting, receiver),
        DirectMessage::BannedUsers => banned_users(meeting),
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
        DirectMessage::PrepareMove { endpoint, certificates, ticket, mc_id, generation } => {
            Payload::PrepareMove(wire::PrepareMove {
                new_mc_endpoint: endpoint.clone(),
                certificate_sha256: certificates.iter().map(|hash| hash.clone().into()).collect(),
                move_ticket: ticket.clone().into(),
                mc_id: mc_id.clone(),
                generation: *generation,
            })
        }
        DirectMessage::Thawed => Payload::Thawed(wire::Thawed {}),
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
        Refusal::Forbidden | Refusal::NoGuests | Refusal::Banned => ErrorCode::Forbidden,
        Refusal::MeetingEnded => ErrorCode::MeetingEnded,
        Refusal::NotFound(_) | Refusal::NoSeat => ErrorCode::NotFound,
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
