//! Move tickets: a client that was asked to move proves it to the target controller, and may wait there.
//!
//! `HMAC-SHA256(meeting_key, "move", participant_id, target mc_id, generation, expiry)` and the expiry. Each field has a
//! length prefix (two bytes, big-endian); numbers are eight bytes, big-endian. The meeting key is that of binding tokens.
//! A ticket admits no client: the resume that follows needs a JWT and a binding token.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::binding::{INFO, MasterSecret, Secrets};
use crate::{Id, MeetingId};

const MAC: usize = 32;
/// Bytes of a ticket.
pub const LENGTH: usize = MAC + 8;

/// The move that a ticket is for.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    /// The meeting.
    pub meeting: &'a MeetingId,
    /// The participant that moves.
    pub participant: Id,
    /// The controller that it moves to.
    pub target: &'a str,
    /// The generation of the owner that the meeting leaves.
    pub generation: u64,
}

impl Move<'_> {
    fn mac(&self, secret: &MasterSecret, expiry: [u8; 8]) -> [u8; MAC] {
        let key = secret.derive(self.meeting, INFO);
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return [0; MAC] };
        let participant = self.participant.to_string();
        let generation = self.generation.to_be_bytes();
        for field in [b"move", participant.as_bytes(), self.target.as_bytes(), &generation[..], &expiry[..]] {
            mac.update(&(field.len() as u16).to_be_bytes());
            mac.update(field);
        }
        mac.finalize().into_bytes().into()
    }

    /// Issues a ticket that is valid until `expiry_ms`, in milliseconds since 1970.
    pub fn issue(&self, secrets: &Secrets, expiry_ms: u64) -> Vec<u8> {
        let expiry = expiry_ms.to_be_bytes();
        [&self.mac(secrets.both().0, expiry)[..], &expiry[..]].concat()
    }

    /// Whether either secret issued the ticket for this move, and it has not expired. Compares in constant time.
    pub fn verify(&self, secrets: &Secrets, ticket: &[u8], now_ms: u64) -> bool {
        let Some((mac, expiry)) = ticket.split_at_checked(MAC) else { return false };
        let Ok(expiry) = <[u8; 8]>::try_from(expiry) else { return false };
        let (current, previous) = secrets.both();
        let mut good = mac.ct_eq(&self.mac(current, expiry));
        if let Some(previous) = previous {
            good |= mac.ct_eq(&self.mac(previous, expiry));
        }
        bool::from(good) && now_ms < u64::from_be_bytes(expiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(byte: u8) -> Secrets {
        Secrets::new(MasterSecret::new(vec![byte; 32]).unwrap())
    }

    #[test]
    fn a_ticket_is_for_one_participant_target_and_generation_until_it_expires() {
        let (meeting, other) = (MeetingId::parse("abc").unwrap(), MeetingId::parse("abd").unwrap());
        let id = |n: u8| Id::parse(&format!("018bcfe5-6800-7000-8000-0000000000{n:02x}")).unwrap();
        let moved = Move { meeting: &meeting, participant: id(1), target: "mc-2", generation: 7 };
        let ticket = moved.issue(&secrets(1), 10_000);
        assert_eq!(ticket.len(), LENGTH);
        assert!(moved.verify(&secrets(1), &ticket, 9_999));
        assert!(!moved.verify(&secrets(1), &ticket, 10_000), "expired");
        assert!(!moved.verify(&secrets(2), &ticket, 0), "another secret");
        for wrong in [
            Move { meeting: &other, ..moved },
            Move { participant: id(2), ..moved },
            Move { target: "mc-3", ..moved },
            Move { generation: 8, ..moved },
        ] {
            assert!(!wrong.verify(&secrets(1), &ticket, 0), "{wrong:?}");
        }
        let mut later = ticket.clone();
        later[LENGTH - 8] = 0xff;
        for bad in [later, ticket[..LENGTH - 1].to_vec(), [ticket.clone(), vec![0]].concat(), Vec::new()] {
            assert!(!moved.verify(&secrets(1), &bad, 0), "{bad:?}");
        }
    }

    #[test]
    fn a_ticket_of_the_previous_secret_is_still_valid() {
        let meeting = MeetingId::parse("abc").unwrap();
        let participant = Id::parse("018bcfe5-6800-7000-8000-000000000001").unwrap();
        let moved = Move { meeting: &meeting, participant, target: "mc-2", generation: 7 };
        let ticket = moved.issue(&secrets(1), 10);
        let secret = |byte| MasterSecret::new(vec![byte; 32]).unwrap();
        assert!(moved.verify(&Secrets::rotated(secret(2), secret(1)), &ticket, 0));
    }
}
