//! Mutes. A participant's own mutes are published; a host's mutes are also enforced by the media handlers.

use tenure_meet_wire::Id;

use crate::meeting::request::{find_seat, require_host};
use crate::meeting::{
    Change, DirectMessage, Effect, Effects, Event, Meeting, Mutes, Now, Refusal, Seat, UnmuteRequest, Write,
    limits,
};

fn muted(seat: &Seat) -> Change {
    Change::Event(Event::Muted { participant: seat.participant, mutes: seat.mutes.clone() })
}

/// The participant's own microphone and camera. An unchanged mute is not published again.
pub(super) fn mute_self(seat: Seat, audio: bool, video: bool) -> Effects {
    let same = (seat.mutes.audio_self, seat.mutes.video_self) == (audio, video);
    let mutes = Mutes { audio_self: audio, video_self: video, ..seat.mutes.clone() };
    let seat = Seat { mutes, ..seat };
    let mut changes = vec![Change::Seat(Box::new(seat.clone()))];
    if !same {
        changes.push(muted(&seat));
    }
    Effects::new(Write::Async, changes, vec![Effect::Accept])
}

/// A host mutes a participant or lifts its mute. An unchanged mute is enforced again: the host may repeat it because
/// a handler still forwards the participant.
pub(super) fn mute_by_host(
    meeting: &Meeting,
    by: Seat,
    participant: Id,
    (audio, video): (bool, bool),
    reason: &str,
) -> Result<Effects, Refusal> {
    require_host(&by)?;
    let target = if participant == by.participant { &by } else { find_seat(meeting, participant)? };
    let epoch = meeting.mute_epoch + 1;
    let mutes = Mutes {
        audio_host: audio,
        video_host: video,
        by: (audio || video).then(|| by.user.clone()),
        reason: if audio || video { reason.to_owned() } else { String::new() },
        epoch,
        ..target.mutes.clone()
    };
    // A request is closed once nothing that it asks for is muted.
    let still_muted = |request: &UnmuteRequest| (request.audio && audio) || (request.video && video);
    let unmute_request = target.unmute_request.filter(still_muted);
    let target = Seat { mutes, unmute_request, ..target.clone() };
    Ok(enforce(by, target, epoch, Vec::new()))
}

/// The changes and effects of a mute that handlers must enforce.
fn enforce(by: Seat, target: Seat, epoch: u64, more: Vec<Effect>) -> Effects {
    let order = Effect::EnforceMute {
        participant: target.participant,
        mutes: target.mutes.clone(),
        by: by.participant,
    };
    let event = muted(&target);
    let mut changes = vec![Change::MuteEpoch(epoch)];
    if by.participant != target.participant {
        changes.push(Change::Seat(Box::new(by)));
    }
    changes.extend([Change::Seat(Box::new(target)), event]);
    let then = [vec![Effect::Accept, order], more].concat();
    Effects::new(Write::Sync, changes, then)
}

/// A participant muted by a host asks to be unmuted. One request at a time.
pub(super) fn request_unmute(
    meeting: &Meeting,
    seat: Seat,
    audio: bool,
    video: bool,
    now: Now,
) -> Result<Effects, Refusal> {
    if !(audio || video) {
        return Err(Refusal::Invalid("an unmute request needs audio, video or both"));
    }
    let muted = (audio && seat.mutes.audio_host) || (video && seat.mutes.video_host);
    if !muted {
        return Err(Refusal::Conflict("not muted by a host"));
    }
    if seat.unmute_request.is_some_and(|request| now.tick < request.until) {
        return Err(Refusal::RateLimited("an unmute request is already open"));
    }
    let message = DirectMessage::UnmuteRequested {
        participant: seat.participant,
        audio,
        video,
        expires_in_ms: limits::UNMUTE_REQUEST.as_millis() as u32,
    };
    let send = |host: &Seat| Effect::Send { participant: host.participant, message: message.clone() };
    let then = [Effect::Accept].into_iter().chain(meeting.hosts().map(send)).collect();
    let unmute_request = Some(UnmuteRequest { audio, video, until: now.tick + limits::UNMUTE_REQUEST });
    let changes = vec![Change::Seat(Box::new(Seat { unmute_request, ..seat }))];
    Ok(Effects::new(Write::Async, changes, then))
}

/// A host answers an unmute request.
pub(super) fn answer_unmute(
    meeting: &Meeting,
    by: Seat,
    participant: Id,
    (audio, video): (bool, bool),
    now: Now,
) -> Result<Effects, Refusal> {
    require_host(&by)?;
    let target = if participant == by.participant { &by } else { find_seat(meeting, participant)? };
    let open = target.unmute_request.filter(|request| now.tick < request.until);
    let request = open.ok_or(Refusal::NotFound("the participant has no open unmute request"))?;
    let (audio, video) = (audio && request.audio, video && request.video);
    let message = DirectMessage::UnmuteAnswered { participant, audio, video };
    let send = Effect::Send { participant, message };
    if !(audio || video) {
        let target = Seat { unmute_request: None, ..target.clone() };
        let mut changes = vec![Change::Seat(Box::new(target))];
        if by.participant != participant {
            changes.push(Change::Seat(Box::new(by)));
        }
        return Ok(Effects::new(Write::Async, changes, vec![Effect::Accept, send]));
    }
    let epoch = meeting.mute_epoch + 1;
    let (audio_host, video_host) = (target.mutes.audio_host && !audio, target.mutes.video_host && !video);
    let still = audio_host || video_host;
    let mutes = Mutes {
        audio_host,
        video_host,
        by: target.mutes.by.clone().filter(|_| still),
        reason: if still { target.mutes.reason.clone() } else { String::new() },
        epoch,
        ..target.mutes.clone()
    };
    let target = Seat { mutes, unmute_request: None, ..target.clone() };
    Ok(enforce(by, target, epoch, vec![send]))
}

/// Reports to the host that requested a mute, unless the mute was changed since.
pub(super) fn report_enforced(
    meeting: &Meeting,
    participant: Id,
    epoch: u64,
    by: Id,
    missing: &[String],
) -> Effects {
    let current = meeting.seats.get(&participant).is_some_and(|seat| seat.mutes.epoch == epoch);
    if !current || !meeting.seats.contains_key(&by) {
        return Effects::none();
    }
    let message = DirectMessage::MuteEnforced { participant, epoch, missing: missing.to_vec() };
    Effects::new(Write::None, Vec::new(), vec![Effect::Send { participant: by, message }])
}
