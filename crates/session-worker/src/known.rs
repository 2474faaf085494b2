//! The sessions that are not over, as this worker knows them: a round must not read again what ended in the last day.
//!
//! The worker alone writes records, and the store tells it of those that the door adds, so what it knows is what is there.
//! Where it may have missed something it reads everything, and once in a while anyway.

use std::collections::HashMap;

use lease::Tick;
use session::SessionId;

use crate::desk::{Broken, Entry};
use crate::orchestrator::Handle;
use crate::world::World;
use crate::{limits, scan};

#[derive(Default)]
pub(crate) struct Known {
    live: HashMap<SessionId, Entry>,
    /// When everything was last read. None: there is a doubt.
    read: Option<Tick>,
}

impl Known {
    /// Something may have been missed: everything is read before the next use.
    pub(crate) fn doubt(&mut self) {
        self.read = None;
    }

    /// What a record says now. Of two words about one session the later counts.
    pub(crate) fn note(&mut self, entry: Entry) {
        let id = &entry.session.id;
        if self.live.get(id).is_some_and(|known| known.revision > entry.revision) {
            return;
        }
        match entry.session.state.is_terminal() {
            true => drop(self.live.remove(id)),
            false => drop(self.live.insert(id.clone(), entry)),
        }
    }

    /// A record is gone.
    pub(crate) fn forget(&mut self, id: &SessionId) {
        self.live.remove(id);
    }

    /// Every session that is not over; those that run as they say themselves.
    pub(crate) async fn all(
        &mut self,
        world: &World,
        handles: &HashMap<SessionId, Handle>,
    ) -> Result<Vec<Entry>, Broken> {
        let now = world.clock.now();
        if self.read.is_none_or(|then| now.since(then) >= limits::READ_ALL) {
            let live = scan::live(world).await?;
            self.live = live.into_iter().map(|entry| (entry.session.id.clone(), entry)).collect();
            self.read = Some(now);
        }
        for handle in handles.values() {
            self.note(handle.entry.lock().clone());
        }
        Ok(self.live.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use lease::Revision;
    use session::{CorrelationId, IdempotencyKey, ProfileId, Session, State, Target, UnixMs};

    use super::*;

    fn entry(state: State, revision: u64) -> Entry {
        let session = Session::new(
            SessionId::new("s1").unwrap(),
            Target::new(Some("1:0:1:"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(7),
        );
        Entry { session: Session { state, ..session }, revision: Revision::new(revision) }
    }

    #[test]
    fn what_is_over_is_not_known_and_the_later_word_counts() {
        let mut known = Known::default();
        let states = |known: &Known| known.live.values().map(|entry| entry.session.state).collect::<Vec<_>>();
        known.note(entry(State::New, 1));
        known.note(entry(State::Ready, 3));
        known.note(entry(State::Starting, 2));
        assert_eq!(states(&known), [State::Ready]);
        known.note(entry(State::Stopped, 4));
        assert_eq!(states(&known), []);
    }
}
