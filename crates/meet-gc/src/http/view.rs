//! Meetings as clients see them.

use serde::Serialize;
use tenure_meet_rpc::NodeInfo;
use utoipa::ToSchema;

use crate::assign::Assignment;
use crate::meetings::Meeting;

/// A meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "Meeting")]
pub(super) struct MeetingBody {
    meeting_id: String,
    /// The code to share with participants.
    meeting_code: String,
    display_name: String,
    max_participants: u32,
    allow_guests: bool,
    waiting_room: bool,
    host_user_id: String,
    /// The join link: a path, unless the server knows its public URL.
    join_url: String,
}

/// The controller of the meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "McAssignment")]
pub(super) struct McAssignment {
    mc_id: String,
    /// A decimal number that rises whenever another controller takes the meeting. Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    /// The WebTransport URL.
    webtransport_endpoint: String,
    /// The gRPC endpoint for other services. Empty if it has none.
    grpc_endpoint: String,
    /// SHA-256 hashes of the endpoint's certificates (base64). Empty if an authority signed them.
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
            waiting_room: meeting.waiting_room,
            host_user_id: meeting.host_user_id,
        }
    }
}

impl From<Assignment> for McAssignment {
    fn from(home: Assignment) -> Self {
        let NodeInfo { webtransport_endpoint, grpc_endpoint, certificate_hashes, .. } = home.node_info;
        // An in-process endpoint is of no use to a client.
        let grpc_endpoint = if grpc_endpoint.starts_with("http") { grpc_endpoint } else { String::new() };
        let generation = (home.generation > 0).then(|| home.generation.to_string());
        let mc_id = home.mc_id;
        Self { mc_id, generation, webtransport_endpoint, grpc_endpoint, certificate_hashes }
    }
}
