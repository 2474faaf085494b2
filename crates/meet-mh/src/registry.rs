//! What controllers have said about a meeting: its owner, the mute masks and seats of its participants, who left, and
//! which grants were used. Plain rules, without a clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::Id;
use tenure_meet_wire::internal::MhRejectionReason;
use tenure_meet_wire::media::grant::HandlerKeys;
use tenure_meet_wire::media::message::MediaGrant;

use crate::limits;

/// What must not be forwarded of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MuteMask {
    /// The microphone.
    pub audio: bool,
    /// The camera and the screen.
    pub video: bool,
    /// The generation of the owner that set it.
    pub generation: u64,
    /// The mute epoch of that owner.
    pub epoch: u64,
}

/// What a participant may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MediaRights {
    /// Publish audio.
    pub send_audio: bool,
    /// Publish video and screens.
    pub send_video: bool,
    /// Subscribe.
    pub receive: bool,
}

/// The seat of a participant as its owner reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredSeat {
    /// The participant.
    pub participant: Id,
    /// The connection epoch. Grants of an older one are refused.
    pub epoch: u64,
    /// Its mask.
    pub mask: MuteMask,
    /// What it may do.
    pub rights: MediaRights,
}

/// The owner of a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The generation of its lease.
    pub generation: u64,
    /// Its id.
    pub mc_id: String,
    /// Its endpoint.
    pub mc_endpoint: String,
}

/// Another handler of a meeting.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HandlerPeer {
    /// Its id.
    pub id: String,
    /// Its endpoint.
    pub endpoint: String,
    /// Hashes of the certificates that it may present.
    pub certificates: Vec<Vec<u8>>,
}

/// A registration by the owner of a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The owner.
    pub owner: Owner,
    /// The keys that seal grants. Without them no participant is admitted.
    pub keys: Option<HandlerKeys>,
    /// How long the registration holds.
    pub lease: Duration,
    /// All seats.
    pub seats: Vec<RegisteredSeat>,
    /// The other handlers of the meeting.
    pub peers: Vec<HandlerPeer>,
}

/// A registered meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisteredMeeting {
    /// The owner. Calls of an older one are refused.
    pub owner: Owner,
    keys: Option<HandlerKeys>,
    masks: HashMap<Id, MuteMask>,
    /// Seats by their participants: the connection epoch and what they may do.
    seats: HashMap<Id, (u64, MediaRights)>,
    /// Participants that left, with the last epoch of their seat.
    left: HashMap<Id, (u64, Tick)>,
    spent: HashMap<Vec<u8>, Tick>,
    peers: Vec<HandlerPeer>,
    lease_until: Tick,
}

/// Why a participant is not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The meeting has no valid registration or the participant no mask yet: it may come.
    NotYet,
    /// The grant is not accepted, whatever comes.
    Refused(&'static str),
}

/// An admitted participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// The participant.
    pub participant: Id,
    /// Its mask.
    pub mask: MuteMask,
}

impl RegisteredMeeting {
    /// A meeting as first registered.
    pub fn new(registration: Registration, now: Tick) -> Self {
        let mut meeting = Self {
            owner: registration.owner.clone(),
            keys: None,
            masks: HashMap::new(),
            seats: HashMap::new(),
            left: HashMap::new(),
            spent: HashMap::new(),
            peers: Vec::new(),
            lease_until: now,
        };
        meeting.renew(registration, now);
        meeting
    }

    /// Registers the meeting again. Masks of an earlier owner stay until the new one replaces them.
    pub fn register(&mut self, registration: Registration, now: Tick) -> Result<(), MhRejectionReason> {
        if registration.owner.generation < self.owner.generation && !broken(Break::AcceptsOlderOwner) {
            return Err(MhRejectionReason::StaleGeneration);
        }
        self.renew(registration, now);
        Ok(())
    }

