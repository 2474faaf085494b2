//! Console sessions in memory. [`SessionFile`](super::session_file::SessionFile) stores them across restarts.

use std::collections::HashMap;
use std::time::Duration;

use super::secret::Digest;
use crate::scope::Scopes;

/// Open sessions. The one that ends first is evicted for a new one.
///
/// They are looked up by the digest of a 256-bit random id, so the duration of a lookup reveals nothing about an id.
#[derive(Debug)]
pub(super) struct Sessions {
    most: usize,
    sessions: HashMap<Digest, Session>,
}

/// The caller and scopes of a session, and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) scopes: Scopes,
    pub(super) until: Duration,
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self { most, sessions: HashMap::new() }
    }

    pub(super) fn insert(&mut self, digest: Digest, session: Session, now: Duration) {
        if self.sessions.len() >= self.most {
            self.sessions.retain(|_, session| session.until > now);
        }
        if self.sessions.len() >= self.most {
            let first =
                self.sessions.iter().min_by_key(|(_, session)| session.until).map(|(digest, _)| *digest);
            first.map(|digest| self.sessions.remove(&digest));
        }
        self.sessions.insert(digest, session);
    }

    pub(super) fn find(&mut self, digest: &Digest, now: Duration) -> Option<(String, Scopes)> {
        let session = self.sessions.get(digest)?;
        if session.until > now {
            return Some((session.name.clone(), session.scopes));
        }
        self.sessions.remove(digest);
        None
    }

    pub(super) fn remove(&mut self, digest: &Digest) {
        self.sessions.remove(digest);
    }

    pub(super) fn clear(&mut self) {
        self.sessions.clear();
    }

    /// Sessions that have not ended.
    pub(super) fn open(&self, now: Duration) -> impl Iterator<Item = (&Digest, &Session)> {
        self.sessions.iter().filter(move |(_, session)| session.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_that_ends_first_is_evicted() {
        let mut sessions = Sessions::new(2);
        let now = Duration::from_secs(100);
        for (age, id) in ["a", "b", "c"].into_iter().enumerate() {
            let until = now + Duration::from_secs(10 + age as u64);
            sessions.insert(
                Digest::of(id),
                Session { name: id.into(), scopes: Scopes::default(), until },
                now,
            );
        }
        assert!(sessions.find(&Digest::of("a"), now).is_none());
        assert!(sessions.find(&Digest::of("b"), now).is_some());
        assert!(sessions.find(&Digest::of("c"), now).is_some());
    }
}
