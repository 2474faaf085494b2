//! Grants: what a participant proves to its media handlers. Only the owner of a meeting issues them.

use std::sync::Arc;

use bytes::Bytes;
use tenure_lease::{Entropy, Wall};
use tenure_meet_wire::binding::Secrets;
use tenure_meet_wire::media::grant::HandlerKeys;
use tenure_meet_wire::media::limits;
use tenure_meet_wire::media::message::MediaGrant;
use tenure_meet_wire::signaling::MediaServerInfo;

use crate::convert;
use crate::meeting::{HandlerInfo, MediaRights, Meeting, Seat};

/// Bytes of a grant's id.
const GRANT_ID: usize = 16;

/// Issues the grants of one meeting under one generation.
#[derive(Clone)]
pub(crate) struct GrantIssuer {
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) generation: u64,
}

impl GrantIssuer {
    /// The media handlers for a seat, each with a new grant.
    pub(crate) fn media_servers(
        &self,
        secrets: &Secrets,
        meeting: &Meeting,
        seat: &Seat,
        now: Wall,
    ) -> Vec<MediaServerInfo> {
        let issue = |handler: &HandlerInfo| {
            let mut id = [0; GRANT_ID];
            self.entropy.fill(&mut id);
            let grant = grant(meeting, seat, handler, self.generation, now, id);
            let keys = HandlerKeys::derive(secrets, &meeting.id, &handler.id);
            convert::media_server(handler, keys.current.seal(&grant))
        };
        meeting.handlers.iter().map(issue).collect()
    }
}

/// What a seat is granted at a handler.
fn grant(
    meeting: &Meeting,
    seat: &Seat,
    handler: &HandlerInfo,
    generation: u64,
    now: Wall,
    id: [u8; GRANT_ID],
) -> MediaGrant {
    let MediaRights { send_audio, send_video, receive } = seat.role.media_rights();
    MediaGrant {
        meeting_id: meeting.id.to_string(),
        participant_id: seat.participant.to_string(),
        user_id: seat.user.clone(),
        epoch: seat.epoch,
        may_send_audio: send_audio,
        may_send_video: send_video,
        may_receive: receive,
        mute_epoch: seat.mutes.epoch,
        issued_at_ms: now.as_millis(),
        expires_at_ms: now.as_millis() + limits::GRANT.as_millis() as u64,
        handler_id: handler.id.clone(),
        generation,
        grant_id: Bytes::copy_from_slice(&id),
    }
}