    fn renew(&mut self, registration: Registration, now: Tick) {
        if registration.owner.generation > self.owner.generation && !registration.seats.is_empty() {
            // Seats that the new owner does not know are gone. What is not known is not forwarded.
            let seats: HashSet<Id> = registration.seats.iter().map(|seat| seat.participant).collect();
            let generation = registration.owner.generation;
            self.masks.retain(|id, mask| seats.contains(id) || mask.generation >= generation);
            self.seats.retain(|id, _| seats.contains(id));
        }
        self.owner = registration.owner;
        if registration.keys.is_some() {
            self.keys = registration.keys;
        }
        self.peers = registration.peers;
        self.lease_until = now + registration.lease.min(limits::LEASE_MAX);
        for seat in registration.seats {
            // A mask that arrived on another way may be newer. The others of the registration still count.
            let _older = self.set_mask(seat.participant, seat.mask);
            if self.seats.len() < limits::PARTICIPANTS || self.seats.contains_key(&seat.participant) {
                self.seats.insert(seat.participant, (seat.epoch, seat.rights));
            }
        }
    }

    /// The keys that seal grants.
    pub fn keys(&self) -> Option<&HandlerKeys> {
        self.keys.as_ref()
    }

    /// The other handlers of the meeting.
    pub fn peers(&self) -> &[HandlerPeer] {
        &self.peers
    }

    /// Another handler of the meeting. Nothing is exchanged with one that the owner has not named.
    pub fn peer(&self, id: &str) -> Option<&HandlerPeer> {
        self.peers.iter().find(|peer| peer.id == id)
    }

    /// The mask of a participant. Without one, nothing of the participant may be forwarded.
    pub fn mask(&self, participant: Id) -> Option<MuteMask> {
        self.masks.get(&participant).copied()
    }

    /// What a participant may do, if its owner has said so.
    pub fn rights(&self, participant: Id) -> Option<MediaRights> {
        self.seats.get(&participant).map(|(_, rights)| *rights)
    }

    /// Whether the owner was heard of lately. Without it nothing is forwarded.
    pub fn is_alive(&self, now: Tick) -> bool {
        now < self.lease_until
    }

    /// When the registration ends.
    pub const fn lease_until(&self) -> Tick {
        self.lease_until
    }

    /// Sets a participant's mask. Returns the current epoch, also with the reason of a refusal.
    pub fn enforce(&mut self, participant: Id, mask: MuteMask) -> Result<u64, (u64, MhRejectionReason)> {
        if mask.generation < self.owner.generation {
            let epoch = self.mask(participant).map_or(0, |mask| mask.epoch);
            return Err((epoch, MhRejectionReason::StaleGeneration));
        }
        // Generations come from the lease: a greater one is a newer owner, registered or not.
        self.owner.generation = mask.generation;
        self.set_mask(participant, mask)
    }

    fn set_mask(&mut self, participant: Id, mask: MuteMask) -> Result<u64, (u64, MhRejectionReason)> {
        let before = self.mask(participant);
        if let Some(before) = before
            && (mask.generation, mask.epoch) < (before.generation, before.epoch)
        {
            return Err((before.epoch, MhRejectionReason::Unspecified));
        }
        if before.is_none() && self.masks.len() >= limits::PARTICIPANTS {
            return Err((0, MhRejectionReason::AtCapacity));
        }
        self.masks.insert(participant, mask);
        Ok(mask.epoch)
    }

    /// Removes a participant. Grants of its seat up to this epoch are refused from now on.
    pub fn remove(
        &mut self,
        participant: Id,
        epoch: u64,
        generation: u64,
        now: Tick,
    ) -> Result<(), MhRejectionReason> {
        if generation < self.owner.generation {
            return Err(MhRejectionReason::StaleGeneration);
        }
        self.owner.generation = generation;
        if self.left.len() >= limits::LEFT {
            // No grant of these is valid any more.
            self.left.retain(|_, (_, at)| now.since(*at) < limits::GRANT_LIFE);
        }
        let before = self.left.get(&participant).map_or(0, |(epoch, _)| *epoch);
        self.left.insert(participant, (epoch.max(before), now));
        self.masks.remove(&participant);
        self.seats.remove(&participant);
        Ok(())
    }

