//! Mutes: one's own, which are told, and those of hosts, which are enforced.

use meet_wire::Id;

use crate::meeting::apply::{host, other};
use crate::meeting::{
    Ask, Change, Effect, Effects, Happening, Meeting, Mutes, Now, Refusal, Seat, Telling, Write, limits,
};

fn happened(seat: &Seat) -> Change {
    Change::Happened(Happening::Muted { participant: seat.participant, mutes: seat.mutes.clone() })
}

/// One's own microphone and camera. What is the same as before is not told again.
pub(super) fn own(seat: Seat, audio: bool, video: bool) -> Effects {
    let same = (seat.mutes.audio_self, seat.mutes.video_self) == (audio, video);
    let mutes = Mutes { audio_self: audio, video_self: video, ..seat.mutes.clone() };
    let seat = Seat { mutes, ..seat };
    let mut changes = vec![Change::Seat(Box::new(seat.clone()))];
    if !same {
        changes.push(happened(&seat));
    }
    Effects::new(Write::Async, changes, vec![Effect::Accept])
}

/// A host mutes somebody, or takes that back. It is written before anybody is told, and enforced again even if nothing changes: the host may
/// ask again because somebody can still be heard.
pub(super) fn by_host(
    meeting: &Meeting,
    by: Seat,
    participant: Id,
    (audio, video): (bool, bool),
    reason: &str,
) -> Result<Effects, Refusal> {
    host(&by)?;
    let target = if participant == by.participant { &by } else { other(meeting, participant)? };
    let epoch = meeting.mute_epoch + 1;
    let mutes = Mutes {
        audio_host: audio,
        video_host: video,
        by: (audio || video).then(|| by.user.clone()),
        reason: if audio || video { reason.to_owned() } else { String::new() },
        epoch,
        ..target.mutes.clone()
    };
    // What is not muted any more need not be asked for.
    let ask = target.ask.filter(|ask| (ask.audio && audio) || (ask.video && video));
    let target = Seat { mutes, ask, ..target.clone() };
    Ok(enforce(by, target, epoch, Vec::new()))
}

/// The changes of a mute that is enforced from now on.
fn enforce(by: Seat, target: Seat, epoch: u64, tell: Vec<Effect>) -> Effects {
    let order =
        Effect::Enforce { participant: target.participant, mutes: target.mutes.clone(), by: by.participant };
    let told = happened(&target);
    let mut changes = vec![Change::MuteEpoch(epoch)];
    if by.participant != target.participant {
        changes.push(Change::Seat(Box::new(by)));
    }
    changes.extend([Change::Seat(Box::new(target)), told]);
    let then = [vec![Effect::Accept, order], tell].concat();
    Effects::new(Write::Sync, changes, then)
}

/// Somebody who was muted by a host wants that taken back. One wish at a time.
pub(super) fn ask(
    meeting: &Meeting,
    seat: Seat,
    audio: bool,
    video: bool,
    now: Now,
) -> Result<Effects, Refusal> {
    if !(audio || video) {
        return Err(Refusal::Invalid("ask for audio, for video or for both"));
    }
    let muted = (audio && seat.mutes.audio_host) || (video && seat.mutes.video_host);
    if !muted {
        return Err(Refusal::Conflict("no host has muted that"));
    }
    if seat.ask.is_some_and(|ask| now.tick < ask.until) {
        return Err(Refusal::TooOften("there is an open request already"));
    }
    let telling = Telling::AskedToUnmute {
        participant: seat.participant,
        audio,
        video,
        expires_in_ms: limits::ASK.as_millis() as u32,
    };
    let tell = |host: &Seat| Effect::Tell { participant: host.participant, telling: telling.clone() };
    let then = [Effect::Accept].into_iter().chain(meeting.hosts().map(tell)).collect();
    let ask = Some(Ask { audio, video, until: now.tick + limits::ASK });
    Ok(Effects::new(Write::Async, vec![Change::Seat(Box::new(Seat { ask, ..seat }))], then))
}

/// A host answers such a wish.
pub(super) fn answer(
    meeting: &Meeting,
    by: Seat,
    participant: Id,
    (audio, video): (bool, bool),
    now: Now,
) -> Result<Effects, Refusal> {
    host(&by)?;
    let target = if participant == by.participant { &by } else { other(meeting, participant)? };
    let open = target.ask.filter(|ask| now.tick < ask.until);
    let ask = open.ok_or(Refusal::NotFound("that participant has no open request"))?;
    let (audio, video) = (audio && ask.audio, video && ask.video);
    let tell = Effect::Tell { participant, telling: Telling::UnmuteAnswered { participant, audio, video } };
    if !(audio || video) {
        let target = Seat { ask: None, ..target.clone() };
        let mut changes = vec![Change::Seat(Box::new(target))];
        if by.participant != participant {
            changes.push(Change::Seat(Box::new(by)));
        }
        return Ok(Effects::new(Write::Async, changes, vec![Effect::Accept, tell]));
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
    let target = Seat { mutes, ask: None, ..target.clone() };
    Ok(enforce(by, target, epoch, vec![tell]))
}

/// The host who asked is told, unless somebody asked for something else since.
pub(super) fn enforced(
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
    let telling = Telling::Enforced { participant, epoch, missing: missing.to_vec() };
    Effects::new(Write::None, Vec::new(), vec![Effect::Tell { participant: by, telling }])
}
