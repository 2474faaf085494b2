//! Which speakers are forwarded: the loudest few, without decoding anything.
//!
//! A participant that becomes louder than a selected one replaces it only after it stayed louder for a while, so that
//! short noises do not cut a speaker. A user with several seats takes one place.

use std::collections::HashMap;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::audio::SILENCE;

/// Speakers that are forwarded at once.
pub(crate) const SPEAKERS: usize = 8;
/// Everything louder than this level counts the same, so that shouting wins nothing.
const LOUDEST: u8 = 20;
/// The time over which loudness is smoothed.
const SMOOTHING: Duration = Duration::from_millis(300);
/// How long a louder participant must stay louder, and how long a silent speaker keeps its place.
const HYSTERESIS: Duration = Duration::from_millis(500);
/// Shorter payloads are comfort noise.
const SHORTEST_SPEECH: usize = 8;

#[derive(Clone, Debug)]
struct Speaker {
    user: String,
    /// 127 minus the level: 0 is silence.
    loudness: f32,
    heard: Tick,
    /// The last packet that was not silence.
    spoke: Option<Tick>,
    /// Since when it is louder than the one whose place it would take.
    louder_since: Option<Tick>,
    selected: bool,
}

/// A packet as selection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) level: u8,
    pub(crate) payload: usize,
    pub(crate) at: Tick,
}

impl Heard {
    fn loudness(self) -> f32 {
        if self.payload < SHORTEST_SPEECH || self.level >= SILENCE {
            return 0.0;
        }
        f32::from(SILENCE - self.level.max(LOUDEST))
    }
}

impl Speaker {
    /// The loudness at a time, as if silence followed the last packet.
    fn loudness_at(&self, now: Tick) -> f32 {
        self.loudness * (-now.since(self.heard).as_secs_f32() / SMOOTHING.as_secs_f32()).exp()
    }

    fn is_silent(&self, now: Tick) -> bool {
        self.spoke.is_none_or(|spoke| now.since(spoke) >= HYSTERESIS)
    }
}

/// The speakers of a meeting.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    most: usize,
    speakers: HashMap<Id, Speaker>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { most: SPEAKERS, speakers: HashMap::new() }
    }
}

impl Selection {
    /// Takes a packet of a participant into account, and returns whether it is forwarded.
    pub(crate) fn hear(&mut self, who: Id, user: &str, packet: Heard) -> bool {
        let loudness = packet.loudness();
        let speaker = self.speakers.entry(who).or_insert_with(|| Speaker {
            user: user.to_owned(),
            loudness,
            heard: packet.at,
            spoke: None,
            louder_since: None,
            selected: false,
        });
        let weight = (-packet.at.since(speaker.heard).as_secs_f32() / SMOOTHING.as_secs_f32()).exp();
        speaker.loudness = speaker.loudness * weight + loudness * (1.0 - weight);
        speaker.heard = packet.at;
        if loudness > 0.0 {
            speaker.spoke = Some(packet.at);
        }
        if speaker.selected || loudness == 0.0 {
            return speaker.selected;
        }
        self.challenge(who, packet.at)
    }

    /// Gives a participant that speaks a place, if there is one or if it has been louder for long enough.
    fn challenge(&mut self, who: Id, now: Tick) -> bool {
        let Some(challenger) = self.speakers.get(&who) else { return false };
        let (user, loudness) = (challenger.user.clone(), challenger.loudness_at(now));
        let selected = || self.speakers.iter().filter(|(_, speaker)| speaker.selected);
        let same_user = selected().find(|(_, speaker)| speaker.user == user).map(|(id, _)| *id);
        let rival = match same_user {
            None if selected().count() < self.most => None,
            None => selected()
                .min_by(|(_, a), (_, b)| a.loudness_at(now).total_cmp(&b.loudness_at(now)))
                .map(|(id, _)| *id),
            same => same,
        };
        let wins = rival.and_then(|rival| self.speakers.get(&rival)).map_or(Some(true), |rival| {
            (rival.is_silent(now) || loudness > rival.loudness_at(now)).then(|| rival.is_silent(now))
        });
        let Some(challenger) = self.speakers.get_mut(&who) else { return false };
        let Some(at_once) = wins else {
            challenger.louder_since = None;
            return false;
        };
        let since = *challenger.louder_since.get_or_insert(now);
        if !at_once && now.since(since) < HYSTERESIS {
            return false;
        }
        challenger.selected = true;
        challenger.louder_since = None;
        if let Some(rival) = rival.and_then(|rival| self.speakers.get_mut(&rival)) {
            rival.selected = false;
        }
        true
    }

