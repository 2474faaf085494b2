//! What watchers see.

use async_trait::async_trait;

use crate::{End, Generation, Holder, Key, Prefix, Result, Wall};

/// The place of a change in a store's order of changes; watchers resume from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Revision(u64);

impl Revision {
    /// Takes a revision that a store kept.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its place in the order.
    pub revision: Revision,
    /// When it was decided, for people.
    pub at: Wall,
    /// The key of the lease or record.
    pub key: Key,
    /// What happened.
    pub verb: Verb,
    /// Whose lease; none for records.
    pub holder: Option<Holder>,
    /// Under which generation; none for records.
    pub generation: Option<Generation>,
}

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// A reign began.
    Granted,
    /// A reign ended.
    Ended(End),
    /// A record was written.
    Written,
    /// A record was deleted.
    Deleted,
}

impl Verb {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Ended(end) => end.as_str(),
            Self::Written => "written",
            Self::Deleted => "deleted",
        }
    }

    /// The verb with this word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "granted" => Some(Self::Granted),
            "written" => Some(Self::Written),
            "deleted" => Some(Self::Deleted),
            other => End::parse(other).map(Self::Ended),
        }
    }
}

/// What a watch gives next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// A change, in order.
    Event(Event),
    /// Changes were missed: list again and go on from the revision of the list.
    Lagged,
}

/// An ordered stream of changes. A hint to look, never a proof of ownership.
#[async_trait]
pub trait Watch: Send {
    /// Waits for what comes next. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Watched>;
}

/// A watch of more than is asked for, and what is asked for.
pub(crate) struct Sieve {
    watch: Box<dyn Watch>,
    prefixes: Box<[Prefix]>,
}

impl Sieve {
    pub(crate) fn new(watch: Box<dyn Watch>, prefixes: &[Prefix]) -> Self {
        Self { watch, prefixes: prefixes.into() }
    }
}

#[async_trait]
impl Watch for Sieve {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            let watched = self.watch.next().await?;
            match &watched {
                Watched::Event(event) if !event.key.starts_with_any(&self.prefixes) => {}
                _ => return Ok(watched),
            }
        }
    }
}
