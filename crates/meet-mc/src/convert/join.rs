//! The join request and its answer.

use prost::Message as _;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{self as wire, ClientMessage};
use tenure_meet_wire::{Id, MeetingId, limits};

use crate::convert::messages::{participant_to_wire, role_to_wire};
use crate::meeting::{Meeting, Refusal, ResumeProof, Welcome};

/// A join request whose token has not been verified.
#[derive(Clone, PartialEq, Eq)]
pub struct UnverifiedJoin {
    /// The meeting.
    pub meeting: MeetingId,
    /// The JWT.
    pub token: String,
    /// The requested display name.
    pub name: String,
    /// Proof of a seat held before.
    pub resume: Option<ResumeProof>,
    /// The last event that the client has received.
    pub last_event_seq: u64,
    /// The id of the join attempt.
    pub attempt: String,
    /// Lets the client wait for a meeting that moves here; empty without one.
    pub move_ticket: Vec<u8>,
}

/// The first message of a client, which must be a join request.
pub fn join_from_wire(message: ClientMessage) -> Result<UnverifiedJoin, Refusal> {
    let Some(ClientPayload::JoinRequest(join)) = message.payload else {
        return Err(Refusal::Invalid("the first message must be a join request"));
    };
    if join.participant_name.len() > limits::NAME {
        return Err(Refusal::Invalid("a name has at most 256 bytes"));
    }
    if join.attempt_id.len() > limits::ATTEMPT_ID {
        return Err(Refusal::Invalid("an attempt id has at most 64 bytes"));
    }
    // A malformed correlation id is an invalid proof, not a malformed request.
    let correlation = Id::parse(&join.correlation_id);
    let resume = correlation.map(|correlation| ResumeProof { correlation, token: join.binding_token });
    Ok(UnverifiedJoin {
        meeting: MeetingId::parse(&join.meeting_id).ok_or(Refusal::Invalid("invalid meeting id"))?,
        token: join.join_token,
        name: join.participant_name,
        resume,
        last_event_seq: join.last_event_seq,
        attempt: join.attempt_id,
        move_ticket: join.move_ticket.to_vec(),
    })
}

/// Bytes of participants in one frame.
const ROSTER_BYTES: usize = 48 * 1024;

/// Splits the roster into parts that each fit into a frame; at least one part.
fn split_roster(welcome: &Welcome) -> Vec<Vec<wire::Participant>> {
    let (mut parts, mut room) = (vec![Vec::new()], ROSTER_BYTES);
    for profile in &welcome.roster {
        let participant = participant_to_wire(profile);
        let size = participant.encoded_len() + 8;
        if size > room {
            parts.push(Vec::new());
            room = ROSTER_BYTES;
        }
        room = room.saturating_sub(size);
        if let Some(part) = parts.last_mut() {
            part.push(participant);
        }
    }
    parts
}

/// The answer to a join, followed by snapshots with the rest of the roster.
pub fn welcome_to_wire(
    meeting: &Meeting,
    welcome: &Welcome,
    media_servers: Vec<wire::MediaServerInfo>,
) -> Vec<Payload> {
    let seat = &welcome.seat;
    let mut parts = split_roster(welcome).into_iter();
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
        role: role_to_wire(seat.role),
        disconnect_grace_ms: meeting.settings.grace.as_millis() as u32,
        replay: welcome.replay.is_some(),
        self_state: Some(participant_to_wire(&seat.profile())),
        roster_size: welcome.roster.len() as u32,
    });
    let rest = parts.map(|participants| {
        let (event_seq, media_servers) = (welcome.event_seq, media_servers.clone());
        Payload::Snapshot(wire::Snapshot { event_seq, participants, media_servers })
    });
    [answer].into_iter().chain(rest).collect()
}