    /// Removes a participant that left, or that may not speak.
    pub(crate) fn remove(&mut self, who: Id) {
        self.speakers.remove(&who);
    }

    /// Who speaks now, the loudest first, with levels.
    pub(crate) fn order(&self, now: Tick) -> Vec<(Id, u8)> {
        let mut order: Vec<(Id, f32)> = self
            .speakers
            .iter()
            .filter(|(_, speaker)| speaker.selected && !speaker.is_silent(now))
            .map(|(id, speaker)| (*id, speaker.loudness_at(now)))
            .collect();
        // Equal loudness keeps one order, so that it is not announced again and again.
        order.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        order.into_iter().map(|(id, loudness)| (id, SILENCE - loudness as u8)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    fn id(n: u8) -> Id {
        Id::parse(&format!("018bcfe5-6801-7000-8000-0000000000{n:02x}")).unwrap()
    }

    fn hear(selection: &mut Selection, n: u8, level: u8, millis: u64) -> bool {
        selection.hear(id(n), &format!("u{n}"), Heard { level, payload: 40, at: at(millis) })
    }

    #[test]
    fn every_speaker_is_forwarded_while_there_are_places() {
        let mut selection = Selection::default();
        for n in 0..8 {
            assert!(hear(&mut selection, n, 60, 0));
        }
        assert!(!hear(&mut selection, 8, 60, 1), "the ninth is not louder");
    }

    #[test]
    fn a_louder_participant_takes_a_place_after_half_a_second() {
        let mut selection = Selection { most: 1, ..Selection::default() };
        let mut first = None;
        for millis in (0..2_000).step_by(20) {
            hear(&mut selection, 1, 60, millis);
            if hear(&mut selection, 2, 30, millis) {
                first.get_or_insert(millis);
            }
        }
        assert_eq!(first, Some(500));
        assert!(!hear(&mut selection, 1, 60, 2_000), "the other lost its place");
    }

    #[test]
    fn a_short_noise_does_not_cut_a_speaker() {
        let mut selection = Selection { most: 1, ..Selection::default() };
        for millis in (0..2_000).step_by(20) {
            assert!(hear(&mut selection, 1, 50, millis));
            if millis % 600 < 300 {
                assert!(!hear(&mut selection, 2, 20, millis), "at {millis}");
            } else {
                assert!(!hear(&mut selection, 2, 127, millis), "at {millis}");
            }
        }
    }

    #[test]
    fn a_speaker_that_stopped_gives_its_place_at_once() {
        let mut selection = Selection { most: 1, ..Selection::default() };
        assert!(hear(&mut selection, 1, 30, 0));
        assert!(!hear(&mut selection, 2, 90, 400));
        assert!(hear(&mut selection, 2, 90, 500), "silent for half a second");
    }

    #[test]
    fn a_user_with_two_seats_takes_one_place() {
        let mut selection = Selection::default();
        let packet = |millis| Heard { level: 40, payload: 40, at: at(millis) };
        assert!(selection.hear(id(1), "bob", packet(0)));
        assert!(!selection.hear(id(2), "bob", packet(1)), "there are places, but not for bob");
        assert!(selection.hear(id(3), "eve", packet(2)));
    }

    #[test]
    fn comfort_noise_and_silence_never_take_a_place() {
        let mut selection = Selection::default();
        let short = Heard { level: 20, payload: 7, at: at(0) };
        assert!(!selection.hear(id(1), "bob", short));
        assert!(!hear(&mut selection, 2, SILENCE, 0));
        assert!(selection.order(at(0)).is_empty());
    }

    #[test]
    fn the_order_is_by_loudness_and_shouting_does_not_help() {
        let mut selection = Selection::default();
        for millis in [0, 20, 40] {
            hear(&mut selection, 3, 0, millis);
            hear(&mut selection, 2, 20, millis);
            hear(&mut selection, 1, 70, millis);
        }
        let order: Vec<Id> = selection.order(at(40)).into_iter().map(|(id, _)| id).collect();
        assert_eq!(order, [id(2), id(3), id(1)], "20 and 0 are equal: the lower id is first");
        assert_eq!(selection.order(at(40))[0].1, 20);
        selection.remove(id(2));
        assert_eq!(selection.order(at(40)).len(), 2);
        assert!(selection.order(at(600)).is_empty());
    }
}
