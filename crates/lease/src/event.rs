//! Changes and watches.

use async_trait::async_trait;

use crate::{End, Generation, Holder, Key, Prefix, Result, Wall};

/// The position of a change in a store's order of changes; watchers resume from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Revision(u64);

impl Revision {
    /// A revision from storage.
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
    /// Its position in the order.
    pub revision: Revision,
    /// When it was decided, for display.
    pub at: Wall,
    /// The key of the lease or record.
    pub key: Key,
    /// What happened.
    pub verb: Verb,
    /// The holder; `None` for records.
    pub holder: Option<Holder>,
    /// The generation; `None` for records.
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
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Ended(end) => end.as_str(),
            Self::Written => "written",
            Self::Deleted => "deleted",
        }
    }

    /// Parses [`Verb::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "granted" => Some(Self::Granted),
            "written" => Some(Self::Written),
            "deleted" => Some(Self::Deleted),
            other => End::parse(other).map(Self::Ended),
        }
    }
}

/// The next item of a watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Watched {
    /// A change, in order.
    Event(Event),
    /// Changes were missed: list again and resume from the revision of the list.
    Lagged,
}

/// An ordered stream of changes: a hint to read again, never proof of ownership.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next item. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Watched>;
}

/// A watch reduced to some prefixes.
pub(crate) struct PrefixFilter {
    watch: Box<dyn Watch>,
    prefixes: Box<[Prefix]>,
}

impl PrefixFilter {
    pub(crate) fn new(watch: Box<dyn Watch>, prefixes: &[Prefix]) -> Self {
        Self { watch, prefixes: prefixes.into() }
    }
}

#[async_trait]
impl Watch for PrefixFilter {
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
