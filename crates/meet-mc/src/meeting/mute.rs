//! Mutes. A participant's own mutes are published; a host's mutes are also enforced by the media handlers.

use tenure_meet_wire::Id;

use crate::meeting::request::{find_seat, require_host};
use crate::meeting::{
    Change, DirectMessage, Effect, Effects, Event, Meeting, Mutes, Now, Refusal, Role, Seat, UnmuteRequest,
    UserRecord, Write, limits, user,
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
    let target = find_seat(meeting, participant)?;
    let muted = audio || video;
    let record = UserRecord {
        audio_muted: audio,
        video_muted: video,
        muted_by: muted.then(|| by.user.clone()),
        mute_reason: if muted { reason.to_owned() } else { String::new() },
        ..user::record(meeting, &target.user)
    };
    apply_mutes(meeting, by, target, record, Vec::new())
}

/// Sets the host mutes of a user, and has the handlers enforce them.
fn apply_mutes(
    meeting: &Meeting,
    by: Seat,
    target: &Seat,
    record: UserRecord,
    more: Vec<Effect>,
) -> Result<Effects, Refusal> {
    let lifted = !(record.audio_muted && record.video_muted);
    let admitted = record.admitted || (target.role == Role::Guest && lifted);
    let muted = record.audio_muted || record.video_muted;
    let record = UserRecord { admitted, ..record };
    let (mut changes, enforced) = set_user_mutes(meeting, &by, &target.user, record, meeting.mute_epoch + 1)?;
    changes.extend(user::guests_enter_muted(meeting, target.role).filter(|_| muted));
    if by.user != target.user {
        changes.push(Change::Seat(Box::new(by)));
    }
    let then = [vec![Effect::Accept], enforced, more].concat();
    Ok(Effects::new(Write::Sync, changes, then))
}

/// Sets the host mutes of all seats of a user, now and later ones, with this epoch. The request's number of `by` is
/// kept if it is one of these seats.
pub(super) fn set_user_mutes(
    meeting: &Meeting,
    by: &Seat,
    user: &str,
    record: UserRecord,
    epoch: u64,
) -> Result<(Vec<Change>, Vec<Effect>), Refusal> {
    let mut changes = vec![Change::MuteEpoch(epoch)];
    changes.extend(user::set_record(meeting, user, record.clone())?);
    let mut then = Vec::new();
    for seat in user::seats_of(meeting, user) {
        let seat = if seat.participant == by.participant { by } else { seat };
        let mutes = Mutes {
            audio_host: record.audio_muted,
            video_host: record.video_muted,
            by: record.muted_by.clone(),
            reason: record.mute_reason.clone(),
            epoch,
            ..seat.mutes.clone()
        };
        // A request is closed once nothing that it asks for is muted.
        let still_muted = |request: &UnmuteRequest| {
            (request.audio && record.audio_muted) || (request.video && record.video_muted)
        };
        let unmute_request = seat.unmute_request.filter(still_muted);
        let (participant, by) = (seat.participant, Some(by.participant));
        then.push(Effect::EnforceMute { participant, mutes: mutes.clone(), by });
        let seat = Seat { mutes, unmute_request, ..seat.clone() };
        changes.push(muted(&seat));
        changes.push(Change::Seat(Box::new(seat)));
    }
    Ok((changes, then))
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
    let target = find_seat(meeting, participant)?;
    let target = if participant == by.participant { by.clone() } else { target.clone() };
    let open = target.unmute_request.filter(|request| now.tick < request.until);
    let request = open.ok_or(Refusal::NotFound("the participant has no open unmute request"))?;
    let (audio, video) = (audio && request.audio, video && request.video);
    let message = DirectMessage::UnmuteAnswered { participant, audio, video };
    let send = Effect::Send { participant, message };
    if !(audio || video) {
        let target = Seat { unmute_request: None, ..target };
        let mut changes = vec![Change::Seat(Box::new(target))];
        if by.participant != participant {
            changes.push(Change::Seat(Box::new(by)));
        }
        return Ok(Effects::new(Write::Async, changes, vec![Effect::Accept, send]));
    }
    let (audio_muted, video_muted) = (target.mutes.audio_host && !audio, target.mutes.video_host && !video);
    let still = audio_muted || video_muted;
    let record = UserRecord {
        audio_muted,
        video_muted,
        muted_by: target.mutes.by.clone().filter(|_| still),
        mute_reason: if still { target.mutes.reason.clone() } else { String::new() },
        ..user::record(meeting, &target.user)
    };
    let mut effects = apply_mutes(meeting, by, &target, record, vec![send])?;
    for change in &mut effects.changes {
        if let Change::Seat(seat) = change
            && seat.participant == participant
        {
            seat.unmute_request = None;
        }
    }
    Ok(effects)
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
