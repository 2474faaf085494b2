//! Registered meetings and their mute masks: plain rules, without a clock.

use std::collections::HashMap;

use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::internal::MhRejectionReason;
use tenure_meet_wire::{Id, MeetingId};

use crate::limits;

/// What must not be forwarded of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MuteMask {
    /// The microphone.
    pub audio: bool,
    /// The camera.
    pub video: bool,
    /// The generation of the owner that set it.
    pub generation: u64,
    /// The mute epoch of that owner.
    pub epoch: u64,
}

/// A registered meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredMeeting {
    /// The owner's generation. Calls of an older one are refused.
    pub generation: u64,
    /// The owner's id.
    pub mc_id: String,
    /// The owner's endpoint.
    pub mc_endpoint: String,
    masks: HashMap<Id, MuteMask>,
    last_call: Tick,
}

/// The registered meetings of a handler.
#[derive(Clone, Default, Debug)]
pub struct MeetingRegistry {
    meetings: HashMap<MeetingId, RegisteredMeeting>,
}

impl RegisteredMeeting {
    /// The mask of a participant. Without one, nothing of the participant may be forwarded.
    pub fn mask(&self, participant: Id) -> Option<MuteMask> {
        self.masks.get(&participant).copied()
    }
}

impl MeetingRegistry {
    /// The number of meetings.
    pub fn len(&self) -> usize {
        self.meetings.len()
    }

    /// Whether there is no meeting.
    pub fn is_empty(&self) -> bool {
        self.meetings.is_empty()
    }

    /// A meeting.
    pub fn get(&self, meeting: &MeetingId) -> Option<&RegisteredMeeting> {
        self.meetings.get(meeting)
    }

    /// Registers a meeting. Masks of an earlier owner stay until the new one replaces them.
    pub fn register(
        &mut self,
        meeting: &MeetingId,
        generation: u64,
        (mc_id, mc_endpoint): (&str, &str),
        now: Tick,
    ) -> Result<(), MhRejectionReason> {
        if let Some(entry) = self.meetings.get_mut(meeting) {
            if generation < entry.generation && !broken(Break::AcceptsOlderOwner) {
                return Err(MhRejectionReason::StaleGeneration);
            }
            entry.generation = generation;
            entry.mc_id = mc_id.to_owned();
            entry.mc_endpoint = mc_endpoint.to_owned();
            entry.last_call = now;
            return Ok(());
        }
        if self.meetings.len() >= limits::MEETINGS {
            self.remove_idle(now);
        }
        if self.meetings.len() >= limits::MEETINGS {
            return Err(MhRejectionReason::AtCapacity);
        }
        let (mc_id, mc_endpoint) = (mc_id.to_owned(), mc_endpoint.to_owned());
        let entry =
            RegisteredMeeting { generation, mc_id, mc_endpoint, masks: HashMap::new(), last_call: now };
        self.meetings.insert(meeting.clone(), entry);
        Ok(())
    }

    /// Sets a participant's mask. Returns the current epoch, also with the reason of a refusal.
    pub fn enforce(
        &mut self,
        meeting: &MeetingId,
        participant: Id,
        mask: MuteMask,
        now: Tick,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        let entry = self.meetings.get_mut(meeting).ok_or((0, MhRejectionReason::Unspecified))?;
        let before = entry.masks.get(&participant).copied();
        let epoch = before.map_or(0, |before| before.epoch);
        if mask.generation < entry.generation {
            return Err((epoch, MhRejectionReason::StaleGeneration));
        }
        // Generations come from the lease: a greater one is a newer owner, registered or not.
        entry.generation = mask.generation;
        entry.last_call = now;
        if before.is_some_and(|before| (mask.generation, mask.epoch) < (before.generation, before.epoch)) {
            return Err((epoch, MhRejectionReason::Unspecified));
        }
        if before.is_none() && entry.masks.len() >= limits::PARTICIPANTS {
            return Err((0, MhRejectionReason::AtCapacity));
        }
        entry.masks.insert(participant, mask);
        Ok(mask.epoch)
    }

