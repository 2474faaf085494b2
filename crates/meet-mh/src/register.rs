//! What is known of meetings: plain rules, no clock.

use std::collections::HashMap;

use lease::Tick;
use meet_wire::internal::MhRejectionReason;
use meet_wire::{Id, MeetingId};

use crate::limits;

/// What of a participant must not be forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask {
    /// The microphone.
    pub audio: bool,
    /// The camera.
    pub video: bool,
    /// The generation whose owner said so.
    pub generation: u64,
    /// The epoch of that owner's word.
    pub epoch: u64,
}

/// A meeting that somebody registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The generation of its owner: no word of an older one is taken.
    pub generation: u64,
    /// Its controller.
    pub mc_id: String,
    /// Where the controller is.
    pub mc_endpoint: String,
    masks: HashMap<Id, Mask>,
    heard: Tick,
}

/// All meetings of a handler.
#[derive(Clone, Default, Debug)]
pub struct Register {
    meetings: HashMap<MeetingId, Held>,
}

impl Held {
    /// The mask of a participant. Until there is one, nothing of that participant may be forwarded.
    pub fn mask(&self, participant: Id) -> Option<Mask> {
        self.masks.get(&participant).copied()
    }
}

impl Register {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.meetings.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.meetings.is_empty()
    }

    /// A meeting.
    pub fn get(&self, meeting: &MeetingId) -> Option<&Held> {
        self.meetings.get(meeting)
    }

    /// Its owner registers a meeting. Masks that an earlier owner named stay until this one names others.
    pub fn register(
        &mut self,
        meeting: &MeetingId,
        generation: u64,
        (mc_id, mc_endpoint): (&str, &str),
        now: Tick,
    ) -> Result<(), MhRejectionReason> {
        if let Some(held) = self.meetings.get_mut(meeting) {
            if generation < held.generation {
                return Err(MhRejectionReason::StaleGeneration);
            }
            held.generation = generation;
            held.mc_id = mc_id.to_owned();
            held.mc_endpoint = mc_endpoint.to_owned();
            held.heard = now;
            return Ok(());
        }
        if self.meetings.len() >= limits::MEETINGS {
            self.forget(now);
        }
        if self.meetings.len() >= limits::MEETINGS {
            return Err(MhRejectionReason::AtCapacity);
        }
        let (mc_id, mc_endpoint) = (mc_id.to_owned(), mc_endpoint.to_owned());
        let held = Held { generation, mc_id, mc_endpoint, masks: HashMap::new(), heard: now };
        self.meetings.insert(meeting.clone(), held);
        Ok(())
    }

    /// An owner names what is muted of a participant. What is held afterwards, and why it is not what was said.
    pub fn enforce(
        &mut self,
        meeting: &MeetingId,
        participant: Id,
        mask: Mask,
        now: Tick,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        let held = self.meetings.get_mut(meeting).ok_or((0, MhRejectionReason::Unspecified))?;
        let before = held.masks.get(&participant).copied();
        let epoch = before.map_or(0, |before| before.epoch);
        if mask.generation < held.generation {
            return Err((epoch, MhRejectionReason::StaleGeneration));
        }
        // Generations come from the lease, so a greater one is a newer owner, whether it has registered or not.
        held.generation = mask.generation;
        held.heard = now;
        if before.is_some_and(|before| (mask.generation, mask.epoch) < (before.generation, before.epoch)) {
            return Err((epoch, MhRejectionReason::Unspecified));
        }
        if before.is_none() && held.masks.len() >= limits::PARTICIPANTS {
            return Err((0, MhRejectionReason::AtCapacity));
        }
        held.masks.insert(participant, mask);
        Ok(mask.epoch)
    }

    /// Its owner says that a meeting is over. The word of an older owner counts for nothing.
    pub fn release(&mut self, meeting: &MeetingId, generation: u64) -> bool {
        let known = self.meetings.get(meeting).is_some_and(|held| generation >= held.generation);
        if known {
            self.meetings.remove(meeting);
        }
        known
    }

    /// Forgets meetings of which nobody has spoken for a day.
    fn forget(&mut self, now: Tick) {
        self.meetings.retain(|_, held| now.since(held.heard) < limits::FORGET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    fn meeting() -> MeetingId {
        MeetingId::parse("abc").unwrap()
    }

    fn bob() -> Id {
        Id::parse("018bcfe5-6801-7000-8000-000000000000").unwrap()
    }

    fn muted(generation: u64, epoch: u64) -> Mask {
        Mask { audio: true, video: false, generation, epoch }
    }

    #[test]
    fn an_older_owner_is_refused_and_a_newer_one_takes_over_with_the_masks() {
        let mut register = Register::default();
        let mc = |name| (name, "inproc:x");
        assert_eq!(register.register(&meeting(), 5, mc("mc-1"), at(0)), Ok(()));
        assert_eq!(register.enforce(&meeting(), bob(), muted(5, 3), at(0)), Ok(3));
        let stale = Err(MhRejectionReason::StaleGeneration);
        assert_eq!(register.register(&meeting(), 4, mc("mc-0"), at(1)), stale);
        assert_eq!(register.register(&meeting(), 6, mc("mc-2"), at(1)), Ok(()));
        assert_eq!(register.get(&meeting()).unwrap().mc_id, "mc-2");
        assert_eq!(register.get(&meeting()).unwrap().mask(bob()), Some(muted(5, 3)), "muted is muted");
        let stale = Err((3, MhRejectionReason::StaleGeneration));
        assert_eq!(register.enforce(&meeting(), bob(), muted(5, 4), at(1)), stale);
        assert!(!register.release(&meeting(), 5) && register.release(&meeting(), 6));
        assert!(register.is_empty());
    }

    #[test]
    fn an_older_epoch_is_refused_and_the_held_one_is_told() {
        let mut register = Register::default();
        register.register(&meeting(), 5, ("mc-1", ""), at(0)).unwrap();
        assert_eq!(register.enforce(&meeting(), bob(), muted(5, 3), at(0)), Ok(3));
        assert_eq!(register.enforce(&meeting(), bob(), muted(5, 3), at(0)), Ok(3), "again is the same");
        let older = Mask { audio: false, ..muted(5, 2) };
        let refused = Err((3, MhRejectionReason::Unspecified));
        assert_eq!(register.enforce(&meeting(), bob(), older, at(0)), refused);
        assert!(register.get(&meeting()).unwrap().mask(bob()).unwrap().audio);
        // A meeting that began anew counts anew, under a greater generation.
        assert_eq!(register.enforce(&meeting(), bob(), muted(7, 1), at(0)), Ok(1));
        let nobody = Err((0, MhRejectionReason::Unspecified));
        let other = MeetingId::parse("other").unwrap();
        assert_eq!(register.enforce(&other, bob(), muted(1, 1), at(0)), nobody);
    }

    #[test]
    fn a_full_register_refuses_and_forgets_what_nobody_speaks_of() {
        let mut register = Register::default();
        let name = |index: usize| MeetingId::parse(&format!("m{index}")).unwrap();
        for index in 0..limits::MEETINGS {
            register.register(&name(index), 1, ("mc", ""), at(0)).unwrap();
        }
        let full = Err(MhRejectionReason::AtCapacity);
        assert_eq!(register.register(&meeting(), 1, ("mc", ""), at(1)), full);
        assert_eq!(register.register(&name(0), 1, ("mc", ""), at(3_600)), Ok(()), "a known one is not new");
        assert_eq!(register.register(&meeting(), 1, ("mc", ""), at(24 * 3_600)), Ok(()));
        assert_eq!(register.len(), 2);
    }
}
