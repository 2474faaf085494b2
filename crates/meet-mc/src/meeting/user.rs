//! What hosts decided about users. It holds for the life of the meeting: joining again, another seat or another
//! controller does not lift it.

use tenure_lease::Wall;
use tenure_lease::breaks::{Break, broken};

use crate::meeting::{Change, Meeting, Refusal, Role, Seat, limits};

/// What hosts decided about one user.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UserRecord {
    /// A host muted the microphone.
    pub audio_muted: bool,
    /// A host muted the camera.
    pub video_muted: bool,
    /// The user that muted it last as host.
    pub muted_by: Option<String>,
    /// The host's reason.
    pub mute_reason: String,
    /// The user was kicked and cannot join.
    pub ban: Option<Ban>,
    /// A host admitted or unmuted the user: it neither waits nor enters muted.
    pub admitted: bool,
}

/// The ban of a kicked user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ban {
    /// The name under which the user was kicked.
    pub name: String,
    /// When it was kicked.
    pub at: Wall,
}

impl UserRecord {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn is_muted(&self) -> bool {
        self.audio_muted || self.video_muted
    }

    /// How much it matters to keep the record: an admission can be repeated, a ban must not be forgotten.
    fn weight(&self) -> u8 {
        match (self.ban.is_some(), self.is_muted()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

/// The record of a user; empty if hosts decided nothing.
pub(super) fn record(meeting: &Meeting, user: &str) -> UserRecord {
    if broken(Break::ForgetsHostDecisions) {
        return UserRecord::default();
    }
    meeting.users.get(user).cloned().unwrap_or_default()
}

/// The changes that set a user's record. If there are too many records, a less important one is dropped.
pub(super) fn set_record(meeting: &Meeting, user: &str, record: UserRecord) -> Result<Vec<Change>, Refusal> {
    let mut changes = Vec::new();
    let known = meeting.users.contains_key(user);
    if !known && record.is_empty() {
        return Ok(changes);
    }
    if !known && meeting.users.len() >= limits::USERS {
        let least = meeting.users.iter().min_by_key(|(_, known)| known.weight());
        let least = least.filter(|(_, known)| known.weight() < record.weight());
        let (dropped, _) =
            least.ok_or(Refusal::RateLimited("hosts decided about too many users of this meeting"))?;
        changes.push(Change::User { user: dropped.clone(), record: UserRecord::default() });
    }
    changes.push(Change::User { user: user.to_owned(), record });
    Ok(changes)
}

/// The host mutes of a new seat: those of its user. After a host muted or kicked a guest, other guests enter muted,
/// since the same person may come back as another guest.
pub(super) fn mutes_at_join(meeting: &Meeting, user: &str, role: Role) -> UserRecord {
    let record = record(meeting, user);
    if role == Role::Guest && meeting.guests_enter_muted && !record.admitted && !record.is_muted() {
        let mute_reason = "guests enter muted".to_owned();
        return UserRecord { audio_muted: true, video_muted: true, mute_reason, ..record };
    }
    record
}

/// Whether a seat is muted because guests enter muted: no host muted it.
pub(super) fn entered_muted(meeting: &Meeting, seat: &Seat) -> bool {
    (seat.mutes.audio_host || seat.mutes.video_host) && !record(meeting, &seat.user).is_muted()
}

/// From now on guests enter muted, if the user that was muted or kicked is a guest.
pub(super) fn guests_enter_muted(meeting: &Meeting, role: Role) -> Option<Change> {
    (role == Role::Guest && !meeting.guests_enter_muted).then_some(Change::GuestsEnterMuted)
}

/// The seats of a user, in join order.
pub(super) fn seats_of<'a>(meeting: &'a Meeting, user: &'a str) -> impl Iterator<Item = &'a Seat> {
    meeting.seats.values().filter(move |seat| seat.user == user)
}

/// The banned users, the last banned first.
pub(crate) fn banned(meeting: &Meeting) -> Vec<(&str, &Ban)> {
    let mut banned: Vec<(&str, &Ban)> = meeting
        .users
        .iter()
        .filter_map(|(user, record)| Some((user.as_str(), record.ban.as_ref()?)))
        .collect();
    banned.sort_by_key(|(_, ban)| std::cmp::Reverse(ban.at));
    banned
}