    /// Removes a meeting that ended. Calls of an older owner are ignored.
    pub fn release(&mut self, meeting: &MeetingId, generation: u64) -> bool {
        let known = self.meetings.get(meeting).is_some_and(|entry| generation >= entry.generation);
        if known {
            self.meetings.remove(meeting);
        }
        known
    }

    /// Removes meetings that were idle for a day.
    fn remove_idle(&mut self, now: Tick) {
        self.meetings.retain(|_, entry| now.since(entry.last_call) < limits::IDLE);
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

    fn muted(generation: u64, epoch: u64) -> MuteMask {
        MuteMask { audio: true, video: false, generation, epoch }
    }

    #[test]
    fn an_older_owner_is_refused_and_a_newer_owner_keeps_the_masks() {
        let mut registry = MeetingRegistry::default();
        let mc = |name| (name, "inproc:x");
        assert_eq!(registry.register(&meeting(), 5, mc("mc-1"), at(0)), Ok(()));
        assert_eq!(registry.enforce(&meeting(), bob(), muted(5, 3), at(0)), Ok(3));
        let stale = Err(MhRejectionReason::StaleGeneration);
        assert_eq!(registry.register(&meeting(), 4, mc("mc-0"), at(1)), stale);
        assert_eq!(registry.register(&meeting(), 6, mc("mc-2"), at(1)), Ok(()));
        assert_eq!(registry.get(&meeting()).unwrap().mc_id, "mc-2");
        assert_eq!(registry.get(&meeting()).unwrap().mask(bob()), Some(muted(5, 3)), "the mask stays");
        let stale = Err((3, MhRejectionReason::StaleGeneration));
        assert_eq!(registry.enforce(&meeting(), bob(), muted(5, 4), at(1)), stale);
        assert!(!registry.release(&meeting(), 5) && registry.release(&meeting(), 6));
        assert!(registry.is_empty());
    }

    #[test]
    fn an_older_epoch_is_refused_with_the_current_one() {
        let mut registry = MeetingRegistry::default();
        registry.register(&meeting(), 5, ("mc-1", ""), at(0)).unwrap();
        assert_eq!(registry.enforce(&meeting(), bob(), muted(5, 3), at(0)), Ok(3));
        assert_eq!(
            registry.enforce(&meeting(), bob(), muted(5, 3), at(0)),
            Ok(3),
            "a repetition is accepted"
        );
        let older = MuteMask { audio: false, ..muted(5, 2) };
        let refused = Err((3, MhRejectionReason::Unspecified));
        assert_eq!(registry.enforce(&meeting(), bob(), older, at(0)), refused);
        assert!(registry.get(&meeting()).unwrap().mask(bob()).unwrap().audio);
        // A reopened meeting restarts its epochs, with a greater generation.
        assert_eq!(registry.enforce(&meeting(), bob(), muted(7, 1), at(0)), Ok(1));
        let unknown = Err((0, MhRejectionReason::Unspecified));
        let other = MeetingId::parse("other").unwrap();
        assert_eq!(registry.enforce(&other, bob(), muted(1, 1), at(0)), unknown);
    }

    #[test]
    fn a_full_registry_refuses_and_drops_idle_meetings() {
        let mut registry = MeetingRegistry::default();
        let name = |index: usize| MeetingId::parse(&format!("m{index}")).unwrap();
        for index in 0..limits::MEETINGS {
            registry.register(&name(index), 1, ("mc", ""), at(0)).unwrap();
        }
        let full = Err(MhRejectionReason::AtCapacity);
        assert_eq!(registry.register(&meeting(), 1, ("mc", ""), at(1)), full);
        assert_eq!(
            registry.register(&name(0), 1, ("mc", ""), at(3_600)),
            Ok(()),
            "a known meeting is not new"
        );
        assert_eq!(registry.register(&meeting(), 1, ("mc", ""), at(24 * 3_600)), Ok(()));
        assert_eq!(registry.len(), 2);
    }
}
