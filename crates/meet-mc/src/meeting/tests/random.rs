//! Random sequences of inputs, and invariants that hold after each.

use super::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

fn random_input(fixture: &mut Fixture, dice: &mut Dice, welcomes: &[Welcome]) -> Input {
    let users = ["ada", "bob", "cyd", "dan"];
    let roles = [Role::Host, Role::Participant, Role::Guest];
    if welcomes.is_empty() || dice.roll(6) == 0 {
        let (user, role) = (users[dice.roll(4)], roles[dice.roll(3)]);
        return Input::Join(Box::new(fixture.new_join(user, role)));
    }
    let known = &welcomes[dice.roll(welcomes.len())];
    let (participant, epoch) = (known.seat.participant, known.seat.epoch);
    let other = welcomes[dice.roll(welcomes.len())].seat.participant;
    let (audio, video) = (dice.roll(2) == 0, dice.roll(2) == 0);
    let request = match dice.roll(14) {
        0 => return Input::Join(Box::new(fixture.resume_join(known))),
        1 => return Input::Disconnected { participant, epoch },
        2 => {
            fixture.advance(Duration::from_secs(dice.roll(25) as u64));
            return Input::Timer;
        }
        3 => Request::Leave,
        4 => Request::Mute { audio, video },
        5 => Request::HostMute { participant: other, audio, video, reason: String::new() },
        6 => Request::RequestUnmute { audio, video },
        7 => Request::AnswerUnmute { participant: other, audio, video },
        8 => Request::Publish {
            stream_id: dice.roll(20) as u32,
            kind: StreamKind::Audio,
            metadata: String::new(),
        },
        9 => Request::Kick { participant: other },
        10 => Request::LiftBan { user: users[dice.roll(4)].to_owned() },
        11 => Request::Admit { participants: vec![other], all: false },
        _ => Request::Chat { text: "hi".to_owned() },
    };
    Input::Request { participant, epoch, seq: 1 + dice.roll(40) as u64, request }
}

#[test]
fn random_inputs_keep_the_log_gapless_seats_unique_and_mutes_with_hosts() {
    for seed in 0..60 {
        let (mut fixture, mut dice) = (Fixture::new(), Dice(seed));
        fixture.meeting.settings.max_participants = 6;
        let mut welcomes: Vec<Welcome> = Vec::new();
        for step in 0..300 {
            let input = random_input(&mut fixture, &mut dice, &welcomes);
            let before = fixture.meeting.clone();
            let Ok(effects) = fixture.apply(&input) else {
                assert_eq!(fixture.meeting, before, "a refusal changes nothing");
                continue;
            };
            welcomes.extend(effects.welcome.as_deref().cloned());
            check_invariants(&before, &fixture.meeting, &effects, &input);
            if fixture.meeting.phase == Phase::Complete {
                break;
            }
            assert!(effects.changes.len() <= 64, "step {step} of seed {seed} is too large for one write");
        }
    }
}

fn check_invariants(before: &Meeting, after: &Meeting, effects: &Effects, input: &Input) {
    let published = effects.events().count() as u64;
    assert_eq!(after.log.last(), before.log.last() + published, "{input:?}");
    let seqs: Vec<u64> = after.log.events().map(|entry| entry.seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let seated = after.seats.values().filter(|seat| seat.role != Role::Host);
    assert!(seated.clone().count() <= 6, "only hosts enter a full meeting");
    let banned = |seat: &Seat| after.users.get(&seat.user).is_some_and(|record| record.ban.is_some());
    assert!(!seated.clone().any(banned), "{input:?} seated a banned user");
    assert!(after.seats.values().all(|seat| seat.mutes.epoch >= 1));
    let mut bound: Vec<Id> = after.seats.values().map(|seat| seat.binding.correlation).collect();
    bound.sort_unstable();
    bound.dedup();
    assert_eq!(bound.len(), after.seats.len(), "two seats share a binding");
    for (participant, seat) in &after.seats {
        let Some(was) = before.seats.get(participant) else { continue };
        assert!(seat.epoch >= was.epoch && seat.applied.number() >= was.applied.number());
        assert!((&seat.user, seat.role) == (&was.user, was.role));
        let lifted = (was.mutes.audio_host && !seat.mutes.audio_host)
            || (was.mutes.video_host && !seat.mutes.video_host);
        if lifted {
            let Input::Request { participant: by, .. } = input else { panic!("{input:?} lifted a mute") };
            assert_eq!(before.seats[by].role, Role::Host);
            assert!(seat.mutes.epoch > was.mutes.epoch && effects.write == Write::Sync);
        }
    }
}
