//! Meetings as clients see them.

use meet_rpc::Card;
use serde::Serialize;
use utoipa::ToSchema;

use crate::assign::Home;
use crate::book::Meeting;

/// A meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "Meeting")]
pub(super) struct MeetingBody {
    meeting_id: String,
    /// What people are sent to join.
    meeting_code: String,
    display_name: String,
    max_participants: u32,
    allow_guests: bool,
    host_user_id: String,
    /// Where people join; a path unless the server knows its own address.
    join_url: String,
}

/// Who has the meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "McAssignment")]
pub(super) struct McAssignment {
    mc_id: String,
    /// Where to connect, as a whole URL.
    webtransport_endpoint: String,
    /// For other services; empty when there is no such port.
    grpc_endpoint: String,
    /// SHA-256 of the certificates that may be met there (base64); empty when an authority signed them.
    certificate_hashes: Vec<String>,
}

impl MeetingBody {
    pub(super) fn new(meeting: Meeting, public_url: &str) -> Self {
        Self {
            join_url: format!("{}/meet/{}", public_url.trim_end_matches('/'), meeting.code),
            meeting_id: meeting.id,
            meeting_code: meeting.code,
            display_name: meeting.display_name,
            max_participants: meeting.max_participants,
            allow_guests: meeting.allow_guests,
            host_user_id: meeting.host_user_id,
        }
    }
}

impl From<Home> for McAssignment {
    fn from(home: Home) -> Self {
        let Card { webtransport_endpoint, grpc_endpoint, certificate_hashes, .. } = home.card;
        // A name inside this process means nothing to a client.
        let grpc_endpoint = if grpc_endpoint.starts_with("http") { grpc_endpoint } else { String::new() };
        Self { mc_id: home.mc_id, webtransport_endpoint, grpc_endpoint, certificate_hashes }
    }
}
