//! The debug output of messages with secrets: tokens, grants, tickets and keys are not part of it.

use std::fmt;

use crate::internal::{RegisterMeetingRequest, ReportMcUnreachableRequest};
use crate::media::message::Hello;
use crate::media::relay::RelayHello;
use crate::signaling::{JoinRequest, JoinResponse, MediaServerInfo, MhConnectRequest, PrepareMove};

macro_rules! shows {
    ($($message:ident: $($field:ident),*;)*) => {
        $(impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        })*
    };
}

shows! {
    JoinRequest: meeting_id, participant_name, capabilities, correlation_id, last_event_seq, attempt_id;
    JoinResponse: participant_id, user_id, existing_participants, media_servers, correlation_id, resumed, event_seq,
        applied_seq, role, disconnect_grace_ms, replay, self_state, roster_size;
    MediaServerInfo: media_handler_url, certificate_sha256, role;
    PrepareMove: new_mc_endpoint, certificate_sha256;
    MhConnectRequest: participant_id;
    RegisterMeetingRequest: meeting_id, mc_id, mc_grpc_endpoint, generation, peers, lease_ms, seats;
    ReportMcUnreachableRequest: mc_id, reporter_participant_id, reason, affected_meetings, meeting_id;
    Hello: standby;
    RelayHello: meeting_id, handler_id;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::message::{MediaRequest, media_request};
    use crate::media::relay::{RelayMessage, relay_message};
    use crate::signaling::{
        ClientMessage, MediaServersChanged, ServerMessage, client_message, server_message,
    };

    const SECRET: &str = "s3cr3t";

    fn text() -> String {
        SECRET.to_owned()
    }

    fn bytes() -> bytes::Bytes {
        SECRET.into()
    }

    #[test]
    fn no_secret_is_in_the_debug_output_of_a_message() {
        let join = JoinRequest {
            meeting_id: "abc".into(),
            join_token: text(),
            binding_token: text(),
            move_ticket: bytes(),
            ..JoinRequest::default()
        };
        let server = MediaServerInfo { media_grant: bytes(), ..MediaServerInfo::default() };
        let joined = JoinResponse {
            binding_token: text(),
            media_servers: vec![server.clone()],
            ..JoinResponse::default()
        };
        let changed = MediaServersChanged { media_servers: vec![server] };
        let moving = PrepareMove { move_ticket: bytes(), ..PrepareMove::default() };
        let hello = Hello { grant: bytes(), standby: true };
        let relay = RelayHello { service_token: text(), ..RelayHello::default() };
        let server = |payload| ServerMessage { payload: Some(payload), ..ServerMessage::default() };
        let shown = [
            format!(
                "{:?}",
                ClientMessage {
                    payload: Some(client_message::Payload::JoinRequest(join)),
                    ..ClientMessage::default()
                }
            ),
            format!("{:?}", server(server_message::Payload::JoinResponse(joined))),
            format!("{:?}", server(server_message::Payload::MediaServersChanged(changed))),
            format!("{:?}", server(server_message::Payload::PrepareMove(moving))),
            format!("{:?}", MediaRequest { payload: Some(media_request::Payload::Hello(hello)), seq: 1 }),
            format!("{:?}", RelayMessage { payload: Some(relay_message::Payload::Hello(relay)) }),
            format!("{:?}", MhConnectRequest { join_token: text(), ..MhConnectRequest::default() }),
            format!("{:?}", RegisterMeetingRequest { handler_key: vec![bytes()], ..Default::default() }),
            format!("{:?}", ReportMcUnreachableRequest { join_token: text(), ..Default::default() }),
        ];
        for shown in shown {
            assert!(!shown.contains(SECRET) && shown.contains(".."), "{shown}");
        }
    }
}
