//! Long random walks: whatever comes in whatever order, this holds.

use super::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

fn anything(table: &mut Table, dice: &mut Dice, welcomes: &[Welcome]) -> Event {
    let users = ["ada", "bob", "cyd", "dan"];
    let roles = [Role::Host, Role::Participant, Role::Guest];
    if welcomes.is_empty() || dice.roll(6) == 0 {
        let (user, role) = (users[dice.roll(4)], roles[dice.roll(3)]);
        return Event::Join(Box::new(table.joining(user, role)));
    }
    let known = &welcomes[dice.roll(welcomes.len())];
    let (participant, epoch) = (known.seat.participant, known.seat.epoch);
    let other = welcomes[dice.roll(welcomes.len())].seat.participant;
    let (audio, video) = (dice.roll(2) == 0, dice.roll(2) == 0);
    let request = match dice.roll(12) {
        0 => return Event::Join(Box::new(table.returning(known))),
        1 => return Event::Closed { participant, epoch },
        2 => {
            table.pass(Duration::from_secs(dice.roll(25) as u64));
            return Event::Time;
        }
        3 => Request::Leave,
        4 => Request::Mute { audio, video },
        5 => Request::HostMute { participant: other, audio, video, reason: String::new() },
        6 => Request::AskUnmute { audio, video },
        7 => Request::AnswerUnmute { participant: other, audio, video },
        8 => Request::Publish {
            stream_id: dice.roll(20) as u32,
            kind: StreamKind::Audio,
            metadata: String::new(),
        },
        9 => Request::Kick { participant: other },
        _ => Request::Chat { text: "hi".to_owned() },
    };
    Event::Asked { participant, epoch, seq: 1 + dice.roll(40) as u64, request }
}

#[test]
fn whatever_comes_the_log_has_no_gap_no_seat_doubles_and_only_hosts_lift_mutes() {
    for seed in 0..60 {
        let (mut table, mut dice) = (Table::new(), Dice(seed));
        table.meeting.settings.max_participants = 6;
        let mut welcomes: Vec<Welcome> = Vec::new();
        for step in 0..300 {
            let event = anything(&mut table, &mut dice, &welcomes);
            let before = table.meeting.clone();
            let Ok(effects) = table.perform(&event) else {
                assert_eq!(table.meeting, before, "a refusal changes nothing");
                continue;
            };
            welcomes.extend(effects.then.iter().filter_map(|effect| match effect {
                Effect::Welcome(welcome) => Some((**welcome).clone()),
                _ => None,
            }));
            hold(&before, &table.meeting, &effects, &event);
            if table.meeting.phase == Phase::Complete {
                break;
            }
            assert!(effects.changes.len() <= 64, "step {step} of seed {seed} is too large for one write");
        }
    }
}

fn hold(before: &Meeting, after: &Meeting, effects: &Effects, event: &Event) {
    let told = effects.happenings().count() as u64;
    assert_eq!(after.journal.last(), before.journal.last() + told, "{event:?}");
    let seqs: Vec<u64> = after.journal.entries().map(|entry| entry.seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert!(after.seats.len() <= 6);
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
            let Event::Asked { participant: by, .. } = event else { panic!("{event:?} lifted a mute") };
            assert_eq!(before.seats[by].role, Role::Host);
            assert!(seat.mutes.epoch > was.mutes.epoch && effects.write == Write::Sync);
        }
    }
}