    /// Admits a participant by an opened grant. `current` is the epoch and the issue time of its present session. The
    /// grant is spent only when it is accepted.
    pub fn admit(
        &mut self,
        grant: &MediaGrant,
        current: Option<(u64, u64)>,
        now: Tick,
    ) -> Result<Admitted, Refusal> {
        let refused = |reason| Err(Refusal::Refused(reason));
        let Some(participant) = Id::parse(&grant.participant_id) else {
            return refused("participant");
        };
        if grant.generation < self.owner.generation {
            return refused("generation");
        }
        if self.left.get(&participant).is_some_and(|(epoch, _)| grant.epoch <= *epoch) {
            return refused("left");
        }
        if self.seats.get(&participant).is_some_and(|(epoch, _)| grant.epoch < *epoch) {
            return refused("epoch");
        }
        if current.is_some_and(|current| (grant.epoch, grant.issued_at_ms) <= current) {
            return refused("older");
        }
        if self.spent.contains_key(&grant.grant_id[..]) {
            return refused("spent");
        }
        let mask = self.mask(participant).filter(|mask| mask.epoch >= grant.mute_epoch);
        let Some(mask) = mask.filter(|_| self.is_alive(now)) else {
            return Err(Refusal::NotYet);
        };
        if self.spent.len() >= limits::SPENT_GRANTS {
            self.spent.retain(|_, at| now.since(*at) < limits::GRANT_LIFE);
        }
        if self.spent.len() >= limits::SPENT_GRANTS {
            return refused("busy");
        }
        self.spent.insert(grant.grant_id.to_vec(), now);
        Ok(Admitted { participant, mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    fn bob() -> Id {
        Id::parse("018bcfe5-6801-7000-8000-000000000000").unwrap()
    }

    fn muted(generation: u64, epoch: u64) -> MuteMask {
        MuteMask { audio: true, video: false, generation, epoch }
    }

    fn registration(generation: u64, seats: Vec<RegisteredSeat>) -> Registration {
        Registration {
            owner: Owner { generation, mc_id: format!("mc-{generation}"), mc_endpoint: String::new() },
            keys: None,
            lease: Duration::from_secs(30),
            seats,
            peers: Vec::new(),
        }
    }

    fn meeting(generation: u64) -> RegisteredMeeting {
        RegisteredMeeting::new(registration(generation, Vec::new()), at(0))
    }

    fn grant(epoch: u64, id: u8) -> MediaGrant {
        MediaGrant {
            participant_id: bob().to_string(),
            epoch,
            generation: 5,
            mute_epoch: 1,
            issued_at_ms: 100,
            grant_id: vec![id; 16].into(),
            ..MediaGrant::default()
        }
    }

    #[test]
    fn an_older_owner_is_refused_and_a_newer_owner_keeps_the_masks() {
        let mut meeting = meeting(5);
        assert_eq!(meeting.enforce(bob(), muted(5, 3)), Ok(3));
        let stale = Err(MhRejectionReason::StaleGeneration);
        assert_eq!(meeting.register(registration(4, Vec::new()), at(1)), stale);
        assert_eq!(meeting.register(registration(6, Vec::new()), at(1)), Ok(()));
        assert_eq!(meeting.owner.mc_id, "mc-6");
        assert_eq!(meeting.mask(bob()), Some(muted(5, 3)), "the mask stays");
        assert_eq!(meeting.enforce(bob(), muted(5, 4)), Err((3, MhRejectionReason::StaleGeneration)));
    }

    #[test]
    fn an_older_epoch_is_refused_with_the_current_one() {
        let mut meeting = meeting(5);
        assert_eq!(meeting.enforce(bob(), muted(5, 3)), Ok(3));
        assert_eq!(meeting.enforce(bob(), muted(5, 3)), Ok(3), "a repetition is accepted");
        let older = MuteMask { audio: false, ..muted(5, 2) };
        assert_eq!(meeting.enforce(bob(), older), Err((3, MhRejectionReason::Unspecified)));
        assert!(meeting.mask(bob()).unwrap().audio);
        // A reopened meeting restarts its epochs, with a greater generation.
        assert_eq!(meeting.enforce(bob(), muted(7, 1)), Ok(1));
    }

    #[test]
    fn a_registration_brings_masks_and_never_an_older_one() {
        let mut meeting = meeting(5);
        let rights = MediaRights { send_audio: true, send_video: true, receive: true };
        let seat = |mask| RegisteredSeat { participant: bob(), epoch: 2, mask, rights };
        meeting.register(registration(5, vec![seat(muted(5, 2))]), at(0)).unwrap();
        assert_eq!(meeting.mask(bob()), Some(muted(5, 2)));
        meeting.register(registration(5, vec![seat(muted(5, 1))]), at(0)).unwrap();
        assert_eq!(meeting.mask(bob()), Some(muted(5, 2)));
        assert_eq!(meeting.rights(bob()), Some(rights));
        assert_eq!(meeting.admit(&grant(1, 1), None, at(0)), Err(Refusal::Refused("epoch")));
        let eve = Id::parse("018bcfe5-6801-7000-8000-000000000001").unwrap();
        let other = RegisteredSeat { participant: eve, ..seat(muted(6, 1)) };
        meeting.register(registration(6, vec![other]), at(0)).unwrap();
        assert_eq!(meeting.mask(bob()), None, "a new owner names all seats");
        assert_eq!(meeting.mask(eve), Some(muted(6, 1)));
    }

    #[test]
    fn a_registration_lasts_as_long_as_its_owner_says() {
        let mut meeting = meeting(5);
        assert!(meeting.is_alive(at(29)) && !meeting.is_alive(at(30)));
        meeting.register(registration(5, Vec::new()), at(29)).unwrap();
        assert!(meeting.is_alive(at(58)));
        let long = Registration { lease: Duration::from_secs(86_400), ..registration(5, Vec::new()) };
        meeting.register(long, at(30)).unwrap();
        assert!(!meeting.is_alive(at(30) + limits::LEASE_MAX), "within a bound");
    }

    #[test]
    fn a_grant_is_accepted_once_and_only_with_a_mask() {
        let mut meeting = meeting(5);
        assert_eq!(meeting.admit(&grant(1, 1), None, at(0)), Err(Refusal::NotYet));
        meeting.enforce(bob(), muted(5, 1)).unwrap();
        let newer = MediaGrant { mute_epoch: 2, ..grant(1, 1) };
        assert_eq!(meeting.admit(&newer, None, at(0)), Err(Refusal::NotYet), "the mask is older");
        assert_eq!(meeting.admit(&grant(1, 1), None, at(31)), Err(Refusal::NotYet), "no owner");
        assert!(meeting.admit(&grant(1, 1), None, at(0)).is_ok());
        assert_eq!(meeting.admit(&grant(1, 1), None, at(0)), Err(Refusal::Refused("spent")));
    }

    #[test]
    fn a_session_is_replaced_only_by_a_newer_grant() {
        let mut meeting = meeting(5);
        meeting.enforce(bob(), muted(5, 1)).unwrap();
        for (current, admitted) in [
            (None, true),
            (Some((1, 500)), true),
            (Some((2, 99)), true),
            (Some((2, 100)), false),
            (Some((2, 101)), false),
            (Some((3, 0)), false),
        ] {
            let mut meeting = meeting.clone();
            assert_eq!(meeting.admit(&grant(2, 1), current, at(0)).is_ok(), admitted, "{current:?}");
        }
        let stale = MediaGrant { generation: 4, ..grant(2, 1) };
        assert_eq!(meeting.admit(&stale, None, at(0)), Err(Refusal::Refused("generation")));
        let odd = MediaGrant { participant_id: "bob".into(), ..grant(2, 1) };
        assert_eq!(meeting.admit(&odd, None, at(0)), Err(Refusal::Refused("participant")));
    }

    #[test]
    fn a_participant_that_left_comes_back_only_with_a_greater_epoch() {
        let mut meeting = meeting(5);
        meeting.enforce(bob(), muted(5, 1)).unwrap();
        assert_eq!(meeting.remove(bob(), 2, 4, at(0)), Err(MhRejectionReason::StaleGeneration));
        meeting.remove(bob(), 2, 5, at(0)).unwrap();
        meeting.remove(bob(), 1, 5, at(0)).unwrap();
        assert_eq!(meeting.mask(bob()), None);
        meeting.enforce(bob(), muted(5, 1)).unwrap();
        assert_eq!(meeting.admit(&grant(2, 1), None, at(0)), Err(Refusal::Refused("left")));
        assert!(meeting.admit(&grant(3, 1), None, at(0)).is_ok());
    }
}
