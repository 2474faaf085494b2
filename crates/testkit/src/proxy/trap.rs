//! Faults that happen once, at a certain byte or before a certain reply.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};

use super::Direction;
use crate::lock;

/// The active traps.
#[derive(Default)]
pub(super) struct Traps {
    armed: Mutex<Armed>,
    sprung: AtomicU64,
}

#[derive(Default)]
struct Armed {
    after_to_server: Option<u64>,
    after_to_client: Option<u64>,
    /// The bytes in the request whose reply is withheld; empty matches any request.
    before_reply: Option<Vec<u8>>,
}

impl Armed {
    fn after(&mut self, direction: Direction) -> &mut Option<u64> {
        match direction {
            Direction::ToServer => &mut self.after_to_server,
            Direction::ToClient => &mut self.after_to_client,
        }
    }
}

impl Traps {
    pub(super) fn arm_after(&self, direction: Direction, bytes: u64) {
        *lock(&self.armed).after(direction) = Some(bytes);
    }

    pub(super) fn arm_before_reply(&self, needle: Vec<u8>) {
        lock(&self.armed).before_reply = Some(needle);
    }

    pub(super) fn disarm(&self) {
        *lock(&self.armed) = Armed::default();
    }

    pub(super) fn sprung(&self) -> u64 {
        self.sprung.load(Ordering::SeqCst)
    }

    pub(super) fn count_sprung(&self) {
        self.sprung.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls `write` with as many of the `wanted` bytes as the trap allows.
    ///
    /// Writing and counting are atomic for callers that set a trap or read counters: a byte that has arrived is counted, and
    /// a new trap applies to later bytes only.
    pub(super) fn pass(
        &self,
        direction: Direction,
        wanted: usize,
        write: impl FnOnce(usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<Passed>> {
        let mut armed = lock(&self.armed);
        let after = armed.after(direction);
        if after.take_if(|left| *left == 0).is_some() {
            return Poll::Ready(Ok(Passed { bytes: 0, sprung: true }));
        }
        let allowed = after.map_or(wanted, |left| wanted.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let bytes = ready!(write(allowed))?;
        if let Some(left) = after {
            *left = left.saturating_sub(bytes as u64);
        }
        let sprung = after.take_if(|left| *left == 0).is_some();
        Poll::Ready(Ok(Passed { bytes, sprung }))
    }

    /// Runs `look` while no byte is written.
    pub(super) fn between_writes<T>(&self, look: impl FnOnce() -> T) -> T {
        let _still = lock(&self.armed);
        look()
    }

    /// Whether the reply to the request in `seen` must be withheld. Removes the trap if so.
    pub(super) fn marks(&self, seen: &mut Seen, request: &[u8]) -> bool {
        let mut armed = lock(&self.armed);
        let marked = armed.before_reply.take_if(|needle| seen.contains(needle, request)).is_some();
        seen.push(request, armed.before_reply.as_ref().map_or(0, Vec::len));
        marked
    }
}

/// The result of an attempt to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) bytes: usize,
    /// The trap was triggered: no byte may follow.
    pub(super) sprung: bool,
}

/// The tail of earlier bytes of a client, because the searched bytes may arrive in two pieces.
#[derive(Default)]
pub(super) struct Seen(Vec<u8>);

impl Seen {
    fn contains(&self, needle: &[u8], request: &[u8]) -> bool {
        // An empty needle matches the first piece.
        needle.is_empty() || [&self.0, request].concat().windows(needle.len()).any(|window| window == needle)
    }

    /// Keeps one byte less than the length of the needle, so that no match is found twice.
    fn push(&mut self, request: &[u8], needle: usize) {
        self.0.extend_from_slice(request);
        let surplus = self.0.len().saturating_sub(needle.saturating_sub(1));
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_recognised_across_two_pieces() {
        let traps = Traps::default();
        let mut seen = Seen::default();
        traps.arm_before_reply(b"EVALSHA".to_vec());
        assert!(!traps.marks(&mut seen, b"PING EVA"));
        assert!(traps.marks(&mut seen, b"LSHA x"));
        assert!(!traps.marks(&mut seen, b"EVALSHA again"));
    }

    /// How many of `wanted` bytes pass when the receiver accepts all of them.
    fn pass(traps: &Traps, direction: Direction, wanted: usize) -> (usize, bool) {
        match traps.pass(direction, wanted, |allowed| Poll::Ready(Ok(allowed))) {
            Poll::Ready(Ok(Passed { bytes, sprung })) => (bytes, sprung),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_are_counted_down_and_spring_the_trap_once() {
        let traps = Traps::default();
        traps.arm_after(Direction::ToServer, 5);
        assert_eq!(pass(&traps, Direction::ToServer, 3), (3, false));
        assert_eq!(pass(&traps, Direction::ToClient, 9), (9, false));
        assert_eq!(pass(&traps, Direction::ToServer, 3), (2, true));
        assert_eq!(pass(&traps, Direction::ToServer, 3), (3, false));
    }

    #[test]
    fn a_trap_on_the_next_byte_lets_none_pass() {
        let traps = Traps::default();
        traps.arm_after(Direction::ToClient, 0);
        assert_eq!(pass(&traps, Direction::ToClient, 3), (0, true));
    }

    #[test]
    fn a_receiver_that_takes_nothing_counts_nothing_down() {
        let traps = Traps::default();
        traps.arm_after(Direction::ToClient, 5);
        assert!(traps.pass(Direction::ToClient, 5, |_| Poll::Pending).is_pending());
        assert_eq!(pass(&traps, Direction::ToClient, 9), (5, true));
    }

    #[test]
    fn a_disarmed_trap_does_not_spring() {
        let traps = Traps::default();
        traps.arm_after(Direction::ToClient, 0);
        traps.arm_before_reply(Vec::new());
        traps.disarm();
        assert_eq!(pass(&traps, Direction::ToClient, 3), (3, false));
        assert!(!traps.marks(&mut Seen::default(), b"x"));
    }
}
