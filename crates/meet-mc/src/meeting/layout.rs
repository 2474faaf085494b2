//! Which streams a layout shows, and in which slots.

use std::cmp::Reverse;

use tenure_meet_wire::Id;
use tenure_meet_wire::signaling::LayoutType;

use crate::meeting::{LayoutConfig, Meeting, Presence, Seat, Stream, StreamKind, limits};

/// A stream in a slot of a layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The slot, from 0.
    pub slot: u32,
    /// The participant that publishes the stream.
    pub participant: Id,
    /// Its user.
    pub user: String,
    /// The stream's number.
    pub stream_id: u32,
    /// The kind of media.
    pub kind: StreamKind,
}

impl Assignment {
    fn shows(&self, other: &Self) -> bool {
        (self.participant, self.stream_id) == (other.participant, other.stream_id)
    }
}

/// The speakers after a report of a media handler, the last that spoke first. A silent participant keeps its place, so
/// that a layout does not change during silence.
pub(super) fn speakers_after(meeting: &Meeting, reported: &[Id]) -> Vec<Id> {
    let mut speakers: Vec<Id> = Vec::new();
    for participant in reported.iter().chain(&meeting.speakers) {
        if meeting.seats.contains_key(participant) && !speakers.contains(participant) {
            speakers.push(*participant);
        }
    }
    speakers.truncate(limits::SPEAKERS);
    speakers
}

/// How many slots a layout has.
fn slots(config: &LayoutConfig) -> usize {
    let grid = config.rows.saturating_mul(config.columns);
    let wanted = [config.max_streams, grid].into_iter().filter(|count| *count > 0).min();
    wanted.map_or(limits::SLOTS_DEFAULT, |count| (count as usize).min(limits::SLOTS))
}

/// Lower is shown first: pinned users, then screens (cameras if the layout prefers them), then the last speakers, then
/// the others in join order.
fn rank(
    meeting: &Meeting,
    config: &LayoutConfig,
    seat: &Seat,
    stream: &Stream,
) -> (usize, bool, Reverse<bool>, usize) {
    let pinned = config.pinned.iter().position(|user| *user == seat.user).unwrap_or(usize::MAX);
    let preferred = (stream.kind == StreamKind::Video) == config.prefer_video;
    let spoke = meeting.speakers.iter().position(|speaker| *speaker == seat.participant);
    (pinned, !preferred, Reverse(spoke.is_some()), spoke.unwrap_or(usize::MAX))
}

/// The streams that a participant's layout shows; empty without a layout. What was shown `before` keeps its slot in a
/// grid; in the other layouts slot 0 is the first by rank.
pub fn assign(meeting: &Meeting, viewer: &Seat, before: &[Assignment]) -> Vec<Assignment> {
    let Some(layout) = &viewer.layout else { return Vec::new() };
    let config = &layout.config;
    let mut candidates = Vec::new();
    for seat in meeting.seats.values() {
        let own = seat.participant == viewer.participant && !config.include_self;
        let hidden = seat.presence != Presence::Connected || seat.mutes.video_host;
        if own || hidden || config.excluded.contains(&seat.user) {
            continue;
        }
        for (stream_id, stream) in &seat.streams {
            let wanted = layout.streams.is_empty() || layout.streams.contains(stream_id);
            if wanted && stream.kind != StreamKind::Audio {
                let (participant, user) = (seat.participant, seat.user.clone());
                let (stream_id, kind) = (*stream_id, stream.kind);
                let assignment = Assignment { slot: 0, participant, user, stream_id, kind };
                candidates.push((rank(meeting, config, seat, stream), assignment));
            }
        }
    }
    // Stable: equal ranks stay in join order.
    candidates.sort_by_key(|(rank, _)| *rank);
    let count = slots(config);
    let chosen: Vec<Assignment> =
        candidates.into_iter().take(count).map(|(_, assignment)| assignment).collect();
    let keeps_slots = ![LayoutType::Speaker, LayoutType::Sidebar].map(i32::from).contains(&layout.kind);
    place(chosen, before, count, keeps_slots)
}

/// Gives each chosen stream a slot: the one that it had, or the first free one.
fn place(chosen: Vec<Assignment>, before: &[Assignment], count: usize, keeps_slots: bool) -> Vec<Assignment> {
    let had = |assignment: &Assignment| {
        let had = before.iter().find(|old| keeps_slots && old.shows(assignment));
        had.map(|old| old.slot).filter(|slot| (*slot as usize) < count)
    };
    let mut free: Vec<u32> = (0..count as u32).collect();
    free.retain(|slot| !chosen.iter().any(|assignment| had(assignment) == Some(*slot)));
    let mut free = free.into_iter();
    let placed = chosen.iter().filter_map(|assignment| {
        let slot = had(assignment).or_else(|| free.next())?;
        Some(Assignment { slot, ..assignment.clone() })
    });
    let mut placed: Vec<Assignment> = placed.collect();
    placed.sort_by_key(|assignment| assignment.slot);
    placed
}
