//! Layouts: who is shown, and in which slot.

use super::*;
use crate::meeting::layout::{Assignment, assign};

const GRID: i32 = 1;
const SPEAKER: i32 = 2;

/// Five participants with a camera each; dan also shares a screen. The viewer is the first.
fn meeting() -> (Fixture, Vec<Seat>) {
    let mut fixture = Fixture::new();
    let users = ["me", "ada", "bob", "cyd", "dan"];
    let seats: Vec<Seat> = users.map(|user| *fixture.join(user, Role::Participant).seat).into();
    let publish = |stream_id, kind| Request::Publish { stream_id, kind, metadata: String::new() };
    for seat in &seats {
        fixture.request(seat, publish(1, StreamKind::Audio)).unwrap();
        fixture.request(seat, publish(2, StreamKind::Video)).unwrap();
    }
    fixture.request(&seats[4], publish(3, StreamKind::Screen)).unwrap();
    (fixture, seats)
}

fn shown(fixture: &mut Fixture, kind: i32, config: LayoutConfig, before: &[Assignment]) -> Vec<Assignment> {
    let me = fixture.meeting.seats.values().next().unwrap().clone();
    fixture.request(&me, Request::Subscribe { kind, config, streams: Vec::new() }).unwrap();
    assign(&fixture.meeting, &fixture.meeting.seats[&me.participant], before)
}

fn names(assignments: &[Assignment]) -> Vec<String> {
    let name = |assignment: &Assignment| {
        let screen = if assignment.kind == StreamKind::Screen { "'s screen" } else { "" };
        format!("{} {}{screen}", assignment.slot, assignment.user)
    };
    assignments.iter().map(name).collect()
}

fn speak(fixture: &mut Fixture, seats: &[&Seat]) {
    let participants = seats.iter().map(|seat| seat.participant).collect();
    fixture.apply(&Input::Speakers { participants }).unwrap();
}

#[test]
fn pinned_users_come_first_then_screens_then_speakers_then_the_others() {
    let (mut fixture, seats) = meeting();
    let config = || LayoutConfig { max_streams: 4, ..LayoutConfig::default() };
    let all = shown(&mut fixture, GRID, config(), &[]);
    assert_eq!(names(&all), ["0 dan's screen", "1 ada", "2 bob", "3 cyd"]);
    speak(&mut fixture, &[&seats[3], &seats[2]]);
    let spoken = shown(&mut fixture, SPEAKER, config(), &[]);
    assert_eq!(names(&spoken), ["0 dan's screen", "1 cyd", "2 bob", "3 ada"]);
    let pinned = LayoutConfig { pinned: vec!["bob".to_owned(), "ada".to_owned()], ..config() };
    let pinned = shown(&mut fixture, SPEAKER, pinned, &[]);
    assert_eq!(names(&pinned), ["0 bob", "1 ada", "2 dan's screen", "3 cyd"]);
    let cameras = LayoutConfig { prefer_video: true, max_streams: 2, ..config() };
    assert_eq!(names(&shown(&mut fixture, SPEAKER, cameras, &[])), ["0 cyd", "1 bob"]);
}

#[test]
fn a_layout_shows_neither_excluded_nor_muted_nor_lost_participants_nor_the_viewer() {
    let (mut fixture, seats) = meeting();
    let config = || LayoutConfig { excluded: vec!["dan".to_owned()], ..LayoutConfig::default() };
    fixture.disconnect(&seats[1]);
    let host = fixture.join("host", Role::Host);
    let mute = Request::HostMute {
        participant: seats[2].participant,
        audio: false,
        video: true,
        reason: String::new(),
    };
    fixture.request(&host.seat, mute).unwrap();
    assert_eq!(names(&shown(&mut fixture, GRID, config(), &[])), ["0 cyd"]);
    let itself = LayoutConfig { include_self: true, ..config() };
    assert_eq!(names(&shown(&mut fixture, GRID, itself, &[])), ["0 me", "1 cyd"]);
}

#[test]
fn a_grid_keeps_its_slots_when_speakers_change() {
    let (mut fixture, seats) = meeting();
    let config =
        || LayoutConfig { rows: 1, columns: 2, excluded: vec!["dan".to_owned()], ..LayoutConfig::default() };
    let first = shown(&mut fixture, GRID, config(), &[]);
    assert_eq!(names(&first), ["0 ada", "1 bob"]);
    speak(&mut fixture, &[&seats[2]]);
    let second = shown(&mut fixture, GRID, config(), &first);
    assert_eq!(names(&second), ["0 ada", "1 bob"], "bob speaks in his slot");
    speak(&mut fixture, &[&seats[3]]);
    let third = shown(&mut fixture, GRID, config(), &second);
    assert_eq!(names(&third), ["0 cyd", "1 bob"], "the one that did not speak makes room");
}

#[test]
fn silence_changes_no_speaker_and_unknown_participants_are_ignored() {
    let (mut fixture, seats) = meeting();
    speak(&mut fixture, &[&seats[1]]);
    speak(&mut fixture, &[&seats[2]]);
    let order = vec![seats[2].participant, seats[1].participant];
    assert_eq!(fixture.meeting.speakers, order);
    speak(&mut fixture, &[]);
    fixture.apply(&Input::Speakers { participants: vec![id(999)] }).unwrap();
    assert_eq!(fixture.meeting.speakers, order);
}
